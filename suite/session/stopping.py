"""Ending a run before its end: asked for from anywhere, heeded between two rounds."""

from __future__ import annotations

from suite.session.outcomes import Unproven


class StoppedEarly(Unproven):
    """The run was to end, so this was not measured, or not to its end."""


class Stopping:
    """Whether, and why, the run is to end early. What was measured is judged all the same."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def ask(self, reason: str) -> None:
        """End after the round in progress; the first reason stands."""
        self.reason = self.reason or reason

    def check(self) -> None:
        """Raise StoppedEarly if the run is to end."""
        if self.reason is not None:
            raise StoppedEarly(f"not measured: {self.reason}")
