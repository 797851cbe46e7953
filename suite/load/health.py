"""The client's honesty about itself: how late its event loop was, how much of a core it used, and when that is too much."""

from __future__ import annotations

import asyncio
import time
from array import array
from dataclasses import dataclass, replace

import numpy as np

from suite.load.records import ClientHealth, RequestRecord

_PERIOD_S = 0.010


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """When a round is invalid because of its client: `client_saturated`.

    Lag is too much when its 99th percentile is above both `lag_p99_s` and `lag_of_itl` times the median inter-chunk
    time: 5 ms spoil chunks that come each 8 ms, and mean nothing to chunks that come each 100 ms. Where the kernel
    stamps arrivals, lag only matters once chunks pile up unread, and `kernel_lag_p99_s` with one whole inter-chunk
    time is the limit. `idle_share` is how much of a closed loop's time the client may keep the server waiting for
    its next request.
    """

    lag_p99_s: float = 0.005
    lag_of_itl: float = 0.5
    kernel_lag_p99_s: float = 0.020
    cpu_share: float = 0.9
    idle_share: float = 0.05


class LagMeter:
    """Asks the event loop for a wake-up every 10 ms and notes how much later each came."""

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

    def health(
        self, chunks: int, lateness: list[float], idle_share: float, kernel_stamps: bool
    ) -> ClientHealth:
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
            idle_share=idle_share,
            kernel_stamps=kernel_stamps,
        )

    def _schedule(self) -> None:
        self._due = self._loop.time() + _PERIOD_S
        self._handle = self._loop.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._lags.append(max(0.0, self._loop.time() - self._due))
        self._schedule()


def judge(health: ClientHealth, records: tuple[RequestRecord, ...], limits: ClientLimits) -> ClientHealth:
    """`health` with `saturated` and `reason` set."""
    whose = "its own work: use more workers" if health.cpu_share > 0.6 else "other processes on this machine"
    if health.cpu_share > limits.cpu_share:
        reason = f"the client used {health.cpu_share:.0%} of a core (limit {limits.cpu_share:.0%}): use more workers"
    elif health.loop_lag_p99_s > (limit_s := _lag_limit_s(health, records, limits)):
        lag_ms, limit_ms = health.loop_lag_p99_s * 1e3, limit_s * 1e3
        reason = (
            f"the client's event loop was late by {lag_ms:.1f} ms (p99; limit {limit_ms:.1f} ms), at "
            f"{health.cpu_share:.0%} of a core: probably {whose}"
        )
    elif health.idle_share > limits.idle_share:
        reason = (
            f"the client kept the server waiting {health.idle_share:.1%} of the time between two requests (limit "
            f"{limits.idle_share:.0%}): probably {whose}"
        )
    else:
        return health
    return replace(health, saturated=True, reason=reason)


def _lag_limit_s(health: ClientHealth, records: tuple[RequestRecord, ...], limits: ClientLimits) -> float:
    itls = [np.median(np.diff(r.timeline.t_s)) for r in records if r.ok and len(r.timeline.t_s) > 1]
    itl_s = float(np.median(itls)) if itls else 0.0
    if health.kernel_stamps:
        return max(limits.kernel_lag_p99_s, itl_s)
    return max(limits.lag_p99_s, limits.lag_of_itl * itl_s)


def merged(parts: list[ClientHealth]) -> ClientHealth:
    """Several processes' health as one: the worst lag and CPU share, the sum of the chunks."""
    return ClientHealth(
        loop_lag_p50_s=max(p.loop_lag_p50_s for p in parts),
        loop_lag_p99_s=max(p.loop_lag_p99_s for p in parts),
        loop_lag_max_s=max(p.loop_lag_max_s for p in parts),
        cpu_share=max(p.cpu_share for p in parts),
        chunks_per_s=sum(p.chunks_per_s for p in parts),
        start_lateness_p99_s=max(p.start_lateness_p99_s for p in parts),
        idle_share=max(p.idle_share for p in parts),
        kernel_stamps=all(p.kernel_stamps for p in parts),
        processes=len(parts),
    )
