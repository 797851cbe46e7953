"""Checkpoint directories to start the simulator with: the real configuration, next to no weights."""
