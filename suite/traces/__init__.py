"""What SGLang's own profiler says: which part of a decoding step grew from one build to another, and which kernels."""
