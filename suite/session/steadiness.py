"""A long run in windows: does a server hold its speed and acceptance, and give back what it used?

Windows of many seconds show what fades; episodes of a second or less are looked for in slices as short as a hundred
verify steps allow; and the level under load is held against the same server with one client, because a loss that is
there from the first window on is no change within the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from suite.load import RequestRecord, Round
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.sglang.server import Counters

WINDOWS = 8
LEAD_IN = 2
"""Windows that hold the start, when all clients connect and prefill at once, and are not compared."""

FADE = 0.10
"""Last window against the first: a server that loses a tenth within minutes has lost half within the day."""

SLICE_S, SLICE_STEPS = 0.25, 100
"""A slice is at least this long, and holds at least so many arrivals: the mean of a hundred steps is known to 4 %."""
EPISODE = 0.25
"""A slice whose tokens per step fall short of the run's usual level by more than this is part of an episode."""
SHOWN_EPISODES = 4
CUT_ANEW = 0.1
"""Share by which arrivals may outnumber verify steps, or fall short of them, for each to be one."""
SURE = 3.0
"""Standard errors by which two acceptance lengths must differ before the difference is one."""

DIP = 0.25
"""Lowest window against the median one: a pause in which every client waits, which a mean over the run hides."""

IDLE_WITHIN_S = 10.0
HELD = 0.005
"""The share of a flushed KV cache that may still show as in use."""


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of the run: output tokens/s of all clients, and acceptance length of the answers ended in it."""

    start_s: float
    end_s: float
    tokens_per_s: float
    acceptance_length: float | None


def windows(round_: Round, duration_s: float, count: int = WINDOWS) -> list[Window]:
    """``count`` equal windows over the first ``duration_s`` of a round; tokens count when they arrive.

    What comes after ``duration_s`` is left out: clients end one by one there.
    """
    edges = np.linspace(0.0, duration_s, count + 1)
    arrived = np.zeros(count)
    for record in round_.ok:
        line = record.timeline
        if not line.per_chunk:
            continue
        fresh = np.diff(line.tokens, prepend=0)
        arrived += np.histogram(line.t_s, bins=edges, weights=fresh)[0]
    width = duration_s / count
    return [
        Window(
            float(edges[i]),
            float(edges[i + 1]),
            float(arrived[i] / width),
            _acceptance(r for r in round_.ok if edges[i] <= r.ended_s < edges[i + 1]),
        )
        for i in range(count)
    ]


def _acceptance(records: Iterable[RequestRecord]) -> float | None:
    told = [record.spec for record in records if record.spec is not None]
    steps = sum(spec.verify_steps for spec in told)
    return 1 + sum(spec.correct_drafts for spec in told) / steps if steps else None


def unsteady(values: Sequence[float | None], what: str) -> str | None:
    """How a series of windows fades or dips, in words, the lead-in left out; ``None`` if it holds."""
    known = [value for value in values[LEAD_IN:] if value is not None]
    if len(known) < 3:
        return None
    first, last, lowest, middle = known[0], known[-1], min(known), median(known)
    if last < first * (1 - FADE):
        return f"{what} fades: {first:.4g} at first, {last:.4g} in the last window ({last / first - 1:+.0%})"
    if lowest < middle * (1 - DIP):
        return f"{what} dips: {lowest:.4g} in the lowest window, {middle:.4g} in the median one ({lowest / middle - 1:+.0%})"
    return None


@dataclass(frozen=True, slots=True)
class Slice:
    """A short stretch of the run: tokens that arrived in it, and in how many arrivals."""

    start_s: float
    end_s: float
    tokens: int
    arrivals: int

    @property
    def per_step(self) -> float:
        """Tokens an arrival: with speculation those of one verify step."""
        return self.tokens / self.arrivals


def slices(round_: Round, duration_s: float) -> list[Slice]:
    """The run in the shortest slices that hold enough arrivals each, first tokens (of prefill) left out."""
    lines = [r.timeline for r in round_.ok if r.timeline.per_chunk and len(r.timeline.t_s) > 1]
    if not lines:
        return []
    t_s = np.concatenate([line.t_s[1:] for line in lines])
    fresh = np.concatenate([np.diff(line.tokens) for line in lines])
    rate = np.count_nonzero(t_s < duration_s) / duration_s
    if rate <= 0:
        return []
    edges = np.linspace(0.0, duration_s, max(int(duration_s / max(SLICE_S, SLICE_STEPS / rate)), 1) + 1)
    tokens, counts = np.histogram(t_s, edges, weights=fresh)[0], np.histogram(t_s, edges)[0]
    return [
        Slice(float(edges[i]), float(edges[i + 1]), int(tokens[i]), int(counts[i]))
        for i in range(len(counts))
        if counts[i] >= SLICE_STEPS / 2
    ]


def episodes(found: Sequence[Slice]) -> str | None:
    """Stretches in which fewer tokens per step came than usual, with their times; ``None`` if there is none.

    The usual level is the upper quartile of the slices, so that episodes that take half of the time do not set it.
    """
    if len(found) < 4:
        return None
    usual = float(np.quantile([s.per_step for s in found], 0.75))
    low = [s for s in found if s.per_step < usual * (1 - EPISODE)]
    if not low:
        return None
    stretches: list[list[Slice]] = []
    for one in low:
        if stretches and one.start_s - stretches[-1][-1].end_s < SLICE_S / 2:
            stretches[-1].append(one)
        else:
            stretches.append([one])
    times = ", ".join(
        f"{part[0].start_s:.1f} to {part[-1].end_s:.1f} s" for part in stretches[:SHOWN_EPISODES]
    )
    more = f" and {len(stretches) - SHOWN_EPISODES} more" if len(stretches) > SHOWN_EPISODES else ""
    worst = min(s.per_step for s in low)
    lasted = sum(s.end_s - s.start_s for s in low)
    return (
        f"acceptance falls in episodes: {worst:.2f} tokens per step, {usual:.2f} as a rule, for {lasted:.1f} s of "
        f"{found[-1].end_s - found[0].start_s:.1f} s ({times}{more})"
    )


@dataclass(frozen=True, slots=True)
class Steady:
    """A long run, and what to ask of it."""

    round: Round
    windows: list[Window]
    duration_s: float = 0.0
    silence: str | None = None
    """Why a server of this release may not tell its acceptance; ``None`` where it would."""

    def must_hold(self) -> None:
        """Assert that every request was answered, and that neither tokens/s nor acceptance fades, dips or falls in
        episodes.

        Raises:
            BrokenPromise: one of them does.
            InvalidMeasurement: the client itself was late, so that dips may be its own.
        """
        self.must_all_be_answered()
        if self.round.client.saturated:
            raise InvalidMeasurement(
                f"client_saturated ({self.round.client.reason}): its own pauses look like the server's"
            )
        found = [
            episodes(self._slices),
            unsteady([w.acceptance_length for w in self.windows], "acceptance length"),
            unsteady([w.tokens_per_s for w in self.windows], "output tokens/s"),
        ]
        told = [sentence for sentence in found if sentence]
        if told:
            raise BrokenPromise("; ".join(told) + f"\n{self}")

    @property
    def _slices(self) -> list[Slice]:
        """Empty where nothing is drafted, or where events are not verify steps (a proxy cut the stream anew)."""
        told = [r.spec for r in self.round.ok if r.spec is not None]
        if not self.duration_s or not any(spec.correct_drafts for spec in told):
            return []
        steps = sum(spec.verify_steps for spec in told)
        arrivals = sum(len(r.timeline.t_s) - 1 for r in self.round.ok if r.spec is not None)
        return slices(self.round, self.duration_s) if abs(arrivals - steps) < CUT_ANEW * steps else []

    def must_all_be_answered(self) -> None:
        """Assert that no request failed."""
        faults = [record for record in self.round.requests if record.fault is not None]
        if faults:
            raise BrokenPromise(
                f"{len(faults)} of {len(self.round.requests)} requests failed; the first: {faults[0].fault}"
            )

    @property
    def acceptance_length(self) -> float | None:
        """Over the whole run; ``None`` if no answer tells."""
        return _acceptance(self.round.ok)

    def must_accept_like(self, alone: Steady, where: str = "in a full cache") -> None:
        """Assert that acceptance length is as on the same server with room to spare.

        Args:
            alone: the same workload with one client, whose cache is all but empty.
            where: what is different here, for the message.

        Raises:
            BrokenPromise: it is lower by more than a tenth, beyond what requests differ by, or one of the two is
                unknown.
            InvalidMeasurement: one is unknown, and a server of this release may not tell it.
        """
        free, full = alone.acceptance_length, self.acceptance_length
        if (free is None or full is None) and self.silence is not None:
            raise InvalidMeasurement(f"acceptance length unknown: {self.silence}")
        if free is None or full is None:
            raise BrokenPromise("acceptance length unknown: no answer reports speculative work")
        doubt = SURE * float(np.hypot(_standard_error(self.round), _standard_error(alone.round)))
        if full < free * (1 - FADE) and free - full > doubt:
            raise BrokenPromise(
                f"acceptance collapses {where}: acceptance length {full:.3f}, with one client {free:.3f} "
                f"({full / free - 1:+.0%})\n{self}"
            )

    def __str__(self) -> str:
        return "\n".join(
            f"  {w.start_s:5.1f} to {w.end_s:5.1f} s: {w.tokens_per_s:7.1f} tokens/s, acceptance length "
            + ("unknown" if w.acceptance_length is None else f"{w.acceptance_length:.2f}")
            for w in self.windows
        )


def _standard_error(round_: Round) -> float:
    """Of the acceptance length over all answers of a round, as they differ from one another (answers as clusters)."""
    told = [record.spec for record in round_.ok if record.spec is not None and record.spec.verify_steps]
    if len(told) < 2:
        return 0.0
    steps = np.array([spec.verify_steps for spec in told], dtype=float)
    drafts = np.array([spec.correct_drafts for spec in told], dtype=float)
    residual = drafts - drafts.sum() / steps.sum() * steps
    n = len(told)
    return float(np.sqrt(n / (n - 1) * np.sum(residual**2)) / steps.sum())


def must_be_idle(read: Callable[[], Counters | None], after: str) -> None:
    """Assert that nothing runs or waits once all clients are gone.

    Args:
        read: the server's counters now; ``None`` where it has none.
        after: what came before, for the message.

    Raises:
        BrokenPromise: something still does after ten seconds.
    """

    def left(now: Counters) -> list[str]:
        kinds = ((now.running_requests, "still running"), (now.queued_requests, "still queued"))
        return [f"{value:g} requests {what}" for value, what in kinds if value]

    _until_nothing(read, left, after)


def must_be_empty(read: Callable[[], Counters | None], after: str) -> None:
    """Assert that a flushed KV cache holds nothing; arguments and errors as for :func:`must_be_idle`."""

    def left(now: Counters) -> list[str]:
        used = now.token_usage or 0.0
        return [f"{used:.1%} of the KV cache in use although it was flushed"] if used > HELD else []

    _until_nothing(read, left, after)


def _until_nothing(
    read: Callable[[], Counters | None], left: Callable[[Counters], list[str]], after: str
) -> None:
    deadline = time.monotonic() + IDLE_WITHIN_S
    while (now := read()) is not None and (found := left(now)):
        if time.monotonic() > deadline:
            raise BrokenPromise(f"not given back {IDLE_WITHIN_S:g} s after {after}: {', '.join(found)}")
        time.sleep(0.2)
