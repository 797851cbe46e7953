"""One request to numbers: latencies and gaps from its timeline, and whether it kept the limits of an SLO.

An *arrival* is one read of the stream that brought tokens, however many events it held: events of one read share
its time stamp, so they count as one arrival here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.load.records import RequestRecord, Timeline


@dataclass(frozen=True, slots=True)
class SLO:
    """What a request must keep to count as good: every limit given, in seconds. `itl_s` is its worst gap."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    itl_s: float | None = None
    e2e_s: float | None = None


def arrivals(line: Timeline) -> Timeline:
    """The timeline with events of one read as one entry, that of the last of them."""
    last_of_read = np.append(np.diff(line.t_s) > 0, True)[: len(line.t_s)]
    return Timeline(line.t_s[last_of_read], line.tokens[last_of_read], line.per_chunk)


def ttft_s(record: RequestRecord) -> float | None:
    """From the origin to the first arrival that carried tokens; a role chunk carries none."""
    return float(record.timeline.t_s[0] - record.origin_s) if len(record.timeline.t_s) else None


def e2e_s(record: RequestRecord) -> float | None:
    """From the origin to the last arrival that carried tokens."""
    return float(record.timeline.t_s[-1] - record.origin_s) if len(record.timeline.t_s) else None


def tpot_s(record: RequestRecord) -> float | None:
    """(t_last - t_first) / (tokens - tokens in the first arrival); None if all tokens came in one arrival."""
    line = arrivals(record.timeline)
    if not line.per_chunk or len(line.t_s) < 2:
        return None
    return float((line.t_s[-1] - line.t_s[0]) / (line.tokens[-1] - line.tokens[0]))


def chunk_gaps_s(record: RequestRecord) -> NDArray[np.float64]:
    """Times between successive arrivals that carried tokens."""
    return np.diff(arrivals(record.timeline).t_s)


def token_gaps_s(record: RequestRecord) -> NDArray[np.float64]:
    """Times between successive tokens: tokens of one arrival share its time, so one of k tokens gives k-1 zeros.

    The tokens of the first arrival are no gap after anything and are left out, zeros included.
    """
    line = arrivals(record.timeline)
    if not line.per_chunk:
        return np.empty(0)
    sizes = np.diff(line.tokens)
    gaps = np.zeros(int(sizes.sum()))
    gaps[np.concatenate(([0], np.cumsum(sizes)[:-1]))[: len(sizes)].astype(int)] = np.diff(line.t_s)
    return gaps


def meets(record: RequestRecord, slo: SLO) -> bool:
    """Whether a request keeps every limit; one that failed, or whose figure is unknown, does not.

    What comes in one arrival has no gap and no time per token that could be too long.
    """
    if not record.ok:
        return False
    gaps = chunk_gaps_s(record)
    held = [
        (slo.ttft_s, ttft_s(record)),
        (slo.e2e_s, e2e_s(record)),
        *((slo.itl_s, float(gap)) for gap in gaps),
    ]
    if len(gaps) and record.completion_tokens != 1:
        held.append((slo.tpot_s, tpot_s(record)))
    return all(limit is None or (seen is not None and seen <= limit) for limit, seen in held)
