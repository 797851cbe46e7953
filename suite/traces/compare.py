"""Two profiles side by side: which part of a step grew, by how much, and which kernels make it up; worst first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from suite.traces.errors import TraceError
from suite.traces.kernels import WAITING, WAITING_HOST, kind, stem
from suite.traces.steps import PARTS, Part, Profile, StepTimes

Naming: TypeAlias = Callable[[str], tuple[str, str]]
"""From a kernel's full name to the name it goes by, and its kind."""

TRIM = 0.2
"""Of the steps, at each end, that a mean leaves out: one hiccup of the machine is no step."""
FEWEST_STEPS = 3
SURE = 2.0
"""Standard errors that a difference must exceed to be said."""


class Change(msgspec.Struct, frozen=True):
    """A mean time per step on both sides, in seconds, and the standard error of the difference."""

    before_s: float
    after_s: float
    se_s: float

    @property
    def more_s(self) -> float:
        return self.after_s - self.before_s

    @property
    def sure(self) -> bool:
        """Is the difference more than the steps of one launch differ by?"""
        return abs(self.more_s) > SURE * self.se_s


class PartChange(msgspec.Struct, frozen=True):
    """What one part of a step takes; worst parts first in a comparison."""

    part: Part
    change: Change


class KernelChange(msgspec.Struct, frozen=True):
    """What the kernels of one name take of a step, within one part, and how many run."""

    part: Part
    name: str
    kind: str
    change: Change
    before_calls: float
    after_calls: float


class StepDifference(msgspec.Struct, frozen=True):
    """Two builds' steps. by: "gpu" or "host", whose clock; kernels and kinds: those of all parts, worst first."""

    by: str
    speculative: bool
    before_steps: int
    after_steps: int
    step: Change
    parts: list[PartChange]
    kernels: list[KernelChange]
    kinds: list[KernelChange]


def compare(before: Profile, after: Profile) -> StepDifference:
    """The difference of two profiles.

    Raises TraceError where one holds too few steps, one speculates and the other does not, or they were seen by
    different clocks.
    """
    for side, profile in (("reference", before), ("candidate", after)):
        if len(profile.steps) < FEWEST_STEPS:
            raise TraceError(
                f"the profile of the {side} shows {len(profile.steps)} decoding steps, and {FEWEST_STEPS} are needed: "
                "SGLang names them from 0.5.20 on; or the request ended too soon"
            )
    if before.speculative != after.speculative:
        on, off = ("candidate", "reference") if after.speculative else ("reference", "candidate")
        raise TraceError(
            f"the {on} verifies drafts and the {off} does not: their steps are no longer the same"
        )
    if before.by != after.by:
        raise TraceError(
            f"the reference was seen on the {before.by} and the candidate on the {after.by}: profile both alike"
        )
    parts = [
        PartChange(part, _change([s.parts.get(part, 0.0) for s in p.steps] for p in (before, after)))
        for part in PARTS
        if any(part in s.parts for p in (before, after) for s in p.steps)
    ]
    return StepDifference(
        before.by,
        before.speculative,
        len(before.steps),
        len(after.steps),
        _change([s.length_s for s in p.steps] for p in (before, after)),
        sorted(parts, key=lambda p: -p.change.more_s),
        _rows(before, after, _by_name),
        _rows(before, after, _by_kind),
    )


def _change(sides: Iterable[Sequence[float]]) -> Change:
    before, after = sides
    (low, low_se), (high, high_se) = _level(before), _level(after)
    return Change(low, high, math.hypot(low_se, high_se))


def _level(values: Sequence[float]) -> tuple[float, float]:
    """The trimmed mean and its standard error (Tukey and McLaughlin 1963: from the winsorised variance)."""
    ordered = np.sort(np.asarray(values, dtype=float))
    n, cut = len(ordered), int(TRIM * len(ordered))
    middle = ordered[cut : n - cut]
    squeezed = np.clip(ordered, middle[0], middle[-1])
    kept = n - 2 * cut
    se = float(np.sqrt(np.var(squeezed, ddof=1) * n) / kept) if n > 1 else math.inf
    return float(middle.mean()), se


def _rows(before: Profile, after: Profile, naming: Naming) -> list[KernelChange]:
    """A row for each part and name that a kernel goes by, worst first."""
    tables = [_table(profile, naming) for profile in (before, after)]
    rows = []
    for part, (name, sort) in {**tables[0], **tables[1]}:
        sides = [
            table.get((part, (name, sort)), [(0.0, 0)] * len(profile.steps))
            for table, profile in zip(tables, (before, after), strict=True)
        ]
        change = _change([seconds for seconds, _ in side] for side in sides)
        old_calls, new_calls = (float(np.mean([count for _, count in side])) for side in sides)
        rows.append(KernelChange(part, name, sort, change, old_calls, new_calls))
    return sorted(rows, key=lambda r: (-r.change.more_s, r.part, r.name))


def _table(profile: Profile, naming: Naming) -> dict[tuple[Part, tuple[str, str]], list[tuple[float, int]]]:
    """Seconds and calls of each step, by part and name."""
    table: dict[tuple[Part, tuple[str, str]], list[tuple[float, int]]] = {}
    names: dict[str, tuple[str, str]] = {}
    for number, step in enumerate(profile.steps):
        for (part, full), (seconds, count) in _with_waiting(step, profile.by).items():
            name = names.get(full) or names.setdefault(full, naming(full))
            row = table.setdefault((part, name), [(0.0, 0)] * len(profile.steps))
            row[number] = (row[number][0] + seconds, row[number][1] + count)
    return table


def _by_name(full: str) -> tuple[str, str]:
    return (full if full in (WAITING, WAITING_HOST) else stem(full)), kind(full)


def _by_kind(full: str) -> tuple[str, str]:
    return kind(full), kind(full)


def _with_waiting(step: StepTimes, by: str) -> Mapping[tuple[Part, str], tuple[float, int]]:
    """The kernels of a step, and for each part the time in which none of them ran."""
    ran: dict[Part, float] = {}
    for (part, _), (seconds, _count) in step.kernels.items():
        ran[part] = ran.get(part, 0.0) + seconds
    name = WAITING if by == "gpu" else WAITING_HOST
    waiting = {(part, name): (max(whole - ran.get(part, 0.0), 0.0), 0) for part, whole in step.parts.items()}
    return {**step.kernels, **waiting}
