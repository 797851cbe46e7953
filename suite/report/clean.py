"""Keeps secrets, controls and endless texts out of what pytest, JUnit and Allure show of an item."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from _pytest._code.code import ReprFileLocation, TerminalRepr
from _pytest._io import TerminalWriter

from suite.foreign import printable
from suite.redact import scrub

MOST_CHARS = 100_000
"""Of one failure, with all its frames and locals."""


def clean(text: str) -> str:
    """``text`` without secrets and controls, cut where it is endless; lines stay."""
    shown = printable(scrub(text))
    return shown if len(shown) <= MOST_CHARS else f"{shown[:MOST_CHARS]}\n... (cut here)"


class CleanText(TerminalRepr):
    """What was to be shown of a failure, as clean text."""

    def __init__(self, text: str, crash: ReprFileLocation | None) -> None:
        self._text = text
        if crash is not None:
            self.reprcrash = ReprFileLocation(crash.path, crash.lineno, clean(crash.message))

    def toterminal(self, tw: TerminalWriter) -> None:
        for line in self._text.splitlines():
            tw.line(line)


class Cleaner:
    """Hooks that stand nearest to the item, so that whoever reads reports after them reads clean ones."""

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_fixture_setup(self) -> Generator[None, Any, Any]:
        try:
            return (yield)
        except BaseException as error:
            clean_exception(error)
            raise

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        clean_report(report)
        if call.excinfo is not None:
            clean_exception(call.excinfo.value)  # Allure shows its text beside the report's
        return report


def clean_report(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Replace what a report shows by its clean text, where that is another."""
    shown = report.longrepr
    if isinstance(shown, tuple):  # of a skip: file, line, reason
        report.longrepr = (shown[0], shown[1], clean(shown[2]))
    elif shown is not None:
        text = str(shown)
        cleaned = clean(text)
        if cleaned != text:
            report.longrepr = CleanText(cleaned, getattr(shown, "reprcrash", None))
    report.sections = [(title, clean(text)) for title, text in report.sections]


def clean_exception(error: BaseException) -> None:
    """Clean the texts that an exception was made of."""
    error.args = tuple(clean(part) if isinstance(part, str) else part for part in error.args)
    for name in ("summary", "advice", "msg", "message", "reason"):
        text = getattr(error, name, None)
        if isinstance(text, str) and (cleaned := clean(text)) != text:
            try:
                setattr(error, name, cleaned)
            except (AttributeError, TypeError):
                continue
