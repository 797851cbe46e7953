"""From rounds to the one value that a launch is judged by, and whether a launch may be judged at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from suite.gate.records import Counts, Launch, Series
from suite.gate.robust import Array, trimmed_mean
from suite.gate.tails import log_quantile, log_variance, pooled

VALID_SHARE = 0.6
"""Share of a launch's rounds that must be trustworthy: below it the trimmed mean is not robust any more."""

COUNT_OFFSET = {"acceptance_length": 1.0}
"""Acceptance length is 1 + correct drafts / verify steps: the token that verification itself yields, and drafts."""


def untrusted(series: Series) -> str | None:
    """Why no verdict may rest on this series, or None. Single bad rounds are set aside, not fatal."""
    if not series.launches:
        return "nothing was measured: no launch came up"
    for number, launch in enumerate(series.launches, 1):
        whole = [i for i in launch.invalid if i.round is None]
        if whole:
            return f"launch {number}: {whole[0].name} ({whole[0].evidence})"
        bad = aside(launch)
        count = max((len(r) for r in launch.rounds.values()), default=0)
        if bad and len(bad) > (1 - VALID_SHARE) * count:
            first = launch.invalid[0]
            played = max(count, *(i + 1 for i in bad))  # a ratio has none where no pair of rounds is left
            return f"launch {number}: {len(bad)} of {played} rounds, first {first.name} ({first.evidence})"
    return None


def set_aside(series: Series) -> int:
    """How many rounds of a series are not used because each has a reason of its own."""
    return sum(len(aside(launch)) for launch in series.launches)


def aside(launch: Launch) -> set[int]:
    """Rounds of a launch that have a reason not to be used."""
    return {i.round for i in launch.invalid if i.round is not None}


def bad_value(series: Series, metric: str) -> str | None:
    """Why this metric of a series cannot be judged (missing or impossible values in a launch), or None."""
    for number, launch in enumerate(series.launches, 1):
        usable = round_logs(launch, metric)
        if np.isfinite(usable).any():
            continue
        impossible = [v for v in launch.rounds.get(metric, []) if v is not None and not v > 0]
        if impossible:
            return f"launch {number}: {metric} = {impossible[0]:g}; a value must be above 0"
        reason = launch.missing.get(metric, "the server did not report it")
        return f"launch {number}: no {metric} ({reason})"
    return None


def round_logs(launch: Launch, metric: str) -> Array:
    """ln of each round's value; NaN where there is none, it is not above 0, or the round is set aside."""
    bad = aside(launch)
    rounds: Sequence[float | None] = launch.rounds.get(metric, [])
    return np.array(
        [
            math.log(v) if v is not None and 0 < v < math.inf and i not in bad else math.nan
            for i, v in enumerate(rounds)
        ]
    )


def launch_log(launch: Launch, metric: str) -> float:
    """ln of a launch's value: ratio of sums where counts are kept, quantile of all where tails are, else the trimmed mean of its rounds' logs."""
    counts = _counts(launch, metric)
    if counts is not None:
        numerator, denominator = counts
        return math.log(COUNT_OFFSET[metric] + float(numerator.sum()) / float(denominator.sum()))
    if metric in launch.tails:
        return log_quantile(launch, metric)
    logs = round_logs(launch, metric)
    return float(trimmed_mean(logs)) if len(logs) else math.nan


def launch_variance(launch: Launch, metric: str) -> float:
    """Variance of `launch_log` as its own rounds tell it (requests as clusters for a ratio of counts); NaN if one."""
    counts = _counts(launch, metric)
    if counts is not None and counts[0].size > 1:
        return ratio_variance(*counts, offset=COUNT_OFFSET[metric])
    if metric in launch.tails:
        return log_variance(pooled(launch, metric))
    logs = round_logs(launch, metric)
    logs = logs[np.isfinite(logs)]
    return float(np.var(logs, ddof=1) / len(logs)) if len(logs) > 1 else math.nan


def ratio_variance(numerator: Array, denominator: Array, *, offset: float) -> float:
    """Variance of ln(offset + sum(n)/sum(d)), requests as clusters (linearised; Cochran 1977, 6.3 and 6.11).

    (rounds, requests): the same prompts in every round are strata, since only what a prompt's answers differ by from
    round to round is noise; (requests,): each request is a draw of its own.
    """
    n: Array = np.atleast_2d(numerator)
    d: Array = np.atleast_2d(denominator)
    if n.shape[0] == 1:
        n, d = n.T, d.T
    draws: int = n.shape[0]
    total = float(d.sum())
    of_stratum = n.sum(axis=0) / np.maximum(d.sum(axis=0), 1.0)
    residual = n - of_stratum * d
    ratio = float(n.sum()) / total
    variance = float((residual**2).sum()) / total**2 * draws / (draws - 1)
    return variance / (offset + ratio) ** 2


def _counts(launch: Launch, metric: str) -> tuple[Array, Array] | None:
    """Numerators and denominators of the trusted rounds; None where there are no usable counts.

    (rounds, requests) if every round has as many requests, else (requests,).
    """
    bad = aside(launch)
    rounds: list[Counts] = [c for i, c in enumerate(launch.counts.get(metric, [])) if i not in bad]
    if metric not in COUNT_OFFSET or not rounds or np.isnan(round_logs(launch, metric)).all():
        return None
    both = [_stacked([c.numerator for c in rounds]), _stacked([c.denominator for c in rounds])]
    return (both[0], both[1]) if both[1].sum() > 0 else None


def _stacked(rows: list[list[int]]) -> Array:
    alike = len({len(row) for row in rows}) == 1
    return np.array(rows if alike else [n for row in rows for n in row], dtype=float)
