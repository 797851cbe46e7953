"""Two builds looked at before the first launch of either: what they are, whether they take the arms, by which flags."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from suite.builds import BuildError
from suite.config import DockerLaunch, Target
from suite.doctor.arms import arms as looked_at_arms
from suite.doctor.line import Line
from suite.doctor.software import checkpoint
from suite.hosts import HostError
from suite.probes import image
from suite.servers.errors import ServerError
from suite.servers.runtimes import Runtime
from suite.session.entries import Note
from suite.session.run import Run
from suite.session.sides import BuildSide
from suite.sglang.errors import ProbeError, ProbeHostError
from suite.sglang.flags import translated

KIND = "build"
"""Of the notes that say what was found."""
PULL_S = 3600.0


def look_at_builds(run: Run, arms: Sequence[str]) -> None:
    """Look at both builds of a run, translate the flags that one of them calls otherwise, and note what was found.

    That an arm would be refused is a finding: the other build's arm is measured all the same.

    Raises:
        BuildError: one of them cannot be launched at all, or the checkpoint cannot be read.
    """
    for name, side in run.sides.items():
        try:
            for text in _look(run, name, side, arms):
                run.note(Note(text, KIND))
                run.progress.say(text)
        except (ProbeError, HostError, ServerError) as error:
            raise BuildError(f"the {name} cannot be launched: {error}") from None


def _look(run: Run, name: str, side: BuildSide, arms: Sequence[str]) -> Iterator[str]:
    run.progress.say(f"looking at the {name}")
    _must_be_there(run, side.runtime)
    version = str(side.build.subject({}).get("sglang") or side.version or "")
    side.target, told = _in_words_of(side.target, version)
    yield from (f"{name}: {text}" for text in told)
    side.runtime = replace(side.runtime, target=side.target)
    few = side.target.model_copy(update={"arms": {arm: side.target.arm(arm) for arm in arms}})
    runtime = replace(side.runtime, target=few)
    for line in checkpoint(runtime):
        if line.status == "problem":
            raise BuildError(f"the {name}: {line.said}; {line.todo}")
    directory = run.suite.path.resolve().parent
    found = looked_at_arms(runtime, directory)
    yield from (f"{name}: {_told(line)}" for line in found if line.status == "problem")


def _told(line: Line) -> str:
    return f"{line.what}: {line.said}" + (f"; {line.todo}" if line.todo else "")


def _must_be_there(run: Run, runtime: Runtime) -> None:
    """An image that the host does not have is pulled."""
    launch = runtime.target.launch
    if not isinstance(launch, DockerLaunch):
        return
    try:
        image.inspect(runtime.host, launch.engine, launch.image)
    except ProbeHostError:
        run.progress.say(f"pulling {launch.image}")
        done = runtime.host.run([launch.engine, "pull", launch.image], timeout_s=PULL_S)
        if done.code:
            said = (done.stderr or done.stdout).strip()[-300:]
            raise BuildError(
                f"{launch.engine} on {runtime.host.name} cannot pull {launch.image}: {said}"
            ) from None


def _in_words_of(target: Target, version: str) -> tuple[Target, list[str]]:
    """The target with its flags as this version calls them, and what was translated."""
    flags, told = translated(target.flags, version)
    arms = {}
    for name, arm in target.arms.items():
        own, more = translated(arm.flags, version)
        arms[name] = arm.model_copy(update={"flags": own})
        told += [text for text in more if text not in told]
    return target.model_copy(update={"flags": flags, "arms": arms}), told
