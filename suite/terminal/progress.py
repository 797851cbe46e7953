"""One line at a time that says what is going on, past pytest's capturing."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from typing import Any

import pytest

from suite.foreign import printable
from suite.redact import scrub


class Progress:
    """Says things while the run goes on.

    On a terminal a passing remark overwrites the one before and leaves no trace; what is worth keeping gets
    a line of its own. Where output goes to a file only the latter is written.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._terminal = sys.stdout.isatty() and config.get_verbosity() >= 0
        self._quiet = config.get_verbosity() < 0
        self._fleeting = 0
        self._stderr = os.dup(2)  # pytest captures that of items, and not yet

    def passing(self, text: str) -> None:
        """A remark that the next one replaces."""
        if self._terminal:
            self._write(f"\r{text:<{self._fleeting}}", newline=False)
            self._fleeting = len(text)

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._clear()
            self._write(text, newline=True)

    def print(self, lines: Iterable[str]) -> None:
        """Lines that were asked for, and so are written however quiet the run is to be."""
        for line in lines:
            self._write(line, newline=True)

    def last_words(self, text: str) -> None:
        """To standard error past everything that captures or buffers: for a signal's handler, and nothing after it."""
        with contextlib.suppress(OSError):
            os.write(self._stderr, text.encode("utf-8", "replace"))

    def _clear(self) -> None:
        if self._fleeting:
            self._write("\r" + " " * self._fleeting + "\r", newline=False)
            self._fleeting = 0

    def _write(self, text: str, *, newline: bool) -> None:
        start, text = ("\r", text[1:]) if text.startswith("\r") else ("", text)
        text = start + printable(scrub(text.rstrip("\r"))) + ("\r" if text.endswith("\r") else "")
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if reporter is None:
            return
        if capture is None:
            self._emit(reporter, text, newline)
            return
        with capture.global_and_fixture_disabled():
            self._emit(reporter, text, newline)

    @staticmethod
    def _emit(reporter: Any, text: str, newline: bool) -> None:
        if newline:
            reporter.ensure_newline()
            reporter.write_line(text)
        else:
            reporter.write(text, flush=True)
