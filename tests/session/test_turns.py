"""Whose turn it is: in a duet neither build gains by its place, whatever a place is worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate.duet import Rounds, itself, pairs_of
from suite.session.turns import Turns

SIZE = st.floats(-3.0, 3.0)


class Machine:
    """Two servers on it, and what it does to whoever plays; signed logs, + = worse.

    first: what it costs to be asked first in a round; rested: to have waited since another played; cold: a server's
    first rounds of a workload; drift: each turn.
    """

    def __init__(self, first: float, rested: float, cold: float, drift: float) -> None:
        self.first, self.rested, self.cold, self.drift = first, rested, cold, drift
        self.turns = 0
        self.last: Server | None = None

    def costs(self, server: Server) -> float:
        self.turns += 1
        cost = self.drift * self.turns
        cost += self.first if self.turns % 2 else 0.0
        cost += self.rested if self.last is not server else 0.0
        cost += self.cold if not server.warm else 0.0
        self.last, server.warm = server, True
        return cost


class Server:
    """A turn's server; it keeps what its counted rounds cost."""

    def __init__(self, machine: Machine, level: float) -> None:
        self.machine, self.level = machine, level
        self.warm = False
        self.kept: list[float] = []
        self._now: float | None = None

    @property
    def unkept(self) -> bool:
        return self._now is not None

    def before(self) -> None:
        pass

    def play(self) -> None:
        self._now = self.level + self.machine.costs(self)

    def after(self) -> None:
        assert self._now is not None
        self.kept.append(self._now)
        self._now = None

    def uncounted(self) -> None:
        self.machine.costs(self)


def play(turns: Turns, mine: Server, rounds: int) -> None:
    """As an item plays its rounds."""
    turns.uncounted()
    for number in range(rounds):
        turns.before(number)
        mine.play()
        turns.after(number)


def played(machine: Machine, levels: tuple[float, float], rounds: int, *, other_first: bool) -> list[Server]:
    mine, other = (Server(machine, level) for level in levels)
    turns = Turns(mine, other, other_first=other_first)
    play(turns, mine, rounds)
    return [mine, other]


@settings(deadline=None)
@given(
    st.builds(Machine, first=SIZE, rested=SIZE, cold=SIZE, drift=SIZE),
    SIZE,
    st.integers(2, 9),
    st.booleans(),
    st.booleans(),
)
def test_an_order_a_cold_first_round_and_a_drift_of_any_size_are_nobodys_change(
    machine: Machine, slower: float, rounds: int, other_first: bool, candidates_item: bool
) -> None:
    mine, other = played(
        machine, (slower, 0.0) if candidates_item else (0.0, slower), rounds, other_first=other_first
    )
    old, new = (other, mine) if candidates_item else (mine, other)
    told = Rounds([np.array(old.kept)], [np.array(new.kept)])
    assert len(mine.kept) == len(other.kept) == rounds
    assert pairs_of(told).change[0, 0] == pytest.approx(slower, abs=1e-9)
    if rounds >= 4:
        assert itself(told) == pytest.approx(0.0, abs=1e-9)


@settings(deadline=None)
@given(st.integers(1, 9), st.booleans())
def test_the_order_is_reversed_in_every_round(rounds: int, other_first: bool) -> None:
    order: list[str] = []

    class Noting(Server):
        def play(self) -> None:
            super().play()
            order.append("mine" if self is mine else "other")

        def uncounted(self) -> None:
            order.append("mine" if self is mine else "other")

    machine = Machine(0, 0, 0, 0)
    mine, other = Noting(machine, 0), Noting(machine, 0)
    turns = Turns(mine, other, other_first=other_first)
    play(turns, mine, rounds)
    one, two = ("other", "mine") if other_first else ("mine", "other")
    reversed_, straight = [two, one], [one, two]
    assert order == [name for n in range(rounds + 1) for name in (straight if n % 2 else reversed_)]


def test_alone_a_server_plays_what_counts_and_nothing_else() -> None:
    machine = Machine(0, 0, 1.0, 0)
    alone = Server(machine, 0.5)
    turns = Turns(alone)
    play(turns, alone, 3)
    assert machine.turns == 3
    assert alone.kept == [1.5, 0.5, 0.5]
