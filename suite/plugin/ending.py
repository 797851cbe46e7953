"""The end of a pytest session: servers down, everything stored, the exit status."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from suite.gate.status import BROKEN, INFRASTRUCTURE
from suite.hosts import HostError
from suite.plugin.parts import Parts
from suite.questions import crossover
from suite.report import allure_run, ci_summary, junit, pictures, told
from suite.servers import ServerError
from suite.session import explaining
from suite.session.entries import Closed
from suite.session.run import Run


class Ending:
    """Hooks of the session's end."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._why: dict[str, list[str]] = {}
        """For each arm whose steps got slower, what its profiles say."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        parts = self._parts
        parts.signals.ending()
        if parts.begun is None:
            return
        run = parts.begun
        try:
            run.close()
        except (ServerError, HostError) as error:
            parts.stored.problems.append(str(error))
            parts.stored.unwritten = True
        finally:
            run.note(Closed(time.time(), run.stopping.reason or ""))
            parts.judge.look()
            if parts.measured:
                crossover.tell(parts.judge.judged, parts.memory.tables)
            if parts.memory.tables.rows:
                tables = run.directory / "tables.json"
                parts.stored.attempt("the tables", lambda: parts.memory.tables.save(tables))
            parts.stored.keep(run, parts.judge)
            parts.stored.attempt("the profiles", lambda: self._explain(run))
            parts.stored.attempt("the summary", lambda: self._write_summary(run))
            parts.stored.attempt("the Allure report", lambda: self._write_allure(run))
            junit.of_run(parts.config, parts.judge.judgement())
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = self._status(run)
        elif exitstatus == pytest.ExitCode.INTERRUPTED:
            session.exitstatus = self._status_when_stopped(run)
        if parts.deadline is not None:
            parts.deadline.status = int(session.exitstatus)

    def _status(self, run: Run) -> int:
        """The judgement's, unless something beside the scenarios failed."""
        if self._parts.others_failed:
            return BROKEN
        status = self._parts.judge.judgement().status
        return INFRASTRUCTURE if self._unwritten(run) and status != BROKEN else status

    def _status_when_stopped(self, run: Run) -> int:
        """pytest's own 2, unless it is certain by now that the run could not have ended well."""
        parts = self._parts
        proven = {"regression", "broken promise", "broken"}
        words: set[str] = {verdict.word for verdict in parts.judge.judgement().verdicts.values()}
        words |= {outcome.word for outcome in parts.judge.judged.outcomes}
        if parts.others_failed or words & proven:
            return BROKEN
        return INFRASTRUCTURE if self._unwritten(run) else pytest.ExitCode.INTERRUPTED

    def _unwritten(self, run: Run) -> bool:
        return self._parts.stored.unwritten or run.unwritten is not None or run.disk.full is not None

    def _explain(self, run: Run) -> None:
        """Where steps got slower: which part of a step, and which kernels. What was measured is stored by now."""
        parts = self._parts
        if parts.config.getoption("--why") and run.unwritten is None:
            self._why = explaining.explain(
                run, parts.settings.target, parts.compared, parts.judge.judgement(), parts.progress.say
            )
            for arm, lines in self._why.items():
                parts.stored.notes += [f"why, {arm}: {lines[0]}", *lines[1:]]

    def _write_summary(self, run: Run) -> None:
        parts = self._parts
        page = ci_summary.text(parts.judge.judged, parts.judge.judgement(), parts.stored.way_back())
        ci_summary.write(run.directory, page + explaining.page(self._why, run.directory))

    def _write_allure(self, run: Run) -> None:
        directory = self._parts.config.getoption("allure_report_dir", default=None)
        if directory:
            allure_run.write(Path(directory), told.read(run.directory), self._parts.stored.way_back())
            if not pictures.can_draw():
                self._parts.stored.notes.append(f"the Allure results have no pictures: {pictures.MISSING}")

    def pytest_unconfigure(self) -> None:
        parts = self._parts
        parts.signals.restore()
        if parts.deadline is not None:
            parts.deadline.over()
        if parts.begun is not None:
            parts.begun.journal.close()


class OthersReports:
    """Reports that others write at the end (JUnit): one that finds no room must not take the rest down with it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            self._parts.stored.problems.append(f"a report was not written: {error}")
            if session.exitstatus != BROKEN:
                session.exitstatus = INFRASTRUCTURE
