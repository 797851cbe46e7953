"""Reads sockets with the time at which the kernel received the bytes, so that a late reader does not shift a stamp.

Linux stamps every packet of a socket that asks for it (SO_TIMESTAMPNS, see socket(7)) and hands the stamp of the last
packet read out with the bytes. However late this process gets to run, the stamp is the arrival's.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from time import perf_counter
from typing import Any

AVAILABLE = sys.platform == "linux"
"""Whether this machine can read this way at all."""

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_CONTROL_BYTES = 64
_READ_BYTES = 65536
_MANY = 8  # sockets from which on reads are gathered
_GATHER_S = 0.001
_BELIEVED_S = 60.0  # a stamp further from now than this is a clock that was set, not an arrival

OnRead = Callable[[float, memoryview], None]
OnEnd = Callable[[OSError | None], None]
Receive = Callable[[list[bytearray], int], tuple[int, list[tuple[int, int, bytes]], int, Any]]


class Reader:
    """Watches many sockets of one event loop and calls back with (arrival on `perf_counter`, bytes) for each read.

    All sockets hang on one epoll of its own, so the event loop is woken once for all that became readable together.
    The bytes handed out are valid only during the call.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, tuple[Receive, OnRead, OnEnd]] = {}
        self._buffer = bytearray(_READ_BYTES)
        self._view = memoryview(self._buffer)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._epoll.fileno(), self._drain)
        self._waker = (
            socket.socket()
        )  # the first socket of a machine that asks switches stamps on, with a delay
        _ask_for_stamps(self._waker)
        self.unstamped = 0
        """Reads that came without a believable stamp, and carry the time at which they were read."""
        self.set_clocks()

    def set_clocks(self) -> None:
        """Take the offset between the kernel's wall clock and ours anew; call now and then, for the former is slewed."""
        readings = []
        for _ in range(5):
            before = time.perf_counter_ns()
            wall = time.time_ns()
            after = time.perf_counter_ns()
            readings.append((after - before, wall - (before + after) // 2))
        wall_ahead_ns = min(readings)[1]
        self._wall_base_s, rest_ns = divmod(
            wall_ahead_ns, 1_000_000_000
        )  # in two parts: floats lose nanoseconds
        self._wall_ahead_s = rest_ns / 1e9

    def watch(self, sock: socket.socket, on_read: OnRead, on_end: OnEnd) -> None:
        """Begin to read a connected, non-blocking socket; `on_end` is called once, at its end or error."""
        _ask_for_stamps(sock)
        _acknowledge_as_usual(sock)
        self._watched[sock.fileno()] = (sock.recvmsg_into, on_read, on_end)
        # edges: what was read to its end is not looked at again before something new comes
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    def forget(self, sock: socket.socket) -> None:
        """Stop reading a socket, before it is closed."""
        self._forget(sock.fileno())

    def _forget(self, number: int) -> None:
        if self._watched.pop(number, None) is not None:
            self._epoll.unregister(number)

    def close(self) -> None:
        """Stop for good."""
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._waker.close()

    def _drain(self) -> None:
        if len(self._watched) > _MANY:
            # the stamps are the kernel's, so nothing is lost by letting what arrives together be read together;
            # woken for every packet alone, the event loop would cost as much as the reads
            time.sleep(_GATHER_S)
        into, view, unpack, watched = [self._buffer], self._view, _TIMESPEC.unpack, self._watched
        base_s, ahead_s, only_bytes = self._wall_base_s, self._wall_ahead_s, select.EPOLLIN
        oldest, newest = perf_counter() - _BELIEVED_S, perf_counter() + 1.0
        for number, events in self._epoll.poll(0):
            entry = watched.get(number)
            while entry is not None:  # None: forgotten by a callback of this very turn
                receive, on_read, on_end = entry
                try:
                    count, control, _, _ = receive(into, _CONTROL_BYTES)
                except BlockingIOError:
                    break
                except OSError as error:
                    self._forget(number)
                    on_end(error)
                    break
                if count == 0:
                    self._forget(number)
                    on_end(None)
                    break
                seconds, nanoseconds = unpack(control[0][2]) if control else (0, 0)
                arrived = seconds - base_s + nanoseconds * 1e-9 - ahead_s
                if not oldest < arrived < newest:
                    self.unstamped += 1
                    arrived = perf_counter()
                on_read(arrived, view[:count])
                if events == only_bytes and count < _READ_BYTES:
                    break  # nothing is left, and whatever comes now is a new event
                entry = watched.get(number)


def _ask_for_stamps(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # a kernel that cannot: `unstamped` tells
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)


def _acknowledge_as_usual(sock: socket.socket) -> None:
    """Let a connection's first answer be acknowledged as all later ones are, every other chunk.

    Linux begins with an acknowledgement for every chunk read, which costs as much as all the rest of reading it, and
    leaves that by itself when a second request follows on the connection (tcp(7), TCP_QUICKACK).
    """
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
