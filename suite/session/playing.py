"""Plays items launch by launch: what an earlier try has finished is told again, what ends is kept, a stop is heeded."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import pytest

from suite import redact
from suite.session.collection import slot_of
from suite.session.entries import Complete, Item
from suite.session.outcomes import BrokenPromise, Unproven
from suite.session.plan import Slot
from suite.session.run import Run
from suite.session.stopping import StoppedEarly

Word = Literal["passed", "failed", "broken", "skipped", "xfailed"]


@dataclass(frozen=True, slots=True)
class Ending:
    """How an item ended. ``settled``: to ask again would tell nothing new, since the server did answer."""

    word: Word
    text: str = ""
    kind: str = ""
    retry: bool = False
    settled: bool = True


class Memory(Protocol):
    """What scenarios leave behind for later ones: rows of tables, answers and scores to compare with."""

    def mark(self) -> None:
        """From here on, what is left belongs to the next item."""

    def left(self) -> dict[str, Any]:
        """What was left since: ``rows``, ``notes`` and ``kept`` of an entry."""

    def restore(self, stored: Item) -> None:
        """Leave what an item left in an earlier try."""


class EarlierFailure(Exception):
    """What an item said in an earlier try of this run."""


class EarlierDoubt(Unproven):
    """The same, where running again may help."""


ending_of = pytest.StashKey[Ending]()


class Playing:
    """Plays the items of one run.

    Args:
        run: gives the run, begun when first asked for.
        memory: what scenarios leave for one another.
        done: launches, by arm and number, that an earlier try has finished.
    """

    def __init__(
        self, run: Callable[[], Run], memory: Memory, done: Collection[tuple[str, int]] = ()
    ) -> None:
        self._run = run
        self._memory = memory
        self._done = frozenset(done)

    def play(self, session: pytest.Session, items: Sequence[pytest.Item]) -> None:
        """As pytest's own loop plays all items: play these, and leave nothing set up after the last."""
        unsettled: set[Slot] = set()
        for item, following in itertools.zip_longest(items, items[1:]):
            slot = item.stash.get(slot_of, None)
            if slot is not None and not self._scenario(item, slot, following):
                unsettled.add(slot)
            if slot is None:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            elif following is None or following.stash.get(slot_of, None) != slot:
                self._leave(slot, slot not in unsettled)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)

    def _scenario(self, item: pytest.Item, slot: Slot, following: pytest.Item | None) -> bool:
        """Play one item, or tell what it said before; is it settled?"""
        run = self._run()
        stored = run.told.items.get(item.nodeid) if (slot.arm, slot.launch) in self._done else None
        reason = run.stopping.reason
        if stored is not None:
            self._memory.restore(stored)
            _instead(item, lambda: _say_again(stored))
        elif reason is not None:
            _instead(item, lambda: pytest.skip(f"not measured: {reason}"))
        self._memory.mark()
        began = time.monotonic()
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        ending = item.stash.get(ending_of, None)
        if stored is not None:
            return True
        if reason is not None or ending is None:
            return False
        run.note(
            Item(
                item=item.nodeid,
                arm=slot.arm,
                number=slot.launch,
                word=ending.word,
                at=time.time(),
                seconds=time.monotonic() - began,
                text=redact.scrub(ending.text),
                kind=ending.kind,
                retry=ending.retry,
                **self._memory.left(),
            )
        )
        return ending.settled

    def _leave(self, slot: Slot, settled: bool) -> None:
        """All items of a launch were played."""
        known = (slot.arm, slot.launch)
        if settled and known not in self._run().told.complete:
            self._run().note(Complete(slot.arm, slot.launch))


def _instead(item: pytest.Item, say: Callable[[], None]) -> None:
    """Have an item say something without its fixtures, so that nothing is launched for it."""
    item.setup = lambda: None  # type: ignore[method-assign]
    item.runtest = say  # type: ignore[method-assign]


def _say_again(stored: Item) -> None:
    """End as an item ended before."""
    if stored.word == "skipped":
        pytest.skip(stored.text)
    if stored.word in ("failed", "xfailed"):
        raise BrokenPromise(stored.text)
    if stored.word == "broken":
        raise EarlierDoubt(stored.text) if stored.retry else EarlierFailure(stored.text)


def ending(
    report: pytest.TestReport, call: pytest.CallInfo[None], unsettling: tuple[type[Exception], ...]
) -> Ending | None:
    """How a phase of an item ended; ``None`` for one that says nothing of the item.

    Args:
        unsettling: exceptions after which an item is worth asking again when the run is taken up again.
    """
    error = call.excinfo.value if call.excinfo is not None else None
    text = _text(report, error)
    kind = type(error).__name__ if error is not None else ""
    if hasattr(report, "wasxfail"):
        return Ending("xfailed" if report.skipped else "passed", text, kind)
    if report.skipped:
        return Ending("skipped", text, kind)
    if report.failed:
        if error is None or isinstance(error, AssertionError | pytest.fail.Exception):
            return Ending("failed", text, kind)
        retry = bool(getattr(error, "retry", False))
        return Ending("broken", text, kind, retry, not isinstance(error, (StoppedEarly, *unsettling)))
    return Ending("passed") if report.when == "call" else None


def _text(report: pytest.TestReport, error: BaseException | None) -> str:
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    if report.failed and error is not None and not str(error):
        return str(report.longrepr)
    return str(error) if error is not None else str(report.longrepr or "")
