"""Whose turn it is: one server plays round after round, or in a duet the servers of both builds in turn."""

from __future__ import annotations

import time
from typing import Protocol

UNCOUNTED = -1
"""The number of the round before the first: a duet plays it and keeps nothing of it."""


class Turn(Protocol):
    """One server's part of a round."""

    @property
    def unkept(self) -> bool:
        """Was a round played that is not kept yet?"""

    def before(self) -> None:
        """What is not timed: an empty prefix cache."""

    def play(self) -> None:
        """Send the requests."""

    def after(self) -> None:
        """Keep the round."""

    def uncounted(self) -> None:
        """Play a round of the same requests and keep nothing of it."""


def begins(round_: int, *, other_first: bool) -> bool:
    """Does the other build's server go first in this round? The order is reversed from round to round."""
    return (round_ % 2 == 1) != other_first


class Turns:
    """The turns of each round.

    With the order reversed in every round, whoever goes first has just played, and whoever goes second has waited for
    two rounds. That holds from the round `UNCOUNTED` on, which is played for the sake of it; and what being first is
    worth is the same for both builds, so that it cancels between rounds of either order (`suite.gate.duet`).

    Args:
        mine: of the server whose item is played.
        other: in a duet of the other build's server.
        other_first: it goes first in the first round that counts.
    """

    def __init__(self, mine: Turn, other: Turn | None = None, *, other_first: bool = False) -> None:
        self.mine = mine
        self.other = other
        self._other_first = other_first
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the last round began."""
        return time.monotonic() - self._began

    def uncounted(self) -> None:
        """In a duet, the round before the first."""
        if self.other is None:
            return
        both = (self.mine, self.other)
        for turn in reversed(both) if begins(UNCOUNTED, other_first=self._other_first) else both:
            turn.uncounted()

    def before(self, round_: int) -> None:
        """All of a round that comes before the turn of this item's server."""
        self._began = time.monotonic()
        if begins(round_, other_first=self._other_first):
            self._others()
        self.mine.before()

    def after(self, round_: int) -> None:
        """All of it that comes after."""
        self.mine.after()
        if not begins(round_, other_first=self._other_first):
            self._others()

    def _others(self) -> None:
        if self.other is not None:
            self.other.before()
            self.other.play()
            self.other.after()
