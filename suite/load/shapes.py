"""Load shapes: when each request of a round is meant to start."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """`concurrency` clients, each sending its next request when its last one is answered.

    Ends after `requests` (None: as many as the workload holds, but at least one a client) or, if `duration_s` is
    given, with the last request started before that. With `ramp_s` the clients join one by one over that time.
    """

    concurrency: int
    requests: int | None = None
    duration_s: float | None = None
    ramp_s: float = 0.0

    def __post_init__(self) -> None:
        _positive(
            "ClosedLoop", concurrency=self.concurrency, requests=self.requests, duration_s=self.duration_s
        )

    def __str__(self) -> str:
        return f"closed loop, {self.concurrency} client{'s' if self.concurrency != 1 else ''}"

    def share(self, worker: int, workers: int) -> ClosedLoop:
        """What worker number `worker` of `workers` plays of this."""
        if self.concurrency < workers:
            raise ValueError(f"{self.concurrency} clients cannot be shared among {workers} processes")
        requests = None if self.requests is None else _part(self.requests, worker, workers)
        return ClosedLoop(_part(self.concurrency, worker, workers), requests, self.duration_s, self.ramp_s)


@dataclass(frozen=True, slots=True)
class OpenLoop:
    """Requests sent at `rate_per_s`, whether or not earlier ones are answered; latency counts from the intended start.

    `arrivals`: "poisson" (exponential gaps), "constant", or "burst" (`burst` at once, bursts evenly spaced). The rate
    rises in a line from `ramp_from_per_s` to `rate_per_s` over the first `ramp_s` seconds. Same `seed`, same times.
    """

    rate_per_s: float
    requests: int | None = None
    duration_s: float | None = None
    arrivals: Literal["poisson", "constant", "burst"] = "poisson"
    burst: int = 8
    ramp_s: float = 0.0
    ramp_from_per_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        _positive("OpenLoop", rate_per_s=self.rate_per_s, requests=self.requests, duration_s=self.duration_s)
        _positive("OpenLoop", burst=self.burst)
        if self.requests is None and self.duration_s is None:
            raise ValueError("OpenLoop needs requests or duration_s: otherwise it never ends")

    def __str__(self) -> str:
        return f"open loop, {self.rate_per_s:g} requests/s, {self.arrivals}"

    def starts(self) -> Iterator[float]:
        """The intended starts, in seconds since the round began."""
        chance = random.Random(self.seed)
        work, sent = 0.0, 0
        while self.requests is None or sent < self.requests:
            t = self._time_of(work)
            if self.duration_s is not None and t >= self.duration_s:
                return
            yield t
            sent += 1
            if self.arrivals == "poisson":
                work += chance.expovariate(1.0)
            elif self.arrivals == "constant" or self.burst == 1:
                work += 1.0
            elif sent % self.burst == 0:
                work += self.burst

    def _time_of(self, work: float) -> float:
        """When the rate, integrated from 0, has called for `work` requests."""
        rate, low, ramp = self.rate_per_s, self.ramp_from_per_s, self.ramp_s
        if ramp <= 0:
            return work / rate
        in_ramp = (low + rate) / 2 * ramp
        if work >= in_ramp:
            return ramp + (work - in_ramp) / rate
        slope = (rate - low) / ramp
        if abs(slope) < 1e-12:
            return work / rate
        return (math.sqrt(low * low + 2 * slope * work) - low) / slope


@dataclass(frozen=True, slots=True)
class Schedule:
    """Requests sent at given times, in seconds from the first on, whether or not earlier ones are answered."""

    times_s: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.times_s or any(b < a for a, b in itertools.pairwise(self.times_s)) or self.times_s[0] < 0:
            raise ValueError("Schedule.times_s must be there, not below 0, and in order")

    def __str__(self) -> str:
        span = self.times_s[-1] - self.times_s[0]
        rate = f", {(len(self.times_s) - 1) / span:.3g} requests/s" if span > 0 else ""
        return f"schedule of {len(self.times_s)} requests over {span:.3g} s{rate}"

    @property
    def requests(self) -> int:
        """As many as there are times."""
        return len(self.times_s)

    @property
    def duration_s(self) -> float | None:
        """No time ends it but the last of its own."""
        return None

    def starts(self) -> Iterator[float]:
        """The intended starts, in seconds since the round began."""
        return iter(self.times_s)


LoadShape = ClosedLoop | OpenLoop | Schedule


def _part(total: int, worker: int, workers: int) -> int:
    return total // workers + (worker < total % workers)


def _positive(shape: str, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{shape}.{name} must be above 0, got {value!r}")
