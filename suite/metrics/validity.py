"""Why a round is not to be believed: failed requests, early stops, cache hits, a late client, a buffered stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from suite.load.records import FaultKind, RequestRecord, Round
from suite.metrics.acceptance import REPLICAS, Acceptance, acceptance
from suite.terminal.figures import number

BURST = 3
"""Events in a usual burst from which on a stream counts as buffered. A server sends one event a step; a busy machine, or
a reader that is late, joins two now and then; a buffer between server and client holds three and more every time."""
FEW_EVENTS = 4
"""Answers of fewer events say nothing about how they arrive."""
ONE_FLUSH = 0.05
"""Of the mean time between events: what comes closer is one flush, which the network may have cut in two."""


@dataclass(frozen=True, slots=True)
class InvalidRound:
    """A reason not to trust a round: a name to group by, and the evidence in words."""

    name: str
    evidence: str

    def __str__(self) -> str:
        return f"{self.name}: {self.evidence}"


def validity(
    round_: Round,
    *,
    full_length: bool = True,
    cached_share_max: float | None = 0.1,
    draft_tokens: int | None = None,
) -> list[InvalidRound]:
    """Why a round is not to be believed; empty if nothing speaks against it.

    `full_length`: answers were meant to run to max_tokens. `cached_share_max`: the share of prompt tokens that may
    come from the prefix cache, None for any. `draft_tokens`: the server's resolved speculative_num_draft_tokens, None
    where it is not fixed (adaptive); with it proposed = verify steps x (draft tokens - 1) is checked too.
    """
    found = _failures(round_)
    if not round_.requests:
        found.append(InvalidRound("no_requests", "the round holds no requests"))
    if round_.client.saturated:
        found.append(InvalidRound("client_saturated", round_.client.reason or "beyond its limits"))
    if full_length:
        found += _lengths(round_)
    if cached_share_max is not None:
        found += _cache_hits(round_, cached_share_max)
    found += _buffering(round_.ok, round_.client.loop_lag_p99_s)
    found += _mixed(round_)
    told = acceptance(round_)
    if draft_tokens is not None and told.requests:
        found += _proposals(told, draft_tokens - 1)
    return found


def _proposals(told: Acceptance, each: int) -> list[InvalidRound]:
    """A step of this configuration proposes ``each`` drafts, and no more are right than were proposed."""
    expected = told.verify_steps * each
    if 0 < told.proposed_drafts < told.correct_drafts:
        evidence = f"{told.correct_drafts} correct drafts of only {told.proposed_drafts} proposed"
    elif told.proposed_drafts != expected:
        evidence = (
            f"{told.proposed_drafts} drafts proposed in {told.verify_steps} verify steps, but {each + 1} draft "
            f"tokens per step propose {each} each: {expected}"
        )
    else:
        return []
    return [InvalidRound("acceptance_identity", evidence)]


def _buffering(records: Sequence[RequestRecord], lag_s: float) -> list[InvalidRound]:
    """Events that come several at once, then silence: something between server and client holds the stream back.

    Silence no longer than ``lag_s``, by which this machine was late with its own timers, is no evidence: a busy machine
    reads, and a server on it sends, in bursts too.
    """
    sizes: list[int] = []
    silence: list[float] = []
    for record in records:
        t_s = record.timeline.t_s
        if len(t_s) < FEW_EVENTS:
            continue
        gaps = np.diff(t_s)
        starts = np.flatnonzero(gaps > ONE_FLUSH * gaps.mean())
        sizes.extend(np.diff([0, *(starts + 1), len(t_s)]).tolist())
        silence.extend(gaps[starts].tolist())
    if not sizes or float(np.median(sizes)) < BURST:
        return []
    if silence and float(np.median(silence)) <= lag_s:
        return []
    pause = f", {number(float(np.median(silence)), 's')} of silence between them" if silence else ""
    evidence = (
        f"{sum(sizes)} events of {len(records)} answers came in {len(sizes)} bursts, up to {max(sizes)} at once{pause}: "
        "a proxy or gateway before the server collects the stream; switch its buffering off (nginx: proxy_buffering "
        "off) or measure the server directly"
    )
    return [InvalidRound("buffering", evidence)]


def _failures(round_: Round) -> list[InvalidRound]:
    found = []
    for kind, count in sorted(round_.faults.items()):
        first = next(r.fault for r in round_.requests if r.fault is not None and r.fault.kind is kind)
        name = (
            str(kind)
            if kind in (FaultKind.acceptance_identity, FaultKind.usage_missing)
            else "failed_requests"
        )
        found.append(
            InvalidRound(
                name, f"{count} of {len(round_.requests)} requests {kind}; the first: {first.message}"
            )
        )
    return found


def _mixed(round_: Round) -> list[InvalidRound]:
    """Some answers report speculative work and some, of more than the one token that prefill gives, do not."""
    told = [r for r in round_.ok if r.spec is not None]
    silent = [r for r in round_.ok if r.spec is None and r.completion_tokens not in (None, 0, 1)]
    if not told or not silent:
        return []
    evidence = f"{len(told)} of {len(told) + len(silent)} answers report speculative work and {len(silent)} do not: {REPLICAS}"
    return [InvalidRound("mixed_answers", evidence)]


def _lengths(round_: Round) -> list[InvalidRound]:
    counted = [(r.completion_tokens, r) for r in round_.ok if r.completion_tokens is not None]
    early = [(tokens, r) for tokens, r in counted if tokens < r.max_tokens * len(r.finish_reasons)]
    if not early:
        return []
    tokens, shortest = min(early, key=lambda answer: answer[0])
    evidence = (
        f"{len(early)} of {len(counted)} answers ended before max_tokens, the shortest ({shortest.prompt}) after "
        f"{tokens} of {shortest.max_tokens} tokens, finish_reason {shortest.finish_reason!r}"
    )
    return [InvalidRound("early_stop", evidence)]


def _cache_hits(round_: Round, share_max: float) -> list[InvalidRound]:
    known = [
        (r.cached_tokens, r.prompt_tokens)
        for r in round_.ok
        if r.cached_tokens is not None and r.prompt_tokens is not None
    ]
    cached, prompt = sum(tokens for tokens, _ in known), sum(tokens for _, tokens in known)
    if prompt and cached > share_max * prompt:
        evidence = f"{cached} of {prompt} prompt tokens came from the prefix cache ({cached / prompt:.0%})"
        return [InvalidRound("cached_prompt_tokens", f"{evidence}; at most {share_max:.0%} expected")]
    return []
