"""Failures that say everything themselves are shown as their text, without a traceback through this suite."""

from __future__ import annotations

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


def of_arm(nodeid: str, error: Exception) -> list[pytest.TestReport]:
    """Reports of a failure that is an arm's and no item's, as an item of its own."""
    path = nodeid.partition("::")[0]
    where = (path, None, nodeid.rpartition("::")[2])
    told = OwnWords(str(error), path)
    return [
        pytest.TestReport(nodeid, where, {}, "passed", None, "setup"),
        pytest.TestReport(nodeid, where, {}, "failed", told, "call"),
        pytest.TestReport(nodeid, where, {}, "passed", None, "teardown"),
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
