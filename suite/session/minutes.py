"""``--minutes``: a plan is cut until it fits, and what then overruns is ended while there is still time to judge."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FrameType

import psutil
import pytest

from suite.config import ConfigError, Sizes
from suite.gate.status import UNDECIDED
from suite.session.collection import kind_of, launch_id_of, question_of
from suite.session.price import Price

SIGNAL = signal.SIGUSR2
FEWEST_ROUNDS = 3
"""Rounds are not cut below this: what is left would say little of how they scatter."""
CORE = (
    "activation", "canary", "acceptance", "decode", "speedup", "prefill", "lossless", "log", "configuration",
)  # fmt: skip
WORTH = (*CORE, "spellings", "startup", "steptime", "steadiness", "depth", "backends", "traffic")
"""Kinds of scenario, what is given up last first."""


class TimeIsUp(KeyboardInterrupt):
    """Something took longer than it was to: it is broken off, and what there is gets judged."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A plan that fits: its sizes, its items, and what was given up for it, by name."""

    sizes: Sizes
    items: list[pytest.Item]
    left_out: list[str]


def fitted(
    items: Sequence[pytest.Item],
    sizes: Sizes,
    seconds: float,
    price: Callable[[Sequence[pytest.Item], Sizes], Price],
    fewest_launches: int = 1,
) -> Cut:
    """The plan, or as much of it as fits into ``seconds``.

    First looks are given up, then launches down to ``fewest_launches``, then rounds down to three, then questions, those of the least
    worth and the largest sizes first.

    Raises:
        ConfigError: nothing fits; the text says what the least would take.
    """
    last = Cut(sizes, list(items), [])
    for cut in _smaller(items, sizes, price, fewest_launches):
        if price(cut.items, cut.sizes).seconds <= seconds:
            return cut
        last = cut
    needed = price(last.items, last.sizes).seconds
    raise ConfigError(
        f"--minutes leaves {max(0.0, seconds) / 60:.1f} minutes to measure in, and the least of this plan takes about "
        f"{needed / 60:.1f}: {', '.join(_named(last.items))}. Give it more time, or select less (-k)"
    )


def _smaller(
    items: Sequence[pytest.Item],
    sizes: Sizes,
    price: Callable[[Sequence[pytest.Item], Sizes], Price],
    fewest_launches: int,
) -> Iterator[Cut]:
    """The plan, and ever smaller ones."""
    given_up: list[str] = []
    for now in _fewer(sizes, fewest_launches):
        kept = _within(items, now)
        given_up = _given_up(sizes, now)
        yield Cut(now, kept, given_up)
    while (gone := _next_to_go(kept, now, price)) is not None:
        kept = [item for item in kept if _name(item) not in gone]
        given_up = [*given_up, *gone]
        yield Cut(now, kept, given_up)


def _next_to_go(
    kept: Sequence[pytest.Item],
    sizes: Sizes,
    price: Callable[[Sequence[pytest.Item], Sizes], Price],
) -> list[str] | None:
    """The questions of the least worth without which the plan takes less; ``None`` where only one would be left.

    A question whose rounds others need as well saves nothing by itself: it goes with those.
    """
    whole = price(kept, sizes)
    worth = _worth(kept)
    alone = [[name] for name in worth]
    together = [_with(name, kept, whole) for name in worth]
    for gone in sorted(
        [*alone, *together], key=lambda names: min(worth[name] for name in names), reverse=True
    ):
        rest = [item for item in kept if _name(item) not in gone]
        if rest and price(rest, sizes).seconds < whole.seconds:
            return gone
    return None


def _with(name: str, items: Sequence[pytest.Item], whole: Price) -> list[str]:
    """A question and all that are answered by the same rounds."""
    none: frozenset[object] = frozenset()
    its = {play for item in items if _name(item) == name for play in whole.plays.get(item.nodeid, none)}
    others = [_name(item) for item in items if its & whole.plays.get(item.nodeid, none)]
    return list(dict.fromkeys([name, *others]))


def _fewer(sizes: Sizes, fewest_launches: int) -> Iterator[Sizes]:
    """Fewer looks, then fewer launches, then fewer rounds."""
    least = min(sizes.launches, fewest_launches)
    for looks in range(sizes.looks, 0, -1):
        yield sizes.model_copy(update={"looks": looks})
    for launches in range(sizes.launches - 1, least - 1, -1):
        yield sizes.model_copy(update={"looks": 1, "launches": launches})
    for rounds in range(sizes.rounds - 1, FEWEST_ROUNDS - 1, -1):
        yield sizes.model_copy(update={"looks": 1, "launches": least, "rounds": rounds})


