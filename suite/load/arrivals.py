"""The bytes of one answer as they came, each read with the time it arrived: written while measuring, read later."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable
from contextvars import ContextVar
from time import perf_counter

from suite.load.decode import Answer

clock: Callable[[], float] = perf_counter
"""The one clock of all stamps. On Linux it is CLOCK_MONOTONIC, so it is shared by all processes of a machine."""


class Arrivals:
    """Reads and their stamps, not yet decoded, and the `Answer` that they are decoded into.

    `complete` resolves when the transport has seen the end of the body (or fails with what broke it); it is there
    only where the transport writes the reads itself, without waking anybody for each.
    """

    __slots__ = ("_decoded_to_t", "answer", "complete", "pieces", "stamps")

    def __init__(self, keep_text: bool = False, expected_tokens: int = 0) -> None:
        self.stamps = array("d")
        self.pieces: list[bytes] = []
        self._decoded_to_t = 0.0
        self.complete: asyncio.Future[None] | None = None
        self.answer = Answer(keep_text, expected_tokens)

    @property
    def end_t(self) -> float:
        """When the newest read arrived; 0.0 if none did."""
        return self.stamps[-1] if self.stamps else self._decoded_to_t

    def decode(self, limit: int | None = None) -> int:
        """Decode the oldest `limit` reads (all, if None), forget their bytes, and return how many they were."""
        stamps, pieces = self.stamps, self.pieces
        count = len(pieces) if limit is None else min(limit, len(pieces))
        if count == 0:
            return 0
        self._decoded_to_t = stamps[count - 1]
        self.answer.feed_all(stamps[:count], pieces[:count])
        del stamps[:count], pieces[:count]
        return count


class Ticket:
    """One request's place on the starting line.

    The openai package needs some 0.4 ms to build a request. It does so ahead of time; the transport then waits
    here, connection in hand, until `gate` opens, and stamps `started` as it writes.
    """

    __slots__ = ("arrivals", "gate", "parked", "started")

    def __init__(
        self,
        arrivals: Arrivals,
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


TICKET: ContextVar[Ticket | None] = ContextVar("suite_load_ticket", default=None)
"""The ticket of the request that the current task sends: how it reaches the transport through the openai package."""
