"""Cuts a byte stream into server-sent events, whatever the sizes of the reads it came in.

Rules: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

from suite.foreign import EVENT_BYTES, LINE_BYTES

EVENT_START = b"data: "
EVENT_END = b"\n\n"
"""How every server known here writes an event of one line: this, its data, that."""

_BOM = b"\xef\xbb\xbf"


class TooLong(ValueError):
    """A line or an event beyond all bounds."""


class EventCutter:
    """Feed it reads; it returns the `data` of every event that became complete with that read.

    Lines may end in LF, CRLF or CR, and a CRLF may itself be cut in two. Comments and other fields are dropped,
    several `data` lines are joined by LF, and an event is complete at the blank line after it.

    Time is linear in the bytes, however they are cut; a line or an event beyond its bound is refused.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_data_bytes", "_rest", "_rest_bytes")

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # of a line whose end has not come
        self._rest_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completed, in order.

        Raises:
            TooLong: a line or an event is longer than any that is read.
        """
        if self._after_cr and piece:
            self._after_cr = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if self._at_start and piece:
            piece = b"".join((*self._rest, piece))
            if len(piece) < len(_BOM) and _BOM.startswith(piece):
                self._keep(piece)
                return []
            self._keep(b"")
            piece = piece.removeprefix(_BOM)
            self._at_start = False
        if b"\n" not in piece and b"\r" not in piece:
            self._rest.append(piece)
            self._rest_bytes += len(piece)
            self._check(self._rest_bytes)
            return []
        if piece.endswith(b"\r"):
            self._after_cr = True
        buffer = b"".join((*self._rest, piece))
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._keep(lines.pop())
        return [event for line in lines if (event := self._line(line)) is not None]

    def _keep(self, rest: bytes) -> None:
        self._rest, self._rest_bytes = [rest], len(rest)

    def _check(self, size: int) -> None:
        if size > LINE_BYTES:
            raise TooLong(f"a line has more than {LINE_BYTES >> 20} MiB")

    def _line(self, line: bytes) -> bytes | None:
        self._check(len(line))
        if not line:
            if not self._data:
                return None
            event = b"\n".join(self._data)
            self._data.clear()
            self._data_bytes = 0
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_bytes += len(value)
            if self._data_bytes > EVENT_BYTES:
                raise TooLong(f"an event has more than {EVENT_BYTES >> 20} MiB")
        return None