def _within(items: Sequence[pytest.Item], sizes: Sizes) -> list[pytest.Item]:
    """The items of so many launches and looks."""
    most = sizes.launches * sizes.looks
    return [
        item for item in items if launch_id_of not in item.stash or item.stash[launch_id_of].number <= most
    ]


def _given_up(planned: Sizes, now: Sizes) -> list[str]:
    told = []
    for name, what in (("looks", "looks"), ("launches", "launches of each arm"), ("rounds", "rounds")):
        before, left = getattr(planned, name), getattr(now, name)
        if left < before:
            told.append(f"{before - left} of {before} {what}")
    return told


def _name(item: pytest.Item) -> str:
    return item.stash.get(question_of, item.nodeid)


def _named(items: Sequence[pytest.Item]) -> list[str]:
    return list(dict.fromkeys(_name(item) for item in items))


def _worth(items: Sequence[pytest.Item]) -> dict[str, tuple[int, int]]:
    """By question how soon it is given up (higher: sooner); those that are put last come first.

    Whole kinds that are not the core of a gate go first, then all but the first size of each scenario, so that what
    little is left still asks a bit of everything.
    """
    place = {kind: number for number, kind in enumerate(WORTH)}
    first: dict[str, str] = {}
    for item in items:
        first.setdefault(_name(item).partition("[")[0], _name(item))
    worth = {}
    for item in reversed(items):
        name = _name(item)
        rank = place.get(kind_of(item) or "", len(WORTH))
        sooner = 2 if rank >= len(CORE) else int(first[name.partition("[")[0]] != name)
        worth[name] = (sooner, rank)
    return worth


def reserve_s(minutes: float, end_s: float) -> float:
    """Seconds to keep for ending the server (twice what that takes), judging and writing."""
    return 2 * end_s + min(60.0, max(6.0, 0.1 * minutes * 60))


class Deadline:
    """The moment by which all must be over, servers down and the verdict written.

    Args:
        minutes: from the start of this process on.
        reserve_s: how long before it nothing is measured any more.
    """

    def __init__(self, minutes: float, reserve_s: float) -> None:
        self.minutes = minutes
        begun_s = time.time() - psutil.Process().create_time()
        self._strikes = time.monotonic() - begun_s + minutes * 60
        self.reserve_s = reserve_s
        self.status: int | None = None
        """The exit status, once the verdict is written: what is left to do after it is no loss."""
        self._timers: list[threading.Timer] = []

    @property
    def left_s(self) -> float:
        """Seconds to measure in."""
        return self._strikes - self.reserve_s - time.monotonic()

    @property
    def reason(self) -> str:
        """Why the run ends early."""
        return f"--minutes {self.minutes:g} leave no more time"

    def fits(self, seconds: float) -> bool:
        """Is there time for something that takes so long?"""
        return seconds <= self.left_s

    def watch(self) -> None:
        """From now on, break off what overruns, in the main thread; at the very end, end the process."""
        signal.signal(SIGNAL, self._break_off)
        main = threading.main_thread().ident
        assert main is not None
        self._after(self.left_s, lambda: signal.pthread_kill(main, SIGNAL))
        self._after(self._strikes - time.monotonic() - 1.0, self._strike)

    def _after(self, seconds: float, do: Callable[[], None]) -> None:
        timer = threading.Timer(max(0.0, seconds), do)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _break_off(self, number: int, frame: FrameType | None) -> None:
        raise TimeIsUp(self.reason)

    def measured(self) -> None:
        """Nothing is measured any more: there is nothing to break off."""
        if self._timers:
            self._timers[0].cancel()
            signal.signal(SIGNAL, signal.SIG_IGN)

    def _strike(self) -> None:
        """Even the ending took too long. Servers end with this process; the journal has all that was measured."""
        if self.status is None:
            told = (
                f"\n--minutes {self.minutes:g} are over, and the run was not: ended; what it measured is in its "
                "journal (python -m suite judge RUN)\n"
            )
            with contextlib.suppress(OSError):
                os.write(2, told.encode())
        os._exit(UNDECIDED if self.status is None else self.status)

    def over(self) -> None:
        """The process is about to end in time."""
        self.measured()
        for timer in self._timers:
            timer.cancel()
