"""What is going on, how far it is and how long it will take, past pytest's capturing."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest
from rich.cells import set_cell_size

from suite.foreign import printable
from suite.redact import scrub
from suite.terminal.looks import wrap

PLAIN_EVERY_S = 30.0
"""Where there is no terminal, a passing remark is written this long after the last line, and not before."""
TICK_S = 1.0
STILL_S = 2.0
"""A remark that stands for longer shows for how long it has."""
BAR = 20
"""Columns of the bar that shows how far a run is."""


class RunProgress:
    """Says things while the run goes on.

    On a terminal a passing remark overwrites the one before and leaves no trace; it lives: for how long it has stood
    is told every second, and a bar below it shows how far the run is. Where output goes to a file, or the terminal is
    a dumb one, it is a line now and then. What is worth keeping gets a line of its own. With ``-q`` neither is written.

    Args:
        out: a file descriptor to write passing remarks to; this process's standard output where none is given.
        terminal: is that a terminal?
    """

    def __init__(self, config: pytest.Config, out: int | None = None, terminal: bool | None = None) -> None:
        self._config = config
        self._quiet = config.get_verbosity() < 0
        lively = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        self._terminal = lively if terminal is None else terminal
        # pytest captures both while items run, and not yet
        self._out = os.dup(1) if out is None else out
        self._stderr = os.dup(2)
        self._lock = threading.RLock()
        self._drawn = 0
        """Lines of a remark that stand on the terminal now."""
        self._text = self._outlook = ""
        self._share: float | None = None
        self._since = self._spoken = time.monotonic()
        self._ticker: threading.Thread | None = None
        self._over = threading.Event()

    def passing(self, text: str, outlook: str = "", share: float | None = None) -> None:
        """A remark that the next one replaces, with what lies ahead and the share of the run that lies behind."""
        if self._quiet:
            return
        with self._lock:
            self._text, self._since = printable(scrub(text)), time.monotonic()
            self._outlook, self._share = outlook, share
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
            self._draw(f"{self._text}{stood}")
        elif now - self._spoken >= PLAIN_EVERY_S:
            ahead = f"; {self._outlook}" if self._outlook else ""
            self._raw(f"{self._fresh_line()}{self._text}{stood}{ahead}\n")
            self._spoken = now

    def _draw(self, text: str) -> None:
        """The remark and the bar in place of those before, none wider than the terminal."""
        width = self._columns() - 1
        lines = [_cut(text, width)]
        if self._share is not None:
            lines.append(_cut(f"{bar(self._share, _encodes('━─'))} {self._outlook}", width))
        start = self._home() if self._drawn else self._fresh_line()
        self._raw(start + "\n".join(lines))
        self._drawn = len(lines)

    def _columns(self) -> int:
        """Of the terminal: while items run, standard output is not it."""
        asked = os.environ.get("COLUMNS", "")
        if asked.isdecimal() and int(asked):
            return int(asked)
        try:
            return os.get_terminal_size(self._out).columns or 80  # 0: a terminal that nobody gave a size
        except OSError:
            return 80

    def _home(self) -> str:
        """Back to where the remark began, and nothing from there on."""
        return "\r" + "\x1b[A" * (self._drawn - 1) + "\x1b[J"

    def _fresh_line(self) -> str:
        """What ends a line that pytest has begun."""
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        if not getattr(reporter, "currentfspath", None):
            return ""
        reporter.currentfspath = None
        return "\n"

    def _raw(self, text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(self._out, text.encode("utf-8", "replace"))

    def done(self) -> None:
        """Nothing passes any more."""
        self._over.set()
        with self._lock:
            self._text = ""
            self.clear()

    def say(self, text: str, **markup: bool) -> None:
        """A line that stays, in pytest's markup (``red=True``)."""
        if self._quiet:
            return
        with self._lock:
            self.clear()
            self._text = ""
            self._write(text, **markup)

    def print(self, lines: Iterable[str]) -> None:
        """Lines that were asked for, and so are written however quiet the run is to be."""
        for line in lines:
            self._write(line)

    def last_words(self, text: str) -> None:
        """To standard error past everything that captures or buffers: for a signal's handler, and nothing after it."""
        with contextlib.suppress(OSError):
            os.write(self._stderr, text.encode("utf-8", "replace"))

    def clear(self) -> None:
        """Take the remark away, so that others can write; it comes back by itself."""
        with self._lock:
            if self._drawn:
                self._raw(self._home())
                self._drawn = 0

    def _write(self, text: str, **markup: bool) -> None:
        """A line of its own, by pytest's reporter."""
        text = printable(scrub(text))
        self._spoken = time.monotonic()
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        capture: Any = self._config.pluginmanager.getplugin("capturemanager")
        if reporter is None:
            return
        with capture.global_and_fixture_disabled() if capture is not None else contextlib.nullcontext():
            reporter.ensure_newline()
            if reporter._tw.width_of_current_line:  # what pytest says while it collects
                reporter.write_line("")
            lines = wrap(text, reporter._tw.fullwidth) if self._terminal else [text]
            for line in lines or [""]:
                reporter.write_line(line, **markup)


BARS = ("━", "─"), ("#", "-")
"""What lies behind and what lies ahead, in the bar; and where the terminal knows only ASCII."""


def bar(share: float, drawn: bool = True) -> str:
    """How far a run is, 0 to 1."""
    done, ahead = BARS[0 if drawn else 1]
    behind = round(BAR * min(max(share, 0.0), 1.0))
    return done * behind + ahead * (BAR - behind)


def _encodes(text: str) -> bool:
    try:
        text.encode(getattr(sys.__stdout__, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _cut(text: str, width: int) -> str:
    return set_cell_size(text, width).rstrip()


def clock(seconds: float) -> str:
    """A length of time as a clock shows it: 4:05, 1:04:05."""
    whole = int(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
