"""What a round leaves behind: one record a request, its timeline, its fault, and how well the client itself kept up."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray


class FaultKind(StrEnum):
    """Everything that can go wrong with one request, by what the client saw.

    A request with a fault is counted and shown; it is never averaged in and never retried.
    """

    refused = "refused"  # no connection could be made
    rejected = "rejected"  # 4xx, with the server's message
    server_error = "server_error"  # 5xx, with the server's message
    reset = "reset"  # the connection broke before or in the middle of the answer
    truncated = "truncated"  # the stream ended in good order, but without [DONE] or a finish reason
    stalled = "stalled"  # no byte for the stall limit
    timed_out = "timed_out"  # the whole answer took longer than the time limit
    error_event = "error_event"  # an error object inside a 200 stream
    aborted = "aborted"  # the server gave the answer up: finish_reason "abort", or a kin of it
    malformed = "malformed"  # not an event stream, or an event that is not a completion chunk
    usage_missing = "usage_missing"  # no token count anywhere in the answer
    usage_backwards = "usage_backwards"  # a cumulative token count that fell
    acceptance_identity = "acceptance_identity"  # speculation counters that contradict one another
    implausible = "implausible"  # a number that what was asked cannot lead to
    oversized = "oversized"  # more bytes than any answer to what was asked has


@dataclass(frozen=True, slots=True)
class Fault:
    """One request's failure: its kind, what happened in words, the HTTP status if there was one, and when."""

    kind: FaultKind
    message: str
    status: int | None = None
    at_s: float | None = None

    def __str__(self) -> str:
        status = f" (HTTP {self.status})" if self.status is not None else ""
        return f"{self.kind}{status}: {self.message}"


@dataclass(frozen=True, slots=True)
class SpecDetails:
    """What SGLang says about speculation in one answer (`sglext.spec_tokens_details`; sums when n > 1).

    `histogram[i]` counts verify steps in which exactly i drafted tokens were right.
    """

    verify_steps: int
    correct_drafts: int
    proposed_drafts: int
    histogram: tuple[int, ...]

    @property
    def negative(self) -> bool:
        """Whether any counter is below zero."""
        return min(self.verify_steps, self.correct_drafts, self.proposed_drafts, *self.histogram, 0) < 0

    @property
    def contradiction(self) -> str | None:
        """What contradicts itself in these counters, or None.

        Identities of SGLang 0.5.12 and later: the histogram counts verify steps, so it sums to them, and its entries
        weighted by their index are the correct drafts. That no more are correct than proposed is `metrics.validity`'s
        matter: it does not hold where the server changes its depth as it runs.
        """
        if self.negative:
            return f"a speculation counter is negative: {self}"
        if self.histogram:
            steps = sum(self.histogram)
            if steps != self.verify_steps:
                return f"spec_correct_drafts_histogram sums to {steps}, but spec_verify_ct is {self.verify_steps}"
            correct = sum(accepted * count for accepted, count in enumerate(self.histogram))
            if correct != self.correct_drafts:
                return f"the histogram holds {correct} correct drafts, but spec_num_correct_drafts is {self.correct_drafts}"
        return None


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """One streamed answer: `tokens[i]` completion tokens had arrived by `t_s[i]`, seconds since the round began.

    Only arrivals that brought tokens are here, so times and token counts both rise. Where the server counts
    tokens only at the end (`per_chunk` false) there is one entry a text chunk, and `tokens` is -1 but for the last.
    """

    t_s: NDArray[np.float64]
    tokens: NDArray[np.int64]
    per_chunk: bool = True

    def __repr__(self) -> str:
        if not len(self.t_s):
            return "Timeline(empty)"
        return f"Timeline({len(self.t_s)} arrivals, {self.t_s[0]:.4f} s to {self.t_s[-1]:.4f} s, {self.tokens[-1]} tokens)"


@dataclass(frozen=True, slots=True, eq=False)
class RequestRecord:
    """One request from start to end. All times are seconds since the round began.

    `intended_s` is when the load shape wanted it sent, `started_s` when it was handed to the socket, `origin_s`
    the one of the two that latencies count from: the intended start in an open loop, so that a stalled server
    cannot hide, the real start in a closed one. `text` and `reasoning` are kept only if asked for.
    """

    index: int
    prompt: str
    kind: str
    intended_s: float
    started_s: float
    origin_s: float
    ended_s: float
    timeline: Timeline
    prompt_tokens: int | None
    cached_tokens: int | None
    completion_tokens: int | None
    reasoning_tokens: int | None
    finish_reasons: tuple[str | None, ...]
    spec: SpecDetails | None
    fault: Fault | None
    chunks: int
    max_tokens: int
    text: str | None = None
    reasoning: str | None = None

    @property
    def ok(self) -> bool:
        """True if nothing went wrong with this request."""
        return self.fault is None

    @property
    def finish_reason(self) -> str | None:
        """The first choice's finish reason: "length", "stop", ... or None if the server never said."""
        return self.finish_reasons[0] if self.finish_reasons else None


@dataclass(frozen=True, slots=True)
class ClientHealth:
    """How late the measuring client itself was during a round, and whether that spoils the round.

    `loop_lag_*`: how late a timer fired in the event loop (up to 1 ms is the timer's own grain). `kernel_stamps`:
    arrivals carry the kernel's time, so that lag does not shift them. `idle_share`: the part of a closed loop's
    clients' time that went by between an answer's last byte and the next request's start. `start_lateness_p99_s`:
    from the intended to the real start. `cpu_share`: CPU time of the busiest client process over the round's
    duration, 1.0 being one core full.
    """

    loop_lag_p50_s: float
    loop_lag_p99_s: float
    loop_lag_max_s: float
    cpu_share: float
    chunks_per_s: float
    start_lateness_p99_s: float
    idle_share: float = 0.0
    kernel_stamps: bool = False
    processes: int = 1
    saturated: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """A workload run through once.

    `started_monotonic_s` is the zero of all times here on this machine's CLOCK_MONOTONIC (`time.monotonic`), so
    that GPU samples can be laid beside it. `workload_hash` says what was asked, `acceptance_meaningful` is False
    for random tokens, whose acceptance says nothing.
    """

    requests: tuple[RequestRecord, ...]
    client: ClientHealth
    duration_s: float
    started_monotonic_s: float
    started_unix_s: float
    workload: str
    workload_hash: str
    load: str
    concurrency: int | None
    acceptance_meaningful: bool = True

    @property
    def ok(self) -> tuple[RequestRecord, ...]:
        """The requests that did not fail: the only ones metrics are made of."""
        return tuple(r for r in self.requests if r.fault is None)

    @property
    def faults(self) -> dict[FaultKind, int]:
        """How many requests failed, by kind; empty when none did."""
        counts: dict[FaultKind, int] = {}
        for record in self.requests:
            if record.fault is not None:
                counts[record.fault.kind] = counts.get(record.fault.kind, 0) + 1
        return counts


class LoadError(Exception):
    """The load could not be played at all (bad workload, cache that cannot be flushed, worker that died)."""
