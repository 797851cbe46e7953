"""Waking an event loop at an absolute time, to some ten microseconds where the kernel has timerfd (Linux).

asyncio's own timers are rounded up to the millisecond of epoll, which at three milliseconds a step would be seen in
every measured latency.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time

_ABSOLUTE = 1
_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class PreciseTimer:
    """One wait at a time for a moment of `time.monotonic()`; made and used inside a running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
        if self._fd >= 0:
            self._loop.add_reader(self._fd, self._fired)

    async def until(self, moment_s: float) -> None:
        """Return when `time.monotonic()` has reached the moment; at once, after others had a turn, if it has."""
        if moment_s <= time.monotonic():
            await asyncio.sleep(0)
            return
        if self._fd < 0:
            await asyncio.sleep(moment_s - time.monotonic())
            return
        whole = int(moment_s)
        value = _Timespec(whole, int((moment_s - whole) * 1e9))
        setting = _Itimerspec(_Timespec(0, 0), value)
        self._waiter = self._loop.create_future()
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(setting), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        await self._waiter

    def close(self) -> None:
        """Give the file descriptor back."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
