"""A long run in windows: does a server hold its speed and acceptance, and give back what it used?"""

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
class Steady:
    """A long run, and what to ask of it."""

    round: Round
    windows: list[Window]

    def must_hold(self) -> None:
        """Assert that every request was answered, and that neither tokens/s nor acceptance fades or dips.

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
            unsteady([w.tokens_per_s for w in self.windows], "output tokens/s"),
            unsteady([w.acceptance_length for w in self.windows], "acceptance length"),
        ]
        told = [sentence for sentence in found if sentence]
        if told:
            raise BrokenPromise("; ".join(told) + f"\n{self}")

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

    def must_accept_like(self, alone: Steady) -> None:
        """Assert that acceptance length is as on the same server with room to spare.

        Args:
            alone: the same workload with one client, whose cache is all but empty.

        Raises:
            BrokenPromise: it is lower by more than a tenth, or one of the two is unknown.
        """
        free, full = alone.acceptance_length, self.acceptance_length
        if free is None or full is None:
            raise BrokenPromise("acceptance length unknown: no answer reports speculative work")
        if full < free * (1 - FADE):
            raise BrokenPromise(
                f"acceptance collapses in a full cache: acceptance length {full:.3f}, with one client {free:.3f} "
                f"({full / free - 1:+.0%})\n{self}"
            )

    def __str__(self) -> str:
        return "\n".join(
            f"  {w.start_s:5.1f} to {w.end_s:5.1f} s: {w.tokens_per_s:7.1f} tokens/s, acceptance length "
            + ("unknown" if w.acceptance_length is None else f"{w.acceptance_length:.2f}")
            for w in self.windows
        )


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
