"""One run of the suite: what is launched in which order, what was measured, how it is judged and kept."""
