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

ORDERS = 2
"""Rounds of even number begin with one build and those of odd number with the other (`suite.session.turns`)."""
LAUNCH_SD = 0.01
"""What launches of one build are said to differ by (SD of the log) where both were asked in turn."""


class Rounds(NamedTuple):
    """Signed logs of one figure, + = worse: of each launch a row of rounds, those of one place played in turn."""

    old: Sequence[Array]
    new: Sequence[Array]


def change(rounds: Rounds, arms: int = 1) -> tuple[float, Spread]:
    """The difference of the pairs, and its spread: that of pairs within a launch, and of launches, as stated.

    The two orders are averaged apart and then with equal weight, so that what being asked first is worth, or a steady
    drift, is nobody's change, of however many rounds. arms: that a figure is made of; a ratio has the launches of two.
    NaN where no pair is whole.
    """
    launches = [_by_order(old, new) for old, new in zip(rounds.old, rounds.new, strict=True)]
    told = [orders for orders in launches if all(map(len, orders))]
    if not told:
        left = np.concatenate([d for orders in launches for d in orders]) if launches else np.array([])
        return float(left.mean()) if len(left) else math.nan, _unknown()
    of_each = np.array([np.mean([d.mean() for d in orders]) for orders in told])
    groups = [d for orders in told for d in orders]
    df = sum(len(d) - 1 for d in groups)
    within = sum(float(((d - d.mean()) ** 2).sum()) for d in groups) / df if df else math.nan
    of_rounds = within * sum(1 / len(d) for d in groups) / (ORDERS * len(told)) ** 2
    seen = float(of_each.var(ddof=1)) / len(told) if len(told) > 1 else 0.0
    return float(of_each.mean()), _with_launches(of_rounds, df, len(told), seen, arms)


def itself(rounds: Rounds) -> float:
    """Half of the pairs against the other half: what this duet says of no change, a launch's luck left out (A/A).

    As many pairs of each order stand on either side, so that neither a change nor the order is in it, nor a steady
    drift. NaN where no launch has two pairs of each order.
    """
    told: list[Array] = []
    for old, new in zip(rounds.old, rounds.new, strict=True):
        orders = _by_order(old, new)
        even = min(map(len, orders)) // 2 * 2
        signs = np.resize([1.0, -1.0], even)
        told += [side * signs * d[:even] for side, d in zip((1.0, -1.0), orders, strict=True)]
    halves = np.concatenate(told) if told else np.array([])
    return float(halves.mean()) if len(halves) else math.nan


def _by_order(old: Array, new: Array) -> list[Array]:
    """What the pairs of a launch differ by: those of even rounds, and those of odd ones, in which the order is reversed."""
    rounds = min(len(old), len(new))
    difference = np.asarray(new[:rounds] - old[:rounds], dtype=float)
    return [np.asarray(d[np.isfinite(d)]) for d in (difference[i::ORDERS] for i in range(ORDERS))]


def _unknown() -> Spread:
    return Spread(np.array([math.nan]), np.array([1.0]))


def _with_launches(of_rounds: float, df: int, launches: int, seen: float, arms: int) -> Spread:
    """The spread of rounds, and that of launches on top as it is stated; or what the launches show, if that is more."""
    of_launches = 2 * arms * LAUNCH_SD**2 / launches
    if not df:
        return _unknown()
    total = of_rounds + of_launches
    freedom = total**2 / (of_rounds**2 / df) if of_rounds > 0 else NO_LIMIT
    return Spread(np.array([max(total, seen)]), np.array([min(freedom, NO_LIMIT)]))
