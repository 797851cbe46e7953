"""Reads whatever has arrived on many sockets: the innermost loop of the client, in Python.

`_draining.c` is the same loop in C, several times as fast, built where there is a compiler; `reading.py` takes that one
if it is there. The tests hold both to the same behaviour.
"""

from __future__ import annotations

import select
import socket
import struct
from array import array
from collections.abc import Callable
from time import perf_counter

from suite.load.sse import EVENT_END, EVENT_START

CONTRACT = 1
"""To be raised, here and in C, whenever what the two loops promise changes: an older one in C is then not used."""

CHUNK_END = EVENT_END + b"\r\n"
"""The last bytes of an HTTP chunk that ends with an event."""

_TIMESPEC = struct.Struct("@qq")
_CONTROL_BYTES = 64
_READ_BYTES = 4096  # many times what an event has
_LARGE_READ_BYTES = 65536  # for what is more than that
_BELIEVED_S = 60.0  # a stamp further from now than this is a clock that was set, not an arrival


class Stream:
    """One socket that is read, and what is done with its bytes.

    `read` is called with (arrival on `perf_counter`, bytes) for each read, and `ended` once, at the end or error. Only
    while `whole` is set, a read that is exactly one HTTP chunk with exactly one server-sent event is put aside without
    a call: the event's data into `pieces`, its arrival into `stamps`.
    """

    __slots__ = ("ended", "pieces", "read", "receive", "stamps", "whole")

    def __init__(
        self,
        sock: socket.socket,
        read: Callable[[float, bytes], None],
        ended: Callable[[OSError | None], None],
    ) -> None:
        self.receive = sock.recvmsg
        self.read = read
        self.ended = ended
        self.pieces: list[bytes] = []
        self.stamps = array("d")
        self.whole = False


class _Starts(dict[int, bytes]):
    """By the length of an HTTP chunk, frame included, that holds one event: what such a chunk begins with."""

    def __missing__(self, length: int) -> bytes:
        for digits in range(1, 16):
            size = length - digits - 2 * len(b"\r\n")
            if size > 0 and len(b"%x" % size) == digits:
                return self.setdefault(length, b"%x\r\n" % size + EVENT_START)
        return self.setdefault(length, b"\0")  # no chunk is so long


_STARTS = _Starts()

Ended = Callable[[int, int], None]
"""Called with a socket's number and the error's (0: the other side closed)."""


def drain(
    epoll: select.epoll, watched: dict[int, Stream], ended: Ended, wall_base_s: int, wall_ahead_s: float
) -> int:
    """Read all that is ready, and return how many reads came without a believable stamp.

    Those carry the time at which they were read. `wall_base_s` + `wall_ahead_s` is how far the kernel's wall clock is
    ahead of `perf_counter`, in two parts since a float of so many seconds loses nanoseconds.
    """
    unpack, only_bytes, unstamped = _TIMESPEC.unpack, select.EPOLLIN, 0
    now = perf_counter()
    oldest, newest = now - _BELIEVED_S, now + 1.0
    for number, events in epoll.poll(0):
        stream, room = watched.get(number), _READ_BYTES
        while stream is not None:  # None: forgotten by a callback of this very turn
            try:
                data, control, _, _ = stream.receive(room, _CONTROL_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                ended(number, error.errno or 0)
                break
            if not data:
                ended(number, 0)
                break
            seconds, nanoseconds = unpack(control[0][2]) if control else (0, 0)
            arrived = seconds - wall_base_s + nanoseconds * 1e-9 - wall_ahead_s
            if not oldest < arrived < newest:
                unstamped += 1
                arrived = perf_counter()
            start = _STARTS[len(data)] if stream.whole else b"\0"
            if data.startswith(start) and data.endswith(CHUNK_END):
                stream.pieces.append(data[len(start) : -len(CHUNK_END)])
                stream.stamps.append(arrived)
            else:
                stream.read(arrived, data)
            if events == only_bytes and len(data) < room:
                break  # nothing is left, and whatever comes now is a new event
            stream, room = watched.get(number), _LARGE_READ_BYTES
    return unstamped
