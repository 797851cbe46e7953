"""How an item can end other than well, and to which of four families that belongs.

    BrokenPromise          the server does not do what it must: an AssertionError, *failed* in pytest and Allure
    ├── Regression         a gated metric is worse than its baseline
    └── ArmNotInEffect     the server runs, but not as the arm asks
    Unproven               nothing was shown either way: *broken*; running again may settle it
    ├── Inconclusive
    ├── InvalidMeasurement
    └── ArmUnavailable     an arm that did not come up earlier in this run
    BaselineMissing        there is no baseline, and --require-baseline asks for one
    infrastructure         host, lock, driver, key, disk: errors of hosts, servers, probes, stored files

`outcome_of` sorts any exception into them; the exit status is the gate's (suite/gate/status.py).
"""

from __future__ import annotations

import pytest

from suite import servers
from suite.config import ConfigError
from suite.foreign import one_line
from suite.gate import GateError, Outcome, OutcomeWord
from suite.hosts import HostError
from suite.load import LoadError
from suite.servers import LaunchFailed, ServerDied, ServerError
from suite.sglang.errors import ProbeError

SHORT = 160
"""Characters of what is said of one cause in the sentence of a run."""
KEPT_TEXT = 4000
"""Characters kept of what an item said; the rest is in the log and the report."""


class BrokenPromise(AssertionError):
    """The server does not do what it must; the text's first line says what, and by how much.

    Args:
        short: the same as part of a sentence about the whole run; the first line where it is not given.
    """

    def __init__(self, text: str, short: str = "") -> None:
        super().__init__(text)
        self.short = short


class Regression(BrokenPromise):
    """A gated metric is worse than its baseline, beyond margin and doubt."""


class ArmNotInEffect(BrokenPromise):
    """The server runs, but not as the arm asks: to measure it would answer another question."""


class Unproven(Exception):
    """Nothing was proven either way; running again may settle it."""


class Inconclusive(Unproven):
    """The data do not decide between a regression and none."""


class InvalidMeasurement(Unproven):
    """Something made the measurement unfit to be judged: a throttled GPU, early stops, a late client."""


class ArmUnavailable(Unproven):
    """An arm that did not come up earlier in this run is not launched again; ``short`` is what was said then."""

    def __init__(self, text: str, short: str = "") -> None:
        super().__init__(text)
        self.short = short


class EarlierDoubt(Unproven):
    """What an item said in an earlier try of this run, or on another host."""


class AnotherBuild(Exception):
    """A run that is taken up again finds another build than it began with."""


class BaselineMissing(Exception):
    """There is no baseline, and ``--require-baseline`` asks for one."""


SERVERS_OWN = (
    servers.IncompatibleFlags,
    servers.OutOfMemory,
    servers.DraftWeightsMissing,
    servers.KernelFault,
    servers.ChildDied,
    servers.NotReadyInTime,
    servers.ExitedEarly,
)
"""Launches that failed by the server's own doing: this build does not run this arm, which is what was asked."""

FOREIGN = (ServerError, HostError, ProbeError, LoadError, GateError, ConfigError, OSError)
"""Everything around the server that can fail."""


def family(error: BaseException) -> OutcomeWord:
    """Whose fault an exception is."""
    if isinstance(error, pytest.skip.Exception):
        return "skipped"
    if isinstance(error, ServerDied):
        return family(error.__cause__) if isinstance(error.__cause__, LaunchFailed) else "broken"
    if isinstance(error, (AssertionError, pytest.fail.Exception, *SERVERS_OWN)):
        return "broken"
    return "infrastructure" if isinstance(error, FOREIGN) else "unproven"


def as_told(report: pytest.TestReport, error: BaseException | None) -> BaseException | None:
    """What an item raised, as it counts: a known failure is none, and one that passes unexpectedly is."""
    if hasattr(report, "wasxfail"):
        return pytest.skip.Exception(report.wasxfail or "known to fail")
    if report.failed and error is None:
        return BrokenPromise(str(report.longrepr))
    return error


def outcome_of(item: str, kind: str, arm: str, launch: int, error: BaseException | None) -> Outcome:
    """How an item ended that raised ``error``, or nothing."""
    if error is None:
        return Outcome(item, kind, arm, launch, "kept")
    launched = isinstance(error, LaunchFailed | ServerDied)
    return Outcome(
        item=item,
        kind="launch" if launched else kind,
        arm=arm,
        launch=launch,
        word=family(error),
        text=str(error)[:KEPT_TEXT],
        name=type(error).__name__,
        short=_short(error),
    )


def raised_again(outcome: Outcome) -> BaseException | None:
    """What an item that ended so is to raise where it is told again; ``None`` if it ended well."""
    if outcome.word == "kept":
        return None
    if outcome.word == "skipped":
        return pytest.skip.Exception(outcome.text)
    if outcome.word == "broken":
        return BrokenPromise(outcome.text, outcome.short)
    if outcome.name == ArmUnavailable.__name__:
        return ArmUnavailable(outcome.text, outcome.short)
    return EarlierDoubt(outcome.text)


def _short(error: BaseException) -> str:
    told: str = getattr(error, "short", "") or getattr(error, "summary", "") or str(error).split("\n", 1)[0]
    said = one_line(told)
    if len(said) > SHORT:
        said = said[:SHORT].rsplit(" ", 1)[0].rstrip(",;:") + " ..."
    if isinstance(error, LaunchFailed) and family(error) == "broken":
        return f"does not start: {said}"
    return said or type(error).__name__
