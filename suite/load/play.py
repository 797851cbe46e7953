"""`play`: one round, from warm-up and cache policy to the merged records of all worker processes."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from suite.load import cache, health, workers
from suite.load.endpoint import Endpoint, Sampling
from suite.load.health import ClientLimits
from suite.load.player import Player, PlayPlan, Progress, Report
from suite.load.records import ClientHealth, LoadError, RequestRecord, Round
from suite.load.shapes import ClosedLoop, LoadShape
from suite.load.workloads import Workload

T = TypeVar("T")
_SHARE_OF_A_CORE = 0.4  # above this in warm-up, "auto" adds processes


@dataclass(frozen=True, slots=True)
class WarmUp:
    """Load before the measurement, on the same workload and at the same concurrency, never counted.

    `requests` are played at least; with `until_steady`, batches of that many go on until the output rate of two
    batches in a row agrees within `tolerance`, or until `requests_max` have been played.
    """

    requests: int = 4
    until_steady: bool = False
    tolerance: float = 0.05
    requests_max: int = 64


def play(
    endpoint: Endpoint,
    workload: Workload,
    load: LoadShape,
    *,
    sampling: Sampling | None = None,
    timeout_s: float | None = None,
    stall_s: float | None = 60.0,
    warm_up: int | WarmUp = 0,
    flush_cache: bool = False,
    unique_prefix: bool = False,
    keep_text: bool = False,
    workers: int | Literal["auto"] = 1,
    limits: ClientLimits | None = None,
    progress: Report | None = None,
) -> Round:
    """Play `workload` once against `endpoint` in the shape of `load`, and return what came back.

    `timeout_s` limits a whole answer, `stall_s` the silence within one; both end only that request, as a fault.
    `warm_up` is a number of requests or a `WarmUp`. `flush_cache` waits until the server is idle and empties its
    prefix cache before the measurement (SGLang); `unique_prefix` makes every prompt start with something never sent
    before. `workers` processes share the load on one clock; "auto" decides from the warm-up.
    Blocks; may be called with or without an event loop running in this thread.
    Raises LoadError if nothing could be played: no such server, a cache that cannot be flushed, a dead worker.
    """
    if unique_prefix:
        workload = workload.sized(unique_prefix=f"{secrets.token_hex(4)}-")
    plan = PlayPlan(
        endpoint,
        workload,
        load,
        sampling or Sampling(),
        timeout_s,
        stall_s,
        keep_text,
        limits or ClientLimits(),
    )
    warmed = _warm_up(plan, WarmUp(warm_up) if isinstance(warm_up, int) else warm_up, progress)
    if flush_cache:
        cache.flush(endpoint)
    count = _workers_for(plan, warmed) if workers == "auto" else workers
    return _measure(plan, count, progress)


def _measure(plan: PlayPlan, count: int, progress: Report | None) -> Round:
    if count > 1:
        share = workers.play_in_processes(plan, count, progress)
        records, client, zero, zero_unix = share
    else:
        player = Player(plan, progress)
        records, client = _run(player.play())
        zero, zero_unix = player.zero, player.zero_unix
    return _round(plan, records, client, zero, zero_unix)


def _round(
    plan: PlayPlan, records: tuple[RequestRecord, ...], client: ClientHealth, zero: float, zero_unix: float
) -> Round:
    client = health.judge(client, records, plan.limits)
    # time.monotonic and the stamps' clock are the same on Linux; elsewhere the difference is taken here
    monotonic = zero + time.monotonic() - time.perf_counter()
    first = min((r.started_s for r in records), default=0.0)
    return Round(
        requests=records,
        client=client,
        duration_s=max((r.ended_s for r in records), default=0.0) - first,
        started_monotonic_s=monotonic,
        started_unix_s=zero_unix,
        workload=plan.workload.name,
        workload_hash=plan.workload.content_hash,
        load=str(plan.load),
        concurrency=plan.load.concurrency if isinstance(plan.load, ClosedLoop) else None,
        acceptance_meaningful=plan.workload.acceptance_meaningful,
    )


def _warm_up(plan: PlayPlan, warm_up: WarmUp, progress: Report | None) -> ClientHealth | None:
    """Play the warm-up and return the last batch's health; None if there was none."""
    if warm_up.requests <= 0:
        return None
    concurrency = plan.load.concurrency if isinstance(plan.load, ClosedLoop) else warm_up.requests
    last_rate, played, client = 0.0, 0, None
    while played < warm_up.requests_max:
        load = ClosedLoop(min(concurrency, warm_up.requests), warm_up.requests)
        report = (lambda p: progress(replace(p, phase="warming up"))) if progress else None
        workload = plan.workload.sized(unique_prefix=f"warm-{secrets.token_hex(4)}-")
        player = Player(replace(plan, load=load, workload=workload), report)
        records, client = _run(player.play())
        played += len(records)
        good = [r for r in records if r.ok]
        if not good:
            raise LoadError(f"every warm-up request failed; the first: {records[0].fault}")
        tokens = sum(r.completion_tokens or 0 for r in good)
        rate = tokens / (max(r.ended_s for r in good) - min(r.started_s for r in good))
        if not warm_up.until_steady or abs(rate - last_rate) <= warm_up.tolerance * rate:
            break
        last_rate = rate
    return client


def _workers_for(plan: PlayPlan, warmed: ClientHealth | None) -> int:
    if warmed is None:
        return 1
    wanted = math.ceil(warmed.cpu_share / _SHARE_OF_A_CORE)
    most = plan.load.concurrency if isinstance(plan.load, ClosedLoop) else wanted
    return max(1, min(wanted, os.cpu_count() or 1, most))


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run to its end in an event loop of its own, in another thread if this one's loop is taken."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="suite-load") as pool:
        return pool.submit(asyncio.run, work).result()


__all__ = ["Progress", "WarmUp", "play"]
