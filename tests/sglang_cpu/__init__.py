"""Real SGLang on a machine without a GPU: environment, tiny checkpoints and torch stand-ins for the kernels."""
