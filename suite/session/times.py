"""How long things took on a target in former runs, and so how long they will take: starts, rounds, items, endings."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median

import msgspec

from suite.config import Sizes, Target
from suite.gate import GateError
from suite.gate.baselines import slug
from suite.gate.files import read, render, write_together
from suite.session.asked import load_of
from suite.session.entries import Entry, Item, Launching, Measured, Ready, RoundDone, ServerEnded

FORMAT, VERSION = "sglang-perf-times", 1
KEPT = 9
"""Of each thing the last so many times are kept."""
ENDING_S = 10.0
"""What ending a server takes where nothing was measured, at most the target's ``drain_s``."""


class Times(msgspec.Struct):
    """Seconds, newest last: ready by arm, endings, and by arm those of rounds and warm-ups by load, of items by question."""

    format: str = FORMAT
    version: int = VERSION
    starts: dict[str, list[float]] = msgspec.field(default_factory=dict)
    ends: list[float] = msgspec.field(default_factory=list)
    rounds: dict[str, dict[str, list[float]]] = msgspec.field(default_factory=dict)
    warmups: dict[str, dict[str, list[float]]] = msgspec.field(default_factory=dict)
    items: dict[str, dict[str, list[float]]] = msgspec.field(default_factory=dict)


def path_of(results: Path, target: str) -> Path:
    """Where the times of a target are kept."""
    return results / "history" / f"{slug(target)}.times.json"


def known(path: Path) -> Times:
    """The times of former runs; none where there is no such file, or it cannot be used: it is only for estimates."""
    try:
        return read(path, FORMAT, VERSION, Times)
    except GateError:
        return Times()


def learn(path: Path, entries: Iterable[Entry]) -> None:
    """Add the times of a run's journal to those that are kept.

    Raises:
        WriteFailed: they could not be written.
    """
    times = known(path)
    add(times, entries)
    write_together({path: render(times)})


def add(times: Times, entries: Iterable[Entry]) -> None:
    """Take in what a journal tells."""
    arms: dict[int, str] = {}
    played: dict[tuple[str, int, str], float] = {}
    for entry in entries:
        match entry:
            case Launching():
                arms[entry.launch] = entry.arm
            case Ready() if entry.launch in arms:
                _keep(times.starts.setdefault(arms[entry.launch], []), entry.ready_s)
            case ServerEnded():
                _keep(times.ends, entry.seconds)
            case RoundDone():
                of_arm = times.rounds.setdefault(entry.arm, {})
                _keep(of_arm.setdefault(load_of(entry.workload), []), entry.seconds)
                place = (entry.arm, entry.number, entry.question)
                played[place] = played.get(place, 0.0) + entry.seconds
            case Measured() if entry.launch in arms:
                of_arm = times.warmups.setdefault(arms[entry.launch], {})
                _keep(of_arm.setdefault(load_of(entry.workload), []), entry.warmup_s)
            case Item():
                outcome = entry.outcome
                rest = entry.seconds - played.get((outcome.arm, entry.number, outcome.item), 0.0)
                of_arm = times.items.setdefault(outcome.arm, {})
                _keep(of_arm.setdefault(outcome.item, []), max(0.0, rest))
            case _:
                pass


def _keep(values: list[float], seconds: float) -> None:
    values.append(round(seconds, 3))
    del values[:-KEPT]


class Expected:
    """Seconds to expect: of former runs of this target, where there are any, else its own estimates.

    Args:
        duet: each server plays a round that is not counted beside its warm-up.
    """

    def __init__(self, times: Times, target: Target, sizes: Sizes, *, duet: bool = False) -> None:
        self._uncounted = 1.0 if duet else 0.0
        self._times = times
        self._target = target
        self._sizes = sizes

    @property
    def learned(self) -> bool:
        """Is there any former run to go by?"""
        return bool(self._times.starts or self._times.rounds)

    def start_s(self, arm: str) -> float:
        """Until a launch of this arm is ready."""
        everywhere = [value for values in self._times.starts.values() for value in values]
        return _middle(self._times.starts.get(arm) or everywhere, self._target.start_estimate_s)

    @property
    def end_s(self) -> float:
        """Until a server is down."""
        return _middle(self._times.ends, min(ENDING_S, self._target.timeouts.drain_s))

    def round_s(self, arm: str, load: str, times: float = 1.0) -> float:
        """Of one round; ``times``: as many of the target's estimate, where nothing was measured."""
        return self._of(self._times.rounds, arm, load, times * self._sizes.round_estimate_s)

    def warmup_s(self, arm: str, load: str) -> float:
        """Of the warm-up before the rounds."""
        rounds = self._uncounted + (1.0 if self._sizes.warmup_requests else 0.0)
        guess = rounds * self._sizes.round_estimate_s
        return self._of(self._times.warmups, arm, load, guess)

    def item_s(self, arm: str, question: str, otherwise: float) -> float:
        """Of all else in an item, its launch left out."""
        return self._of(self._times.items, arm, question, otherwise)

    @staticmethod
    def _of(kept: dict[str, dict[str, list[float]]], arm: str, name: str, otherwise: float) -> float:
        elsewhere = [value for other in kept.values() for value in other.get(name, [])]
        return _middle(kept.get(arm, {}).get(name) or elsewhere, otherwise)


def _middle(values: list[float], otherwise: float) -> float:
    return median(values) if values else otherwise
