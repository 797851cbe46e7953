"""Tests of the simulator: its model in virtual time, its command line, and its answers as a process."""
