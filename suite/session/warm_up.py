"""Warm-up: requests that are not measured, until they get no faster; the first of a launch compile kernels and fill caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from suite import metrics
from suite.load import ClosedLoop, Round, play
from suite.session.asked import PlannedWorkload
from suite.session.run import Run
from suite.session.running_arm import RunningArm

BATCHES = 6
TOKENS = 64
"""Answers of a warm-up are at most so long: what a launch does for the first time it does within the first steps."""
STEADY = 0.015
"""Warm-up ends when a batch of requests is less than this much faster than the one before, at the latest after six."""


def warm_up(run: Run, served: RunningArm, asked: PlannedWorkload) -> Iterator[Round]:
    """Play batches of a workload's requests until they are steady; each batch, for what went wrong in it."""
    wanted = run.sizes.warmup_requests
    if wanted == 0:
        return
    served.doing = f"warm-up of {asked.label}"
    run.passing(f"{served.launch_id}: warming up")
    short = replace(asked.sampling, max_tokens=min(asked.sampling.max_tokens or TOKENS, TOKENS))
    last: float | None = None
    for batch in range(BATCHES):
        played = play(
            served.endpoint,
            asked.workload.sized(unique_prefix=f"warm-up {batch}, prompt "),
            ClosedLoop(asked.concurrency, max(wanted, asked.concurrency)),
            sampling=short,
            timeout_s=run.target.timeouts.request_s,
            stall_s=run.target.timeouts.stall_s,
        )
        yield played
        now = metrics.summarize(played)["output_tokens_per_s"].value
        if now is None or (last is not None and now < last * (1 + STEADY)):
            return
        last = now
