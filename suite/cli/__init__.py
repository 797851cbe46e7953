"""The commands of ``python -m suite``."""
