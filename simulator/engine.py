"""The scheduler on the clock: each step's tokens are handed out at the very time at which the model says it ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from simulator.precise_timer import PreciseTimer
from simulator.scheduler import Output, Scheduler, Step
from simulator.sequences import Sequence


class Engine:
    """Runs a `Scheduler` against `time.monotonic()` for the lifetime of the server.

    Steps follow one another in the scheduler's own time. A late wake-up (a busy machine) delays the delivery of one
    step and nothing after it.
    """

    def __init__(self, scheduler: Scheduler, on_step: Callable[[Step], None]) -> None:
        self.scheduler = scheduler
        self._on_step = on_step
        self._queues: dict[Sequence, asyncio.Queue[Output]] = {}
        self._work = asyncio.Event()

    def submit(self, sequences: list[Sequence]) -> asyncio.Queue[Output]:
        """Sequences of one request arrive now; their outputs come through the queue."""
        queue: asyncio.Queue[Output] = asyncio.Queue()
        now_s = time.monotonic()
        for sequence in sequences:
            self._queues[sequence] = queue
            self.scheduler.submit(sequence, now_s)
        self._work.set()
        return queue

    def abort(self, wanted: Callable[[Sequence], bool]) -> None:
        """End the sequences for which `wanted` holds at the next step."""
        for sequence in self._queues:
            if wanted(sequence):
                sequence.aborted = True

    async def run(self) -> None:
        """Step while there is work, sleep while there is none, until cancelled."""
        timer = PreciseTimer()
        try:
            while True:
                if not self.scheduler.busy:
                    self._work.clear()
                    await self._work.wait()
                step = self.scheduler.step()
                await timer.until(step.end_s)
                self._hand_out(step)
        finally:
            timer.close()

    def _hand_out(self, step: Step) -> None:
        for output in step.outputs:
            queue = (
                self._queues[output.sequence] if output.finish is None else self._queues.pop(output.sequence)
            )
            queue.put_nowait(output)
        self._on_step(step)
