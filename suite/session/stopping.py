"""Ending a run before its end: asked for from anywhere, heeded between two rounds."""

from __future__ import annotations

from suite.session.minutes import Deadline
from suite.session.outcomes import Unproven


class StoppedEarly(Unproven):
    """The run was to end, so this was not measured, or not to its end."""


class Stopping:
    """Whether, and why, the run is to end early. What was measured is judged all the same."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.deadline: Deadline | None = None

    def ask(self, reason: str) -> None:
        """End after the round in progress; the first reason stands."""
        self.reason = self.reason or reason

    def check(self, seconds: float = 0.0) -> None:
        """Raise StoppedEarly if the run is to end, or leaves no time for what takes so many ``seconds``."""
        if self.deadline is not None and not self.deadline.fits(seconds):
            self.ask(self.deadline.reason)
        if self.reason is not None:
            raise StoppedEarly(f"not measured: {self.reason}")
