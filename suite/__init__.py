"""A pytest performance-regression suite for SGLang servers."""
