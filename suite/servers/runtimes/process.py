"""Run the server on the host: ``[WRAPPER] PYTHON -m MODULE FLAGS``, or a command that takes the flags."""

from __future__ import annotations

from dataclasses import dataclass, field

from suite.config import ProcessLaunch, Suite, Target
from suite.hosts import Host
from suite.servers.runtimes.base import LaunchPlan, LaunchRequest, Runtime
from suite.sglang import command


@dataclass(frozen=True, slots=True)
class ProcessRuntime(Runtime):
    """The server is a child of the supervisor, in a session of its own."""

    launch: ProcessLaunch = field(kw_only=True)

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        return LaunchPlan(
            stages=[[*self.launch.words, *asked.flags.argv()]],
            shown=[*self.launch.words, *asked.flags.shown()],
            env=asked.env,
            cwd=self.cwd,
        )


def runtime(launch: ProcessLaunch, suite: Suite, target: Target, host: Host) -> ProcessRuntime:
    """Of a process on ``host``."""
    cwd = str(suite.path.resolve().parent / (launch.cwd or ".")) if host.is_local else launch.cwd
    *leading, python = _python_of(launch) or (None,)
    module = "simulator" if launch.is_simulator else launch.module
    return ProcessRuntime(target, host, python, module, cwd, leading=tuple(leading), launch=launch)


def _python_of(launch: ProcessLaunch) -> tuple[str, ...] | None:
    """The words that lead to the interpreter of a process: as the table says, or as its command shows."""
    if launch.interpreter is not None:
        return (launch.interpreter,)
    try:
        return command.find([*launch.words, "--model-path", "none"]).python
    except command.NotUnderstood:
        return None
