"""Plays items launch by launch: what an earlier try has finished is told again, what ends is kept, a stop is heeded."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol

import pytest

from suite.gate import Outcome
from suite.session.collection import launch_id_of
from suite.session.entries import Complete, Item
from suite.session.outcomes import AnotherBuild, ArmUnavailable, raised_again
from suite.session.plan import LaunchId
from suite.session.price import Price
from suite.session.run import Run
from suite.session.stopping import StoppedEarly


class ItemMemory(Protocol):
    """What scenarios leave behind for later ones: rows of tables, answers and scores to compare with."""

    def mark(self) -> None:
        """From here on, what is left belongs to the next item."""

    def left(self) -> dict[str, Any]:
        """What was left since: ``rows``, ``notes`` and ``kept`` of an entry."""

    def restore(self, stored: Item) -> None:
        """Leave what an item left in an earlier try."""


outcome_key = pytest.StashKey[Outcome]()
"""How a scenario's item ended."""


class Playing:
    """Plays the items of one run.

    Args:
        run: gives the run, begun when first asked for.
        memory: what scenarios leave for one another.
        prices: how long items and launches are expected to take.
        done: launches that an earlier try has finished.
    """

    def __init__(
        self,
        run: Callable[[], Run],
        memory: ItemMemory,
        prices: Price,
        done: Collection[LaunchId] = (),
    ) -> None:
        self._run = run
        self._prices = prices
        self._memory = memory
        self._done = frozenset(done)

    def play(self, session: pytest.Session, items: Sequence[pytest.Item]) -> None:
        """As pytest's own loop plays all items: play these, and leave nothing set up after the last."""
        unsettled: set[LaunchId] = set()
        for item, following in itertools.zip_longest(items, items[1:]):
            launch_id = item.stash.get(launch_id_of, None)
            if launch_id is not None and not self._scenario(item, launch_id, following):
                unsettled.add(launch_id)
            if launch_id is None:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            elif following is None or following.stash.get(launch_id_of, None) != launch_id:
                self._leave(launch_id, launch_id not in unsettled)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _scenario(self, item: pytest.Item, launch_id: LaunchId, following: pytest.Item | None) -> bool:
        """Play one item, or tell what it said before; is it settled?"""
        run = self._run()
        stored = run.told.item(item.nodeid) if launch_id in self._done else None
        if stored is None:
            self._time_for(item, launch_id)
        reason = run.stopping.reason
        if stored is not None:
            if run.outlook is not None:
                run.outlook.told_again(launch_id)
            self._memory.restore(stored)
            _instead(item, lambda: _say_again(stored))
        elif reason is not None:
            _instead(item, lambda: pytest.skip(f"not measured: {reason}"))
        self._memory.mark()
        began = time.monotonic() - run.launching_s
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if run.outlook is not None:
            run.outlook.item_over(item.nodeid)
        outcome = item.stash.get(outcome_key, None)
        if stored is not None:
            return True
        if reason is not None or outcome is None:
            return False
        run.note(
            Item(
                item=item.nodeid,
                number=launch_id.number,
                outcome=outcome,
                at=time.time(),
                seconds=time.monotonic() - run.launching_s - began,
                **self._memory.left(),
                build=launch_id.build,
            )
        )
        return settles(outcome)

    def _time_for(self, item: pytest.Item, launch_id: LaunchId) -> None:
        """Ask for the end if there is no time for an item and the launch that it needs."""
        stopping, prices = self._run().stopping, self._prices
        if stopping.deadline is None:
            return
        needed = prices.of_item.get(item.nodeid, 0.0)
        if not self._run().is_up(launch_id):
            needed += prices.of_launch.get(launch_id, 0.0)
        if not stopping.deadline.fits(needed):
            stopping.ask(stopping.deadline.reason)

    def _leave(self, launch_id: LaunchId, settled: bool) -> None:
        """All items of a launch were played."""
        if settled and launch_id not in self._run().told.complete:
            self._run().note(Complete(launch_id.arm, launch_id.number, launch_id.build))


def _instead(item: pytest.Item, say: Callable[[], None]) -> None:
    """Have an item say something without its fixtures, so that nothing is launched for it."""
    item.setup = lambda: None  # type: ignore[method-assign]
    item.runtest = say  # type: ignore[method-assign]


def settles(outcome: Outcome) -> bool:
    """Would asking again, when the run is taken up again, tell nothing new? Not after what says nothing of the server."""
    lost = (StoppedEarly.__name__, ArmUnavailable.__name__, AnotherBuild.__name__)
    return outcome.word != "infrastructure" and outcome.kind != "launch" and outcome.name not in lost


def _say_again(stored: Item) -> None:
    """End as an item ended before."""
    if (error := raised_again(stored.outcome)) is not None:
        raise error
