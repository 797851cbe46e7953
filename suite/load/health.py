"""The client's honesty about itself: how late its event loop was, how much of a core it used, and when that is too much."""

from __future__ import annotations

import asyncio
import time
from array import array
from dataclasses import dataclass, replace

import numpy as np

from suite.load.records import ClientHealth, RequestRecord

_PERIOD_S = 0.005


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """When a round is invalid because of its client: `invalid: client saturated`.

    Lag is too much when its 99th percentile is above `lag_p99_s` and also above `lag_of_itl` of the median
    inter-chunk time: 5 ms spoil chunks that come each 8 ms, and mean nothing to chunks that come each 100 ms.
    """

    lag_p99_s: float = 0.005
    lag_of_itl: float = 0.5
    cpu_share: float = 0.9


class LagMeter:
    """Asks the event loop for a wake-up every 5 ms and notes how much later each came."""

    def __init__(self) -> None:
        self._lags = array("d")
        self._due = 0.0
        self._handle: asyncio.TimerHandle | None = None
        self._cpu_s = 0.0
        self._wall_s = 0.0

    def start(self) -> None:
        """Begin; call from inside the loop that is to be measured."""
        self._loop = asyncio.get_running_loop()
        self._cpu_s, self._wall_s = time.thread_time(), time.perf_counter()
        self._schedule()

    def stop(self) -> None:
        """End, and settle the CPU share."""
        if self._handle is not None:
            self._handle.cancel()
        self._cpu_s = time.thread_time() - self._cpu_s
        self._wall_s = time.perf_counter() - self._wall_s

    def health(self, chunks: int, lateness: list[float]) -> ClientHealth:
        """The verdict's raw material; `judge` adds the verdict."""
        lags = np.frombuffer(self._lags) if self._lags else np.zeros(1)
        p50, p99 = np.quantile(lags, [0.5, 0.99])
        return ClientHealth(
            loop_lag_p50_s=float(p50),
            loop_lag_p99_s=float(p99),
            loop_lag_max_s=float(lags.max()),
            cpu_share=self._cpu_s / self._wall_s if self._wall_s > 0 else 0.0,
            chunks_per_s=chunks / self._wall_s if self._wall_s > 0 else 0.0,
            start_lateness_p99_s=float(np.quantile(lateness, 0.99)) if lateness else 0.0,
        )

    def _schedule(self) -> None:
        self._due = self._loop.time() + _PERIOD_S
        self._handle = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._lags.append(max(0.0, self._loop.time() - self._due))
        self._schedule()


def judge(health: ClientHealth, records: tuple[RequestRecord, ...], limits: ClientLimits) -> ClientHealth:
    """`health` with `saturated` and `reason` set."""
    if health.cpu_share > limits.cpu_share:
        reason = f"the client used {health.cpu_share:.0%} of a core (limit {limits.cpu_share:.0%}): use more workers"
        return replace(health, saturated=True, reason=reason)
    gaps = [np.diff(r.timeline.t_s) for r in records if r.ok and len(r.timeline.t_s) > 1]
    itl_s = float(np.median(np.concatenate(gaps))) if gaps else 0.0
    limit_s = max(limits.lag_p99_s, limits.lag_of_itl * itl_s)
    if health.loop_lag_p99_s > limit_s:
        whose = "its own work" if health.cpu_share > 0.6 else "other processes on this machine"
        reason = (
            f"the client's event loop was late by {health.loop_lag_p99_s * 1e3:.1f} ms (p99; limit {limit_s * 1e3:.1f}"
            f" ms), at {health.cpu_share:.0%} of a core: probably {whose}"
        )
        return replace(health, saturated=True, reason=reason)
    return health


def merged(parts: list[ClientHealth]) -> ClientHealth:
    """Several processes' health as one: the worst lag and CPU share, the sum of the chunks."""
    return ClientHealth(
        loop_lag_p50_s=max(p.loop_lag_p50_s for p in parts),
        loop_lag_p99_s=max(p.loop_lag_p99_s for p in parts),
        loop_lag_max_s=max(p.loop_lag_max_s for p in parts),
        cpu_share=max(p.cpu_share for p in parts),
        chunks_per_s=sum(p.chunks_per_s for p in parts),
        start_lateness_p99_s=max(p.start_lateness_p99_s for p in parts),
        processes=len(parts),
    )
