"""What can go wrong before a rehearsal; each text says what to do next."""

from __future__ import annotations

from suite.sglang.errors import ProbeError


class RehearsalError(ProbeError):
    """Nothing could be rehearsed."""


class UnknownCards(RehearsalError):
    """No such cards are known, and the machine has none to ask."""
