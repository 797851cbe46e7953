"""Watches that results can be written, so that a full disk is told while there still is something to be judged."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

EVERY_S = 2.0
NEEDED = 64 * 1024
"""Bytes that a directory must have room for: a journal's next line is found to fit before it is written."""

RESERVE = 256 * 1024
"""Bytes kept back from the start, so that a run that ends for want of room has some to say so in."""


class ResultsDisk:
    """Tries, every few seconds and in a thread of its own, whether ``directory`` takes another 64 KB.

    Args:
        on_full: called once, in that thread or the caller's, with what happened where.
    """

    def __init__(self, directory: Path, on_full: Callable[[str], None]) -> None:
        self._directory = directory
        self._on_full = on_full
        self._reserve = directory / ".reserve"
        self._over = threading.Event()
        self._once = threading.Lock()
        self.full: str | None = None
        """What happened, once there is no more room."""

    def watch(self) -> None:
        """Begin."""
        try:
            self._reserve.write_bytes(bytes(RESERVE))
        except OSError as error:
            self.failed(error.strerror or str(error))
            return
        threading.Thread(target=self._watch, name="results disk", daemon=True).start()

    def _watch(self) -> None:
        while not self._over.wait(EVERY_S):
            try:
                self._try()
            except OSError as error:
                self.failed(error.strerror or str(error))
                return

    def _try(self) -> None:
        path = self._directory / ".room"
        try:
            path.write_bytes(bytes(NEEDED))
        finally:
            with contextlib.suppress(OSError):
                path.unlink()

    def failed(self, reason: str) -> None:
        """Something could not be written there: make room for the last words, and have the run end."""
        with self._once:
            if self.full is not None:
                return
            self.full = f"results cannot be written any more: {self._directory}: {reason}"
        self._release()
        self._on_full(self.full)

    def _release(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._reserve)

    def close(self) -> None:
        """The run is over."""
        self._over.set()
        self._release()
