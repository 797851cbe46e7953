"""How each metric is computed from one round: a function from a round to a figure, or to why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from suite.load.records import RequestRecord, Round
from suite.metrics.acceptance import NOT_REPORTED, acceptance
from suite.metrics.requests import SLO, arrivals, meets, tpot_s

TAILS = {"p90": 90, "p95": 95, "p99": 99}
"""Beside the median: what a latency is given at, under dotted names."""

ONE_ARRIVAL = "every answer came in one arrival"
NO_ANSWER = "no request succeeded"


@dataclass(frozen=True, slots=True)
class FormulaInput:
    """What a formula may look at. `speculative`: whether MTP is known to be on or off, None where it is not known."""

    round: Round
    good: tuple[RequestRecord, ...]
    slo: SLO | None
    speculative: bool | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a round, or the `reason` why there is none. `tails`: mean and percentiles of a distribution; `values`: all that a quantile was taken of."""

    value: float | None
    reason: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)
    tails: Mapping[str, float | None] = field(default_factory=dict)
    values: tuple[float, ...] = ()


Formula: TypeAlias = Callable[[FormulaInput], Figure]


def rate(what: str, of: Callable[[RequestRecord], int]) -> Formula:
    """The sum of something over good requests, a second of the round."""

    def figure(played: FormulaInput) -> Figure:
        if (why := _no_rate(played)) is not None:
            return Figure(None, why)
        total = sum(of(record) for record in played.good)
        return Figure(total / played.round.duration_s, detail={what: total})

    return figure


def distribution(of: Callable[[RequestRecord], float | None]) -> Formula:
    """The median over good requests of something that each has one of."""

    def figure(played: FormulaInput) -> Figure:
        seen = [v for r in played.good if (v := of(r)) is not None]
        return _spread(np.array(seen), _why_empty(played.good, counted=of is tpot_s))

    return figure


def pooled(of: Callable[[RequestRecord], NDArray[np.float64]], counted: bool = False) -> Formula:
    """The median over something that each request has many of. `counted`: it needs tokens counted by chunk."""

    def figure(played: FormulaInput) -> Figure:
        return _spread(_joined(of(r) for r in played.good), _why_empty(played.good, counted))

    return figure


def tail(of: Callable[[RequestRecord], list[float]]) -> Formula:
    """The 99 % quantile over good requests; `values` are all of them, of which the gate keeps the largest."""

    def figure(played: FormulaInput) -> Figure:
        seen = [value for record in played.good for value in of(record)]
        if not seen:
            return Figure(None, _why_empty(played.good, counted=False))
        return Figure(float(np.percentile(seen, 99)), detail={"n": float(len(seen))}, values=tuple(seen))

    return figure


def concurrency(played: FormulaInput) -> Figure:
    """Mean requests in flight."""
    why = _no_rate(played)
    return Figure(None, why) if why else Figure(concurrency_achieved(played.round))


def concurrency_achieved(round_: Round) -> float | None:
    """The mean number of requests in flight: the sum of their durations over the round's."""
    if round_.duration_s <= 0:
        return None
    return sum(r.ended_s - r.started_s for r in round_.requests) / round_.duration_s


def goodput(played: FormulaInput) -> Figure:
    """Requests a second that kept every limit."""
    if played.slo is None:
        return Figure(None, "no SLO stated")
    if played.round.duration_s <= 0:
        return Figure(None, "the round took no time")
    if not (requests := played.round.requests):
        return Figure(None, NO_ANSWER)
    kept = sum(meets(request, played.slo) for request in requests)
    return Figure(kept / played.round.duration_s, detail={"kept": kept, "share": kept / len(requests)})


def acceptance_length(played: FormulaInput) -> Figure:
    """1 + correct drafts / verify steps, and the share accepted at each position."""
    told = acceptance(played.round)
    detail: dict[str, float] = {f"position_{i + 1}": share for i, share in enumerate(told.per_position)}
    detail |= {"correct_drafts": told.correct_drafts, "verify_steps": told.verify_steps}
    return Figure(told.length, told.reason, detail if told.requests else {})


def tokens_per_chunk(played: FormulaInput) -> Figure:
    """Tokens an arrival, over all requests that count them by chunk."""
    counted = [arrivals(r.timeline) for r in played.good if r.timeline.per_chunk and len(r.timeline.t_s)]
    if not counted:
        return Figure(None, _why_empty(played.good, counted=True))
    tokens, chunks = sum(int(line.tokens[-1]) for line in counted), sum(len(line.t_s) for line in counted)
    return Figure(tokens / chunks, detail={"tokens": tokens, "chunks": chunks})


def cached_prompt_tokens(played: FormulaInput) -> Figure:
    """Prompt tokens that the server took from its prefix cache."""
    known = [r.cached_tokens for r in played.good if r.cached_tokens is not None]
    if not known:
        return Figure(
            None, "usage.prompt_tokens_details absent: SGLang reports it with --enable-cache-report"
        )
    return Figure(float(sum(known)), detail={"requests": len(known)})


def step(played: FormulaInput) -> Figure:
    """Time per output token x tokens per step of the same request; with MTP off a step makes one token."""
    timed = [(t, r.spec) for r in played.good if (t := tpot_s(r)) is not None]
    if not timed:
        return Figure(None, _why_empty(played.good, counted=True))
    if played.speculative is False:
        return Figure(float(np.median([t for t, _ in timed])))
    if any(r.spec is None or not r.spec.verify_steps for r in played.good):
        return Figure(None, f"needs the tokens of a step, which are {NOT_REPORTED}")
    steps = [t * (1 + s.correct_drafts / s.verify_steps) for t, s in timed if s is not None]
    return Figure(float(np.median(steps)))


def _no_rate(played: FormulaInput) -> str | None:
    if not played.good:
        return NO_ANSWER
    return None if played.round.duration_s > 0 else "the round took no time"


def _spread(seen: NDArray[np.float64], why_empty: str) -> Figure:
    if not len(seen):
        return Figure(None, why_empty, tails=dict.fromkeys(("mean", *TAILS)))
    detail = {
        "n": float(len(seen)),
        "min": float(seen.min()),
        "max": float(seen.max()),
        "std": float(seen.std()),
    }
    tails = {"mean": float(seen.mean()), **{name: float(np.percentile(seen, q)) for name, q in TAILS.items()}}
    return Figure(float(np.median(seen)), detail=detail, tails=tails)


def _why_empty(good: Sequence[RequestRecord], counted: bool) -> str:
    if not good:
        return NO_ANSWER
    if counted and not any(r.timeline.per_chunk for r in good):
        return "this server counts no tokens per chunk (stream_options.continuous_usage_stats not honoured)"
    return ONE_ARRIVAL


def _joined(parts: Iterable[NDArray[np.float64]]) -> NDArray[np.float64]:
    arrays = list(parts)
    return np.concatenate(arrays) if arrays else np.empty(0)
