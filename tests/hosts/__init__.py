"""Tests of the rooms where commands run."""
