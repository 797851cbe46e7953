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
"""What launches of one build are said to differ by (SD of the log) where both were asked in turn, unless the target
says otherwise: no more than a calm machine."""


class Rounds(NamedTuple):
    """Signed logs of one figure, + = worse: of each launch a row of rounds, those of one place played in turn."""

    old: Sequence[Array]
    new: Sequence[Array]


class RoundPairs(NamedTuple):
    """What the pairs of rounds of each figure tell, (N, G).

    change: their mean difference, signed log; NaN where no pair is whole. variance, df: of one pair about the others of
    its launch and order, and how many times that, `weight`, is in the change. launches: variance that launches bring
    into it, as it is stated; seen: as they show it themselves, 0 of a single one. number: of launches of each build.
    """

    change: Array
    variance: Array
    df: Array
    weight: Array
    launches: Array
    seen: Array
    number: Array

    def spread(self, variance: Array, df: Array) -> Spread:
        """Of the change, with the variance of a pair as it is known best.

        Degrees of freedom are weighed by the parts' shares of the variance and not by the squares of these, as
        Satterthwaite does: two or three pairs that are alike by luck would make him take the whole for known.
        """
        rounds = self.weight * variance
        total = rounds + self.launches
        with np.errstate(divide="ignore", invalid="ignore"):
            freedom = np.where(rounds > 0, df * total / rounds, NO_LIMIT)
        known = np.where(df > 0, np.maximum(total, self.seen), math.nan)
        return Spread(known, np.clip(freedom, 1.0, NO_LIMIT))


def pairs_of(rounds: Rounds, arms: int = 1, launch_sd: float = LAUNCH_SD) -> RoundPairs:
    """What the pairs of one figure tell; (1, 1).

    The two orders are averaged apart and then with equal weight, so that what being asked first is worth, or a steady
    drift, is nobody's change, of however many rounds. arms: that a figure is made of; a ratio has the launches of two.
    launch_sd: what launches of one build are said to differ by.
    """
    launches = [_by_order(old, new) for old, new in zip(rounds.old, rounds.new, strict=True)]
    told = [orders for orders in launches if all(map(len, orders))]
    if not told:
        left = np.concatenate([d for orders in launches for d in orders]) if launches else np.array([])
        return _one(float(left.mean()) if len(left) else math.nan, math.nan, 0.0, 1.0, 0.0, 0.0, 0.0)
    of_each = np.array([np.mean([d.mean() for d in orders]) for orders in told])
    groups = [d for orders in told for d in orders]
    df = sum(len(d) - 1 for d in groups)
    within = sum(float(((d - d.mean()) ** 2).sum()) for d in groups) / df if df else math.nan
    return _one(
        float(of_each.mean()),
        within,
        df,
        sum(1 / len(d) for d in groups) / (ORDERS * len(told)) ** 2,
        2 * arms * launch_sd**2 / len(told),
        float(of_each.var(ddof=1)) / len(told) if len(told) > 1 else 0.0,
        len(told),
    )


def _one(*figures: float) -> RoundPairs:
    return RoundPairs(*(np.array([[figure]]) for figure in figures))


def beside(columns: Sequence[RoundPairs]) -> RoundPairs:
    """Figures of one run, side by side."""
    return RoundPairs(*(np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True)))


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
