"""The end of a pytest session: servers down, everything stored, the exit status."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path

import pytest

from suite.gate.status import BROKEN, INFRASTRUCTURE
from suite.hosts import HostError
from suite.plugin.parts import Parts
from suite.report import junit
from suite.report.leaving import leave
from suite.servers import ServerError
from suite.session import explaining
from suite.session.entries import OTHERS_FAILED, Closed, Note
from suite.session.run import Run


class Ending:
    """Hooks of the session's end."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

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
            if parts.others_failed:
                run.note(Note(OTHERS_FAILED))
            run.note(Closed(time.time(), run.stopping.reason or ""))
            parts.judge.look()
            directory = parts.config.getoption("allure_report_dir", default=None)
            leave(
                parts.stored,
                parts.ended(run),
                parts.memory.tables,
                Path(directory) if directory else None,
                lambda: self._explain(run),
            )
            parts.stored.unwritten |= run.unwritten is not None or run.disk.full is not None
            junit.of_run(parts.config, parts.judge.judgement())
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = self._status()
        elif exitstatus == pytest.ExitCode.INTERRUPTED:
            session.exitstatus = self._status_when_stopped()
        if parts.deadline is not None:
            parts.deadline.status = int(session.exitstatus)

    def _status(self) -> int:
        """The judgement's, unless something beside the scenarios failed."""
        return (
            BROKEN if self._parts.others_failed else self._parts.stored.status(self._parts.judge.judgement())
        )

    def _status_when_stopped(self) -> int:
        """pytest's own 2, unless it is certain by now that the run could not have ended well."""
        parts = self._parts
        proven = {"regression", "broken promise", "broken"}
        words: set[str] = {verdict.word for verdict in parts.judge.judgement().verdicts.values()}
        words |= {outcome.word for outcome in parts.judge.judged.outcomes}
        if parts.others_failed or words & proven:
            return BROKEN
        return INFRASTRUCTURE if parts.stored.unwritten else pytest.ExitCode.INTERRUPTED

    def _explain(self, run: Run) -> str:
        """Where steps got slower: which part of a step, and which kernels."""
        parts = self._parts
        if not parts.config.getoption("--why") or run.unwritten is not None:
            return ""
        why = explaining.explain(
            run, parts.settings.target, parts.compared, parts.judge.judgement(), parts.progress.say
        )
        for arm, lines in why.items():
            parts.stored.notes += [f"why, {arm}: {lines[0]}", *lines[1:]]
        return explaining.page(why, run.directory)

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
