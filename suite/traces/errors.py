"""What can go wrong with a profile."""

from __future__ import annotations

from suite.sglang.errors import ProbeError


class TraceError(ProbeError):
    """A profile could not be taken or read; the text says what happened, where, and what to do next."""
