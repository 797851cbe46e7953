"""What can go wrong with a profile."""

from __future__ import annotations


class TraceError(Exception):
    """A profile could not be taken or read; the text says what happened, where, and what to do next."""
