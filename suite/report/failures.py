"""Failures that say everything themselves are shown as their text, without a traceback through this suite."""

from __future__ import annotations

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from suite.config import ConfigError
from suite.gate import GateError
from suite.hosts.errors import HostError
from suite.load import LoadError
from suite.servers import ServerError
from suite.session.outcomes import AnotherBuild, ArmUnavailable, BaselineMissing, BrokenPromise, Unproven
from suite.sglang.errors import ProbeError

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


class Told(TerminalRepr):
    """An exception's own words; its first line is what pytest's short summary shows."""

    def __init__(self, text: str, path: str) -> None:
        self._text = text
        self.reprcrash = ReprFileLocation(path, 0, text.split("\n", 1)[0])

    def toterminal(self, tw: TerminalWriter) -> None:
        first, _, rest = self._text.partition("\n")
        tw.line(first, bold=True, red=True)
        if rest:
            tw.line(rest)


def of_arm(nodeid: str, error: Exception) -> list[pytest.TestReport]:
    """Reports of a failure that is an arm's and no item's, as an item of its own."""
    path = nodeid.partition("::")[0]
    where = (path, None, nodeid.rpartition("::")[2])
    told = Told(str(error), path)
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
        report.longrepr = Told(str(error), str(item.path))
