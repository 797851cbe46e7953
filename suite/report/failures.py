"""Failures that say everything themselves are shown as their text, without a traceback through this suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from suite.config import ConfigError
from suite.foreign import one_line
from suite.gate import GateError
from suite.hosts.errors import HostError
from suite.load import LoadError
from suite.servers import ServerError
from suite.session.outcomes import AnotherBuild, ArmUnavailable, BaselineMissing, BrokenPromise, Unproven
from suite.sglang.errors import ProbeError
from suite.terminal.looks import wrap

TOLD = (
    BrokenPromise,
    Unproven,
    AnotherBuild,
    ArmUnavailable,
    BaselineMissing,
    ConfigError,
    GateError,
    HostError,
    LoadError,
    ProbeError,
    ServerError,
)
"""Exceptions whose text says what happened, where, and what to do next."""


class OwnWords(TerminalRepr):
    """An exception's own words; its first line is what pytest's short summary shows."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self.reprcrash = ReprFileLocation(path, 0, text.split("\n", 1)[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        first, *rest = self._text.split("\n")
        for line in _fitting(first, tw):
            tw.line(line, bold=True, red=True)
        for line in rest:
            for part in _fitting(line, tw):
                tw.line(part)


def _fitting(line: str, tw: TerminalWriter) -> list[str]:
    """On a terminal, broken between words; elsewhere as it is."""
    return (wrap(line, tw.fullwidth) or [""]) if tw._file.isatty() else [line]


def first_line(report: pytest.TestReport) -> str:
    """What a failed report says first."""
    crash = getattr(report.longrepr, "reprcrash", None)
    said = crash.message if crash is not None else str(report.longrepr)
    return one_line(said.split("\n", 1)[0])


def reports(
    nodeid: str,
    error: BaseException | None,
    seconds: float = 0.0,
    properties: Sequence[tuple[str, object]] = (),
) -> list[pytest.TestReport]:
    """Reports of what is told as an item, and is not played as one here: an arm's failure, or an item of another host."""
    path = nodeid.partition("::")[0]
    where = (path, None, nodeid.rpartition("::")[2])
    outcome: Literal["passed", "failed", "skipped"] = "failed" if error is not None else "passed"
    told: Any = OwnWords(str(error), path) if error is not None else None
    if isinstance(error, pytest.skip.Exception | ArmUnavailable):
        outcome, told = "skipped", (path, 0, f"Skipped: {error}")
    own = list(properties)
    return [
        pytest.TestReport(nodeid, where, {}, "passed", None, "setup"),
        pytest.TestReport(nodeid, where, {}, outcome, told, "call", duration=seconds),
        pytest.TestReport(nodeid, where, {}, "passed", None, "teardown", user_properties=own),
    ]


def shorten(item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Replace the traceback of a failure that tells all itself, and skip what only repeats another."""
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed and isinstance(error, ArmUnavailable):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), 0, str(error))
        return
    if report.failed and isinstance(error, TOLD):
        report.longrepr = OwnWords(str(error), str(item.path))
