"""The client's stamps against the paced server's log of when each chunk really left."""

from __future__ import annotations

import numpy as np
import pytest

from suite.load import ClosedLoop, Endpoint, Sampling, play, workloads
from suite.load.endpoint import TransportName
from tests.paced.server import PacedServer, compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="the paced server needs a C compiler")
WORKLOAD = workloads.load("code")


@pytest.mark.parametrize("transport", ["stamping", "public"])
@pytest.mark.parametrize("per_chunk", [1, 3])
def test_what_the_client_reports_is_what_the_server_did(transport: TransportName, per_chunk: int) -> None:
    with PacedServer(interval_s=0.010, first_s=0.030, tokens_per_chunk=per_chunk) as server:
        round_ = play(
            Endpoint(server.url, "paced", transport=transport),
            WORKLOAD,
            ClosedLoop(8, 16),
            sampling=Sampling(max_tokens=40, seed=100, seed_per_request=True),
        )
        truth = server.take_log()
    lateness, ttft_errors, gap_errors = [], [], []
    for record in round_.requests:
        true = truth[100 + record.index]
        assert record.fault is None
        assert record.timeline.tokens.tolist() == [*range(per_chunk, 40, per_chunk), 40]
        arrived = record.timeline.t_s + round_.started_monotonic_s
        lateness.append(arrived - true.left_s)
        gap_errors.append(np.abs(np.diff(arrived) - np.diff(true.left_s)))
        ttft_errors.append(
            (arrived[0] - record.started_s - round_.started_monotonic_s) - (true.left_s[0] - true.arrived_s)
        )
    late = np.concatenate(lateness)
    assert late.min() > -0.001, "nothing arrives before it leaves"
    assert np.median(late) < 0.010
    assert np.median(np.concatenate(gap_errors)) < 0.005
    assert abs(float(np.median(ttft_errors))) < 0.015


def test_with_the_kernels_stamps_a_late_client_still_tells_the_truth() -> None:
    """The client is made to sleep 6 ms of every 8; the stamps must not notice (a chunk comes each 20 ms)."""
    import asyncio
    import time

    from suite.load.player import Player, PlayPlan

    async def lazily(plan: PlayPlan) -> tuple[Player, tuple[object, ...]]:
        async def doze() -> None:
            while True:
                time.sleep(0.006)
                await asyncio.sleep(0.002)

        player = Player(plan)
        task = asyncio.create_task(doze())
        records, _ = await player.play()
        task.cancel()
        return player, records

    with PacedServer(interval_s=0.020, first_s=0.020) as server:
        sampling = Sampling(max_tokens=50, seed=0, seed_per_request=True)
        plan = PlayPlan(
            Endpoint(server.url, "paced", transport="stamping"), WORKLOAD, ClosedLoop(4, 4), sampling
        )
        player, records = asyncio.run(lazily(plan))
        truth = server.take_log()
    late = np.concatenate([r.timeline.t_s + player.zero - truth[r.index].left_s for r in records])  # type: ignore[attr-defined]
    # unstamped, arrivals would be spread over 0 to 6 ms, 3 ms in the middle
    assert np.median(late) < 0.001
