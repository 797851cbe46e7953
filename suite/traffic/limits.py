"""Limits that requests must keep, what share of them does, and the highest rate at which enough do. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from suite.load import Round
from suite.metrics import SLO, Value, meets

DOUBLINGS = 7
"""Paces that are tried at most beyond the first, each twice or half the last."""
HALVINGS = 3
"""Paces that are tried between one that keeps the limits and one that does not: the eighth part of an octave."""
UNIT = "requests/s"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a request must keep, and which share of all must keep it. A limit that is ``None`` is none."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    share: float = 0.95

    @property
    def slo(self) -> SLO:
        """As the metrics ask for it."""
        return SLO(ttft_s=self.ttft_s, tpot_s=self.tpot_s, e2e_s=self.e2e_s)

    def __str__(self) -> str:
        named = (("TTFT", self.ttft_s), ("TPOT", self.tpot_s), ("whole answer", self.e2e_s))
        told = [f"{name} within {1000 * limit:g} ms" for name, limit in named if limit is not None]
        return f"{', '.join(told)} for {self.share:.0%} of requests" if told else "no limits"


@dataclass(frozen=True, slots=True)
class PaceResult:
    """What came of one pace: requests per second that were sent, and the share of them that kept the limits."""

    rate_per_s: float
    share: float


def kept_share(round_: Round, limits: Limits) -> float:
    """The share of all requests, failed ones too, that kept every limit."""
    kept = sum(meets(record, limits.slo) for record in round_.requests)
    return kept / len(round_.requests) if round_.requests else 0.0


def highest(first: PaceResult, play: Callable[[float], PaceResult], share: float) -> Value:
    """The highest rate at which ``share`` of the requests keeps the limits, found by trying.

    Args:
        first: what came of the traffic at its own pace.
        play: plays it so many times as fast.
        share: what share is asked for.

    The pace is doubled until too few keep them (or halved until enough do), then the gap is halved three times, in logarithms.
    Between the last two the rate is read on a line of share over the logarithm of the rate, so that the figure moves
    evenly with the server. ``None`` where no pace that was tried keeps them, or every one does.
    """
    good, bad, told = _bracket(first, play, share)
    if good is None or bad is None:
        return Value(None, UNIT, told)
    (low, kept), (high, lost) = good, bad
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        step = play(middle)
        if step.share >= share:
            low, kept = middle, step
        else:
            high, lost = middle, step
    rate = _between(kept, lost, share)
    detail = {"kept_at_per_s": kept.rate_per_s, "lost_at_per_s": lost.rate_per_s, "lost_share": lost.share}
    return Value(rate, UNIT, detail=detail)


_Paced = tuple[float, PaceResult]


def _bracket(
    first: PaceResult, play: Callable[[float], PaceResult], share: float
) -> tuple[_Paced | None, _Paced | None, str]:
    """A pace that keeps the limits and one that does not, or why there is no such pair."""
    good, bad = ((1.0, first), None) if first.share >= share else (None, (1.0, first))
    for exponent in range(1, DOUBLINGS + 1):
        if good is not None and bad is not None:
            break
        pace = 2.0**exponent if bad is None else 2.0**-exponent
        step = play(pace)
        if step.share >= share:
            good = pace, step
        else:
            bad = pace, step
    if good is None:
        least = bad[1].rate_per_s if bad else first.rate_per_s
        return None, bad, f"even at {least:.3g} requests/s too few keep the limits"
    if bad is None:
        return (
            good,
            None,
            f"the limits are kept at {good[1].rate_per_s:.3g} requests/s, and nothing faster was tried",
        )
    return good, bad, ""


def _between(kept: PaceResult, lost: PaceResult, share: float) -> float:
    low, high = math.log(kept.rate_per_s), math.log(lost.rate_per_s)
    if kept.share <= lost.share:
        return kept.rate_per_s
    part = (kept.share - share) / (kept.share - lost.share)
    return math.exp(low + min(max(part, 0.0), 1.0) * (high - low))
