"""Run the server on the host: ``[WRAPPER] PYTHON -m MODULE FLAGS``, or a command that takes the flags."""

from __future__ import annotations

from pathlib import Path

from suite.config import ProcessLaunch
from suite.servers.runtimes.base import LaunchPlan, LaunchRequest
from suite.sglang.flags import Flags


class ProcessWay:
    """The server is a child of the supervisor, in a session of its own."""

    enter: list[list[str]] = []  # noqa: RUF012 (nothing stands in the way of a process)
    leave: list[list[str]] = []  # noqa: RUF012
    base = Flags()

    def __init__(self, launch: ProcessLaunch, suite_directory: Path, local: bool) -> None:
        self._words = launch.words
        self._cwd = launch.cwd
        if local:
            self._cwd = str(suite_directory / (self._cwd or "."))

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        return LaunchPlan(
            stages=[[*self._words, *asked.flags.argv()]],
            shown=[*self._words, *asked.flags.shown()],
            env=asked.env,
            cwd=self._cwd,
        )
