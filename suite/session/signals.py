"""What a signal does to a run: the first has it judged as it stands, the second ends everything at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

GRACE_S = 6.5
"""How long a run may take over judging and reporting after a SIGTERM. Those who send one (CI systems, container
engines, systemd) send SIGKILL after about ten seconds; what is not done by then is done at once instead."""

AT_ONCE_S = 2.5
"""How long servers that are killed at once are waited for."""

NOTICED_S = 2.0
"""How long until a run that was told to stop is told again: an exception can get lost in a destructor."""

TWICE = 2
"""pytest's own exit status of a run that was interrupted."""

_CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_Handler = Callable[[int, FrameType | None], object] | int | None


class Stopped(KeyboardInterrupt):
    """The run was told to stop, by a signal or by :meth:`Signals.stop`; its text says by what."""


class Signals:
    """Takes SIGINT, SIGTERM and SIGHUP while a run goes on.

    The first raises :class:`Stopped` in the main thread, wherever that is: a round in progress is broken off.
    Once :meth:`ending` was called the run is ending anyhow, and a first signal only sets the time limit. A second
    one calls ``at_once`` with the seconds it may take, and ends the process with exit status 2; so does a run that
    has not ended ``GRACE_S`` after a SIGTERM. Nothing here waits for a lock: a handler runs in the middle of
    whatever the main thread does.

    Args:
        at_once: kills what runs, here and elsewhere, and waits no longer than it is told.
        say: writes a last sentence past everything that captures output.
    """

    def __init__(self, at_once: Callable[[float], object], say: Callable[[str], None]) -> None:
        self._at_once = at_once
        self._say = say
        self._before: dict[signal.Signals, _Handler] = {}
        self._told: str | None = None
        self._ending = False
        self._repeat = False
        self._over = threading.Event()

    @property
    def told(self) -> str | None:
        """What the run was told to stop by, if it was."""
        return self._told

    def install(self) -> None:
        """From now on. Does nothing outside the main thread; a signal that is ignored stays ignored (``nohup``)."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _CAUGHT:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)

    def restore(self) -> None:
        """Put back what was there. A run that was told to stop is over: what is still sent finds it already ending."""
        if self._told is None:
            self._over.set()
        for number, handler in self._before.items():
            before = signal.SIG_DFL if handler is None else handler
            signal.signal(number, before if self._told is None else signal.SIG_IGN)
        self._before.clear()

    def ending(self) -> None:
        """The run judges and reports from here on: it is not to be disturbed once more."""
        self._ending = True

    def stop(self, reason: str) -> None:
        """As a first signal does, from any thread: have the main thread raise :class:`Stopped`."""
        if self._told is None:
            self._told = reason
            self._raise_soon()

    def _raise_soon(self) -> None:
        number = next((n for n in (signal.SIGTERM, signal.SIGINT) if n in self._before), None)
        if self._ending or number is None:
            return
        self._repeat = True
        os.kill(os.getpid(), number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._repeat:
            self._repeat = False
            if not self._ending:
                raise Stopped(self._told)
            return
        name = signal.Signals(number).name
        if self._told is not None:
            self._end_at_once(f"{name} after {self._told}")
        self._told = f"ended by {name}"
        threading.Thread(
            target=self._watch, args=(None if number == signal.SIGINT else GRACE_S,), daemon=True
        ).start()
        if not self._ending:
            raise Stopped(self._told)

    def _watch(self, limit_s: float | None) -> None:
        """Runs in a thread: see that the main thread took notice, and that it ends in time."""
        begun = time.monotonic()
        if not self._over.wait(NOTICED_S):
            self._raise_soon()
        if limit_s is not None and not self._over.wait(max(0.0, begun + limit_s - time.monotonic())):
            self._end_at_once(f"{self._told}: not ended {limit_s:g} s later")

    def _end_at_once(self, why: str) -> None:
        with contextlib.suppress(ValueError):  # not the main thread
            for number in _CAUGHT:
                signal.signal(number, signal.SIG_IGN)
        try:
            self._say(f"\n{why}: everything is ended at once; what was measured is in the run's journal\n")
            self._at_once(AT_ONCE_S)
        finally:
            os._exit(TWICE)
