"""Tails of latency: a high quantile over all requests of a launch, with the interval that its order statistics give."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from suite.gate.records import Launch, Tail

QUANTILE = 0.99
JUDGED_WITH = {"ttft_p99_s": "ttft_s", "itl_p99_s": "tpot_s"}
"""A tail is judged where a question is about the middle of the same distribution and has enough requests."""
LEVEL = 0.95
KEPT_SHARE, KEPT_AT_LEAST = 0.05, 10


def tail_of(values: Sequence[float]) -> Tail:
    """What is kept of one round's values: five times as many of the largest as a quantile of 99 % needs, and ten."""
    kept = math.ceil(KEPT_SHARE * len(values)) + KEPT_AT_LEAST
    return Tail(len(values), sorted(values, reverse=True)[:kept])


def pooled(launch: Launch, metric: str) -> Tail:
    """The tail of all trusted rounds of a launch together; n = 0 where none is kept."""
    bad = {i.round for i in launch.invalid}
    parts = [tail for i, tail in enumerate(launch.tails.get(metric, [])) if i not in bad]
    top = sorted((v for tail in parts for v in tail.top), reverse=True)
    complete = min((len(t.top) for t in parts if len(t.top) < t.n), default=len(top))
    return Tail(sum(tail.n for tail in parts), top[: max(complete, 0)] if parts else [])


def enough(n: int) -> bool:
    """Whether so many values give the quantile an interval with two ends: 368 do for 99 %."""
    return n > 0 and QUANTILE**n < (1 - LEVEL) / 2


def quantile(tail: Tail) -> float:
    """The smallest value that 99 % of all do not exceed; NaN where it was not kept."""
    place = tail.n - math.ceil(QUANTILE * tail.n)
    return tail.top[place] if 0 <= place < len(tail.top) else math.nan


def interval(tail: Tail) -> tuple[float, float]:
    """Between which two of the values the quantile lies with 95 % confidence, whatever the distribution.

    Order statistics l and u with P(B < l) <= 2.5 % and P(B >= u) <= 2.5 %, B binomial (n, 0.99): Hahn and Meeker 1991,
    section 5.2. Infinite or 0 where an end was not kept or there are too few.
    """
    if not enough(tail.n):
        return 0.0, math.inf
    low = int(stats.binom.ppf((1 - LEVEL) / 2, tail.n, QUANTILE))
    high = int(stats.binom.ppf((1 + LEVEL) / 2, tail.n, QUANTILE)) + 1
    places = tail.n - max(low, 1), tail.n - min(high, tail.n)
    ends = [tail.top[p] if p < len(tail.top) else None for p in places]
    return (0.0 if ends[0] is None else ends[0]), (math.inf if ends[1] is None else ends[1])


def log_variance(tail: Tail) -> float:
    """Variance of ln of the quantile: that of a normal value with an interval as wide; NaN where it has no two ends."""
    low, high = interval(tail)
    if not 0 < low <= high < math.inf:
        return math.nan
    half = (math.log(high) - math.log(low)) / 2
    return float((half / special.ndtri((1 + LEVEL) / 2)) ** 2)


def judgeable(launches: Sequence[Launch], metric: str) -> bool:
    """Whether each of the launches has requests enough for the tail to be judged."""
    return bool(launches) and all(enough(pooled(launch, metric).n) for launch in launches)


def log_quantile(launch: Launch, metric: str) -> float:
    """ln of the launch's quantile; NaN where it is not known."""
    value = quantile(pooled(launch, metric))
    return math.log(value) if np.isfinite(value) and value > 0 else math.nan
