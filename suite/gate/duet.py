"""Two builds up at once, asked in turn: their rounds are pairs, and what the machine does meanwhile is common to both.

The pair's difference is free of all that is slower than a round (drift, neighbours that come and stay). It is not free of
what a launch brings for its whole life, memory layout above all, which no further round averages away: that is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from suite.gate.robust import NO_LIMIT, Array
from suite.gate.spread import Spread

LAUNCH_SD = 0.01
"""What launches of one build are said to differ by (SD of the log) where both were asked in turn."""


class Rounds(NamedTuple):
    """Signed logs of one figure, + = worse: of each launch a row of rounds, those of one place played in turn."""

    old: Sequence[Array]
    new: Sequence[Array]


def change(rounds: Rounds) -> tuple[float, Spread]:
    """The mean difference of the pairs, and its spread: that of pairs within a launch, and of launches, as stated.

    NaN where no pair is whole.
    """
    differences = [_paired(old, new) for old, new in zip(rounds.old, rounds.new, strict=True)]
    told = [d for d in differences if len(d)]
    if not told:
        return math.nan, Spread(np.array([math.nan]), np.array([1.0]))
    of_each = np.array([d.mean() for d in told])
    centre = float(of_each.mean())
    df = sum(len(d) - 1 for d in told)
    within = sum(float(((d - d.mean()) ** 2).sum()) for d in told) / df if df else math.nan
    of_rounds = within * float(np.mean([1 / len(d) for d in told])) / len(told)
    seen = float(of_each.var(ddof=1)) / len(told) if len(told) > 1 else 0.0
    return centre, _with_launches(of_rounds, df, len(told), seen)


def itself(rounds: Rounds) -> tuple[float, Spread]:
    """The reference against itself: its rounds in turn, as if every second one were of another build (A/A)."""
    halves = [(old[: len(old) // 2 * 2 : 2], old[1::2]) for old in rounds.old]
    # the sign turns from pair to pair, as the order of a duet does: a drift is nobody's change
    signed = [_paired(a, b) * np.resize([1.0, -1.0], len(_paired(a, b))) for a, b in halves]
    told = np.concatenate(signed) if signed else np.array([])
    if len(told) < 2:
        return math.nan, Spread(np.array([math.nan]), np.array([1.0]))
    variance = float(told.var(ddof=1)) / len(told)
    return float(told.mean()), Spread(np.array([variance]), np.array([len(told) - 1.0]))


def _paired(old: Array, new: Array) -> Array:
    rounds = min(len(old), len(new))
    difference = np.asarray(new[:rounds] - old[:rounds], dtype=float)
    return np.asarray(difference[np.isfinite(difference)])


def _with_launches(of_rounds: float, df: int, launches: int, seen: float) -> Spread:
    """The spread of rounds, and that of launches on top as it is stated; or what the launches show, if that is more."""
    of_launches = 2 * LAUNCH_SD**2 / launches
    if not df:
        return Spread(np.array([math.nan]), np.array([1.0]))
    total = of_rounds + of_launches
    freedom = total**2 / (of_rounds**2 / df) if of_rounds > 0 else NO_LIMIT
    return Spread(np.array([max(total, seen)]), np.array([min(freedom, NO_LIMIT)]))
