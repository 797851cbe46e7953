"""The terminal of a run: what pytest says of items comes first, and the run's sentence stands last."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

import pytest

from suite.gate.floor import noise_floor
from suite.plugin.parts import Parts
from suite.report import failures, summary
from suite.session.collection import launch_id_of, verdict_of
from suite.session.run import Run
from suite.terminal.looks import Looks

MARKUP = {0: {"green": True}, 1: {"red": True}, 8: {"yellow": True}, 9: {"purple": True}}
"""The colour of a run's sentence, by exit status."""


class Screen:
    """Hooks of what is written to the terminal."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._silent = False
        """Whether items say nothing of themselves unless they fail: figures and progress tell more than dots."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        reporter: Any = session.config.pluginmanager.getplugin("terminalreporter")
        items = self._parts.arranged.items
        ours = bool(items) and all(launch_id_of in item.stash or verdict_of in item.stash for item in items)
        if reporter is not None and ours and session.config.get_verbosity() == 0:
            self._silent = True
            reporter.showfspath = False
            reporter._show_progress_info = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """pytest's categories and words without its letters."""
        if not self._silent or (report.when != "call" and report.passed):
            return None
        failed = "failed" if report.when == "call" else "error"
        category = failed if report.failed else report.outcome
        if hasattr(report, "wasxfail") and not report.failed:
            category = "xfailed" if report.skipped else "xpassed"
        return category, "", category.upper()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._parts.progress.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A failure is said when it is known; verdicts are followed by the whole end of the run anyway."""
        self._parts.progress.clear()
        if self._silent and report.failed and not report.nodeid.endswith("-verdict]"):
            what = report.nodeid.rpartition("::test_")[2] or report.nodeid.rpartition("::")[2]
            self._parts.progress.say(f"FAILED {what}: {failures.first_line(report)}", red=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> Generator[None, None, None]:
        """pytest's own failures and list of failures first: what the run comes to is the last thing on the screen."""
        parts = self._parts
        parts.progress.done()
        yield
        looks = Looks.of(terminalreporter)
        _write(terminalreporter, parts.memory.tables.lines(looks))
        if parts.begun is None:
            return
        if parts.config.getoption("--aa"):
            terminalreporter.section("noise floor")
            _write(
                terminalreporter, summary.of_noise(noise_floor(parts.session(), parts.stored.rules), looks)
            )
        self._close(terminalreporter, looks, parts.begun)

    def _close(self, reporter: Any, looks: Looks, run: Run) -> None:
        """The run's section: table, what is behind it, what could not be written, and last the sentence."""
        parts = self._parts
        judgement = parts.judge.judgement()
        reporter.section("performance")
        _write(reporter, summary.of_run(parts.ended(run), parts.stored.notes, looks))
        _write(reporter, looks.wrapped([*filter(None, [run.unwritten]), *parts.stored.problems]), red=True)
        reporter.write_line("")
        _write(reporter, looks.wrapped([judgement.sentence]), bold=True, **MARKUP.get(judgement.status, {}))


def _write(reporter: Any, lines: Iterable[str], **markup: bool) -> None:
    for line in lines:
        reporter.write_line(line, **markup)
