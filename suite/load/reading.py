"""Reads sockets with the time at which the kernel received the bytes, so that a late reader does not shift a stamp.

Linux stamps every packet of a socket that asks for it (SO_TIMESTAMPNS, see socket(7)) and hands the stamp of the last
packet read out with the bytes. However late this process gets to run, the stamp is the arrival's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
import sys
import time

from suite.load import draining
from suite.load.draining import Stream

try:
    from suite.load import _draining
except ImportError:  # installed where there was no compiler
    IN_C = False
else:
    IN_C = _draining.CONTRACT == draining.CONTRACT  # else built from another version's source
"""Whether the innermost loop is the one in C."""
drain = _draining.drain if IN_C else draining.drain

AVAILABLE = sys.platform == "linux"
"""Whether this machine can read this way at all."""

_SO_TIMESTAMPNS = 35
_MANY = 8  # sockets from which on reads are gathered
_GATHER_S = 0.001


class Reader:
    """Watches many sockets of one event loop: see `Stream` for what becomes of their bytes.

    All sockets hang on one epoll of its own, so the event loop is woken once for all that became readable together.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._watched: dict[int, Stream] = {}
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

    def watch(self, sock: socket.socket, stream: Stream) -> None:
        """Begin to read a connected, non-blocking socket."""
        _ask_for_stamps(sock)
        _acknowledge_as_usual(sock)
        self._watched[sock.fileno()] = stream
        # edges: what was read to its end is not looked at again before something new comes
        self._epoll.register(sock.fileno(), select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)

    def forget(self, sock: socket.socket) -> None:
        """Stop reading a socket, before it is closed."""
        self._forget(sock.fileno())

    def _forget(self, number: int) -> Stream | None:
        stream = self._watched.pop(number, None)
        if stream is not None:
            self._epoll.unregister(number)
        return stream

    def _ended(self, number: int, error: int) -> None:
        stream = self._forget(number)
        if stream is not None:
            stream.ended(OSError(error, os.strerror(error)) if error else None)

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
        self.unstamped += drain(
            self._epoll, self._watched, self._ended, self._wall_base_s, self._wall_ahead_s
        )


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
