"""A server's log, line by line, to the phases of its start and the seconds each took."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

STARTING = "starting"
WEIGHTS = "loading weights"
DRAFT_WEIGHTS = "loading draft weights"
MEMORY = "allocating memory"
GRAPHS = "capturing graphs"
WARM_UP = "warming up"
SERVING = "serving"
"""No phase of a start: what it does from then on."""

PHASES = (STARTING, WEIGHTS, DRAFT_WEIGHTS, MEMORY, GRAPHS, WARM_UP)
"""In the order a server goes through them; it may go back (a draft model has weights and graphs of its own)."""

# Read in SGLang 0.5.9 to 0.5.23: model_runner.py, model_executor/**, speculative/*_worker*.py, http_server.py.
_ENTERS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"Load weight begin"), WEIGHTS),
    (re.compile(r"Load weight end"), MEMORY),
    (re.compile(r"Capture .*graph.* begin", re.IGNORECASE), GRAPHS),
    (re.compile(r"Application startup complete|Uvicorn running on"), WARM_UP),
)
_READY = "The server is fired up and ready to roll!"
_OTHER_RANK = re.compile(r"\b(?:TP|PP|DP|EP)(?!0\b)\d+\b")
_PERCENT = re.compile(r"(\d{1,3})%(?: Completed)?\s*\|")


class PhaseClock:
    """Follows one start. Phases are timed by when their lines arrive: SGLang's own stamps are whole seconds."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._entered = now()
        self._spent: dict[str, float] = {}
        self._weights_seen = False
        self._over = False
        self.said_ready = False
        self.current = STARTING
        self.percent: int | None = None

    def read(self, line: str) -> None:
        """Take in a line of the log. Lines of ranks other than the first repeat what the first one says."""
        if self._over or (len(line) < 2000 and _OTHER_RANK.search(line[:80])):
            return
        self.said_ready |= _READY in line
        for pattern, phase in _ENTERS:
            if pattern.search(line):
                if phase == WEIGHTS and self._weights_seen:
                    phase = DRAFT_WEIGHTS
                self._weights_seen |= phase == MEMORY
                self._enter(phase)
                return
        progress = _PERCENT.findall(line)
        if progress:
            self.percent = int(progress[-1])

    def _enter(self, phase: str) -> None:
        if phase == self.current:
            return
        self._close()
        self.current = phase
        self.percent = None

    def _close(self) -> None:
        now = self._now()
        self._spent[self.current] = self._spent.get(self.current, 0.0) + now - self._entered
        self._entered = now

    def finish(self) -> None:
        """The server is ready, or never will be."""
        if not self._over:
            self._close()
            self._over = True

    @property
    def doing(self) -> str:
        """What the server does, to follow "while": a phase of its start, or serving once that is over."""
        return SERVING if self._over else self.current

    @property
    def in_phase_s(self) -> float:
        """Seconds in the current phase, earlier visits included."""
        return self._spent.get(self.current, 0.0) + (0.0 if self._over else self._now() - self._entered)

    def seconds(self) -> dict[str, float]:
        """Seconds by phase so far, in the order the phases were entered."""
        return dict(self._spent) if self._over else {**self._spent, self.current: self.in_phase_s}

    def said(self) -> str:
        """What is going on, for a line of progress."""
        percent = "" if self.percent is None else f" ({self.percent} %)"
        return f"{self.current} {self.in_phase_s:.0f} s{percent}"
