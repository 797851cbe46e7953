"""Cuts a byte stream into server-sent events, whatever the sizes of the reads it came in.

Rules: https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
"""

from __future__ import annotations

EVENT_START = b"data: "
EVENT_END = b"\n\n"
"""How every server known here writes an event of one line: this, its data, that."""

_BOM = b"\xef\xbb\xbf"


class EventCutter:
    """Feed it reads; it returns the `data` of every event that became complete with that read.

    Lines may end in LF, CRLF or CR, and a CRLF may itself be cut in two. Comments and other fields are dropped,
    several `data` lines are joined by LF, and an event is complete at the blank line after it.
    """

    __slots__ = ("_after_cr", "_at_start", "_data", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of the events that `piece` completed, in order."""
        if self._after_cr and piece:
            self._after_cr = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        buffer = self._rest + piece
        if self._at_start and buffer:
            if len(buffer) < len(_BOM) and _BOM.startswith(buffer):
                self._rest = buffer
                return []
            buffer = buffer.removeprefix(_BOM)
            self._at_start = False
        if buffer.endswith(b"\r"):
            self._after_cr = True
        lines = buffer.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._rest = lines.pop()
        return [event for line in lines if (event := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            if not self._data:
                return None
            event = b"\n".join(self._data)
            self._data.clear()
            return event
        field, _, value = line.partition(b":")
        if field == b"data":
            self._data.append(value.removeprefix(b" "))
        return None
