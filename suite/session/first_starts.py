"""The first start of each of two builds: what it warms (compiled kernels, the page cache) belongs to no measurement."""

from __future__ import annotations

import time
from collections.abc import Sequence

from suite.hosts import HostError
from suite.load import ClosedLoop, LoadError, Sampling, play, workloads
from suite.servers import ServerError
from suite.session.outcomes import ArmUnavailable
from suite.session.plan import LaunchId
from suite.session.run import Run
from suite.session.times import Expected
from suite.sglang.errors import ProbeError

NUMBER = 0
"""Of a launch that is not measured."""
TOKENS = 32


def wanted(builds: Sequence[str], arms: Sequence[str]) -> list[LaunchId]:
    """A launch of each build, of the arm that asks most: the last."""
    return [LaunchId(arms[-1], NUMBER, build) for build in builds] if arms else []


def seconds(launch_ids: Sequence[LaunchId], expected: Expected) -> float:
    """What they are expected to take."""
    return sum(expected.start_s(launch_id.arm) + expected.end_s for launch_id in launch_ids)


def warm(run: Run, launch_ids: Sequence[LaunchId]) -> None:
    """Launch each, ask it a little, and measure nothing; what was launched in an earlier try is warm.

    One that does not come up is told where it is measured.
    """
    launched = {run.told.launches[number].build for number in run.told.ready}
    for launch_id in launch_ids:
        if launch_id.build in launched or not run.can_spare(0.0):
            continue
        began = time.monotonic()
        try:
            served = run.served(launch_id)
            clients = max(run.sizes.concurrencies, default=1)
            for at_once in dict.fromkeys((1, clients)):
                play(
                    served.endpoint,
                    workloads.load("code").sized(max_tokens=TOKENS, unique_prefix="first start, prompt "),
                    ClosedLoop(at_once, at_once),
                    sampling=Sampling(TOKENS, temperature=0.0, ignore_eos=True),
                    timeout_s=run.target.timeouts.request_s,
                    stall_s=run.target.timeouts.stall_s,
                )
        except (ServerError, HostError, ProbeError, LoadError, ArmUnavailable):
            run.drop_lost()
            run.forget(launch_id)
            continue
        run.progress.say(f"{launch_id.build}: warmed by a first start, {time.monotonic() - began:.0f} s")
