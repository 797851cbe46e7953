"""Why steps got slower: one more launch of each build, a few of its steps profiled, and what the two profiles differ by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from suite import config
from suite.builds import Build
from suite.foreign import read_file
from suite.hosts import open_host
from suite.load import Endpoint
from suite.servers import Launcher, launcher_for
from suite.traces.capture import Capture, capture, folder_on
from suite.traces.compare import StepDifference, compare
from suite.traces.errors import TraceError
from suite.traces.steps import Profile, profile_of
from suite.traces.told import lines
from suite.traces.torch_trace import PACKED_BYTES, Span, read

STEPS = 32
REFERENCE, CANDIDATE = "reference", "candidate"
SAID_FILE, TABLE_FILE = "why.txt", "why.json"


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What is profiled: an arm of a target, so many decoding steps with so many clients; results go into the folder."""

    suite: config.Suite
    target: config.Target
    arm: str
    folder: Path
    steps: int = STEPS
    clients: int = 1
    say: Callable[[str], None] = lambda line: None
    passing: Callable[[str], None] = lambda line: None
    """Takes how far a launch has come, which nobody needs to keep."""


def explain(asked: ProfileRequest, builds: Mapping[str, Build]) -> StepDifference:
    """Launch both builds once more, profile each, and write what they differ by into the folder, with the traces.

    builds: those under "reference" and "candidate". Nothing is measured: a profiler slows what it sees.
    Raises TraceError where there is nothing to compare; LaunchFailed if a build does not come up; LoadError, HostError.
    """
    profiles = [_profiled(asked, name, builds[name]) for name in (REFERENCE, CANDIDATE)]
    return _kept(compare(*profiles), asked.folder)


def explain_files(reference: Path, candidate: Path, folder: Path | None = None) -> StepDifference:
    """The same of two traces that are there already.

    Raises TraceError if one is none.
    """
    found = compare(*(profile_of(_events(path)) for path in (reference, candidate)))
    return found if folder is None else _kept(found, folder)


def _kept(found: StepDifference, folder: Path) -> StepDifference:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SAID_FILE).write_text("\n".join(lines(found)) + "\n", encoding="utf-8")
    (folder / TABLE_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")
    return found


def _profiled(asked: ProfileRequest, name: str, build: Build) -> Profile:
    wanted = Capture(asked.steps, asked.clients, asked.target.gpus > 0, asked.target.timeouts.request_s)
    with (
        open_host(asked.suite.host(asked.target.host)) as host,
        folder_on(host) as place,
        launcher_for(
            asked.suite,
            _served(build.on(asked.target), asked.folder, place),
            asked.folder / name / "logs",
            asked.passing,
        ) as launcher,
    ):
        if not isinstance(launcher, Launcher):
            raise TraceError(
                f"target {asked.target.name} is a running server: no build of it can be launched"
            )
        asked.say(f"launching {asked.arm} of the {name} ({build.name}) for a profile")
        server = launcher.start(launcher.target.arm(asked.arm))
        endpoint = Endpoint(server.base_url, api_key=server.api_key, admin_api_key=server.admin_api_key)
        data, events = capture(endpoint, host, place, wanted, asked.say)
        server.stop()
    (asked.folder / f"{name}.trace.json.gz").write_bytes(data)
    return profile_of(events)


def _served(target: config.Target, folder: Path, place: str) -> config.Target:
    """The target for one launch: `{run}` is the folder, and a container sees the place that traces are written to."""
    launch = target.launch
    if isinstance(launch, config.DockerLaunch):
        launch = launch.model_copy(update={"mounts": [*launch.mounts, f"{place}:{place}"]})
    return target.in_run(folder.resolve()).model_copy(update={"launch": launch})


def _events(path: Path) -> list[Span]:
    try:
        return read(read_file(path, PACKED_BYTES), path.name)
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from None
