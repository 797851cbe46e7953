"""One line at a time that says what is going on, past pytest's capturing."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from suite.foreign import printable
from suite.redact import scrub

PLAIN_EVERY_S = 30.0
"""Where there is no terminal, a passing remark is written this long after the last line, and not before."""
TICK_S = 1.0
STILL_S = 2.0
"""A remark that stands for longer shows for how long it has."""


class Progress:
    """Says things while the run goes on.

    On a terminal a passing remark overwrites the one before and leaves no trace; it lives: for how long it has stood
    is told every second. Where output goes to a file it is a line now and then. What is worth keeping gets a line of
    its own. With ``-q`` neither is written.

    Args:
        out: a file descriptor to write passing remarks to; this process's standard output where none is given.
        terminal: is that a terminal?
    """

    def __init__(self, config: pytest.Config, out: int | None = None, terminal: bool | None = None) -> None:
        self._config = config
        self._quiet = config.get_verbosity() < 0
        self._terminal = sys.stdout.isatty() if terminal is None else terminal
        # pytest captures both while items run, and not yet
        self._out = os.dup(1) if out is None else out
        self._stderr = os.dup(2)
        self._lock = threading.RLock()
        self._fleeting = 0
        self._text = ""
        self._since = self._spoken = time.monotonic()
        self._ticker: threading.Thread | None = None
        self._over = threading.Event()

    def passing(self, text: str) -> None:
        """A remark that the next one replaces."""
        if self._quiet:
            return
        with self._lock:
            self._text, self._since = printable(scrub(text)), time.monotonic()
            self._show()
        if self._ticker is None:
            self._ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self._ticker.start()

    def _tick(self) -> None:
        while not self._over.wait(TICK_S):
            with self._lock:
                if self._text:
                    self._show()

    def _show(self) -> None:
        """Write the remark as it is now, if it is time to."""
        now = time.monotonic()
        stood = f" ({clock(now - self._since)})" if now - self._since >= STILL_S else ""
        if self._terminal:
            text = f"{self._text}{stood}"[: shutil.get_terminal_size().columns - 1]
            self._raw(f"\r{text:<{self._fleeting}}")
            self._fleeting = len(text)
        elif now - self._spoken >= PLAIN_EVERY_S:
            reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
            start = "\n" if getattr(reporter, "currentfspath", None) else ""
            self._raw(f"{start}{self._text}{stood}\n")
            self._spoken = now

    def _raw(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._out, text.encode("utf-8", "replace"))

    def done(self) -> None:
        """Nothing passes any more."""
        self._over.set()
        with self._lock:
            self._text = ""
            self._clear()

    def say(self, text: str) -> None:
        """A line that stays."""
        if self._quiet:
            return
        with self._lock:
            self._clear()
            self._text = ""
            self._write(text)

    def print(self, lines: Iterable[str]) -> None:
        """Lines that were asked for, and so are written however quiet the run is to be."""
        for line in lines:
            self._write(line)

    def last_words(self, text: str) -> None:
        """To standard error past everything that captures or buffers: for a signal's handler, and nothing after it."""
        with contextlib.suppress(OSError):
            os.write(self._stderr, text.encode("utf-8", "replace"))

    def _clear(self) -> None:
        if self._fleeting:
            self._raw("\r" + " " * self._fleeting + "\r")
            self._fleeting = 0

    def _write(self, text: str) -> None:
        """A line of its own, by pytest's reporter."""
        text = printable(scrub(text))
        self._spoken = time.monotonic()
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if reporter is None:
            return
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            reporter.ensure_newline()
            reporter.write_line(text)


def clock(seconds: float) -> str:
    """A length of time as a clock shows it: 4:05, 1:04:05."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
