"""``--why``: of two builds, the arms whose steps got slower are launched once more and profiled, unmeasured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from suite.builds import Build
from suite.config import Target
from suite.gate.verdicts import Judgement
from suite.hosts import HostError
from suite.load import LoadError
from suite.metrics.registry import METRICS
from suite.servers import LaunchFailed, ServerError
from suite.session.run import Run
from suite.traces import why
from suite.traces.errors import TraceError
from suite.traces.told import headline

OF_STEPS = ("steps", "machine", "figure")
"""Kinds of cause that profiled steps may explain; what acceptance or a broken promise did is not to be seen in them."""
PROFILED_S = 60.0
"""What a profile of one launch takes beside bringing it up and down, said generously."""


def slowed(judgement: Judgement) -> list[str]:
    """Arms of which a speed of decoding got worse for its steps, those that speculate last; ratios are of two arms."""
    of_steps = {figure for cause in judgement.causes if cause.kind in OF_STEPS for figure in cause.figures}
    arms = {
        verdict.arm
        for verdict in judgement.verdicts.values()
        if verdict.word == "regression"
        and METRICS[verdict.metric].kind == "decode"
        and verdict.key.said in of_steps
    }
    return sorted(arms)


def explain(
    run: Run,
    target: Target,
    builds: Mapping[str, Build],
    judgement: Judgement,
    say: Callable[[str], None],
) -> dict[str, list[str]]:
    """For each arm that got slower, what its profiles say: the sentence first, or why there is none.

    target: as the run's builds change it; no server of the run may be up any more. Tables and traces go into `why-ARM` of the run's folder.
    """
    told: dict[str, list[str]] = {}
    for arm in slowed(judgement):
        needed = 2 * (target.start_estimate_s + PROFILED_S)
        if run.stopping.reason or not run.can_spare(needed):
            told[arm] = [f"not profiled: no time is left for two launches more ({needed / 60:.0f} minutes)"]
            continue
        folder = run.directory / f"why-{arm}"
        flagged = target.model_copy(update={"flags": {**target.flags, **run.extra_flags}})
        asked = why.ProfileRequest(run.suite, flagged, arm, folder, say=say, passing=run.passing)
        told[arm] = _explained(asked, builds)
    return told


def _explained(asked: why.ProfileRequest, builds: Mapping[str, Build]) -> list[str]:
    try:
        found = why.explain(asked, builds)
    except (TraceError, LaunchFailed, ServerError, LoadError, HostError) as error:
        return [f"could not be profiled: {error}"]
    return [headline(found), f"kernels, worst first: {asked.folder / why.SAID_FILE}"]


def page(told: Mapping[str, list[str]], directory: Path) -> str:
    """The same for the page of the run, with the tables; empty where nothing was profiled."""
    parts = []
    for arm, (first, *_) in told.items():
        table = directory / f"why-{arm}" / why.SAID_FILE
        text = table.read_text(encoding="utf-8") if table.exists() else ""
        fold = (
            f"\n\n<details><summary>parts and kernels</summary>\n\n```\n{text}```\n\n</details>"
            if text
            else ""
        )
        parts.append(f"**Why, {arm}:** {first}{fold}")
    return "\n\n".join(parts) + ("\n" if parts else "")
