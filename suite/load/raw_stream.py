"""The bytes of one answer as they came, each read with the time it arrived: written while measuring, read later."""

from __future__ import annotations

import asyncio
from array import array
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter

from suite.foreign import answer_bytes
from suite.load.bounds import Bounds
from suite.load.decode import AnswerDecoder
from suite.load.sse import EVENT_END, EVENT_START

clock: Callable[[], float] = perf_counter
"""The one clock of all stamps. On Linux it is CLOCK_MONOTONIC, so it is shared by all processes of a machine."""


class RawStream:
    """Reads and their stamps, not yet decoded, and the `AnswerDecoder` that they are decoded into.

    `pieces[i]` arrived at `stamps[i]`. A read that was one server-sent event and nothing else, as nearly all are, is kept
    as that event's data alone; every other as it came.

    `complete` resolves when the transport has seen the end of the body (or fails with what broke it); it is there
    only where the transport writes the reads itself, without waking anybody for each.
    """

    __slots__ = (
        "_decoded", "_decoded_bytes", "_decoded_to_t", "_odd", "answer", "between_events", "complete",
        "most_bytes", "pieces", "stamps",
    )  # fmt: skip

    def __init__(self, keep_text: bool = False, bounds: Bounds | None = None) -> None:
        self.stamps = array("d")
        self.pieces: list[bytes] = []
        self.between_events = False
        """What came so far ends with a whole event: only then may an event's data be put into `pieces` as such."""
        self._odd: deque[int] = deque()  # which of all reads are kept as they came
        self._decoded = 0
        self._decoded_bytes = 0
        self._decoded_to_t = 0.0
        self.most_bytes = answer_bytes(bounds.output_tokens if bounds else 0)
        """How large the whole answer may be."""
        self.complete: asyncio.Future[None] | None = None
        self.answer = AnswerDecoder(keep_text, bounds)

    @property
    def end_t(self) -> float:
        """When the newest read arrived; 0.0 if none did."""
        return self.stamps[-1] if self.stamps else self._decoded_to_t

    @property
    def received_bytes(self) -> int:
        """How much has come so far. To be asked now and then: it costs a look at each read not yet decoded."""
        return self._decoded_bytes + sum(map(len, self.pieces))

    def add(self, t: float, piece: bytes) -> None:
        """Take in one read of the body that arrived at `t`."""
        if self.between_events and piece.startswith(EVENT_START) and piece.endswith(EVENT_END):
            self.stamps.append(t)
            self.pieces.append(piece[len(EVENT_START) : -len(EVENT_END)])
        else:
            self.keep(t, piece)

    def keep(self, t: float, piece: bytes) -> None:
        """Take in one read as it came, whatever it looks like."""
        self._odd.append(self._decoded + len(self.pieces))
        self.stamps.append(t)
        self.pieces.append(piece)
        self.between_events = piece.endswith(
            EVENT_END
        )  # a line's end and an empty line: whatever was, is over

    def decode(self, limit: int | None = None) -> int:
        """Decode the oldest `limit` reads (all, if None), forget their bytes, and return how many they were."""
        count = len(self.pieces) if limit is None else min(limit, len(self.pieces))
        if count == 0:
            return 0
        stamps, pieces, odd = self.stamps[:count], self.pieces[:count], self._odd
        del self.stamps[:count], self.pieces[:count]
        self._decoded_bytes += sum(map(len, pieces))
        start = 0
        while start < count:
            end = min(count, odd[0] - self._decoded) if odd else count
            self.answer.feed_events(stamps[start:end], pieces[start:end])
            if end < count:
                odd.popleft()
                self.answer.feed(stamps[end], pieces[end])
            start = end + 1
        self._decoded += count
        self._decoded_to_t = stamps[-1]
        self.answer.put_away()
        return count


class StartGate:
    """One request's place on the starting line.

    The openai package needs some 0.4 ms to build a request. It does so ahead of time; the transport then waits
    here, connection in hand, until `gate` opens, and stamps `started` as it writes.
    """

    __slots__ = ("arrivals", "gate", "parked", "started")

    def __init__(
        self,
        arrivals: RawStream,
        gate: asyncio.Future[None] | None = None,
        parked: Callable[[], None] | None = None,
    ) -> None:
        self.arrivals = arrivals
        self.gate = gate
        self.parked = parked
        self.started: float | None = None

    async def start(self) -> None:
        """Wait for the gate, if there is one, and stamp the start."""
        if self.parked is not None:
            self.parked()
        if self.gate is not None:
            await self.gate
        self.started = clock()


START_GATE: ContextVar[StartGate | None] = ContextVar("suite_load_start_gate", default=None)
"""The gate of the request that the current task sends: how it reaches the transport through the openai package."""
