"""Plays one process's share of a round: starts requests as the load shape says, watches them, collects the records."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from suite.load.bounds import Bounds
from suite.load.client import Client, oversized
from suite.load.endpoint import Endpoint, Sampling
from suite.load.health import ClientLimits, LagMeter
from suite.load.raw_stream import RawStream, StartGate, clock
from suite.load.records import ClientHealth, Fault, FaultKind, RequestRecord
from suite.load.shapes import ClosedLoop, LoadShape, OpenLoop, Schedule
from suite.load.workloads import Workload

_WATCH_S = 0.1
_BUILD_AHEAD_S = 0.05  # an open loop's requests are built this long before they are due
_BACKLOG_HIGH = 10_000  # undecoded reads at which decoding begins while the round still runs: some 5 MB
_BACKLOG_LOW = 5_000
_SLICE = 128  # reads decoded at a time between two looks at the sockets: some 0.1 ms
_AFTER_FAULT_S = 0.1  # a client whose request failed waits, rather than hammer a dead server
DEFAULT_MAX_TOKENS = 256


@dataclass(frozen=True, slots=True)
class PlayPlan:
    """All that a process needs to know to play its share of a round."""

    endpoint: Endpoint
    workload: Workload
    load: LoadShape
    sampling: Sampling = field(default_factory=Sampling)
    timeout_s: float | None = None
    stall_s: float | None = 60.0
    keep_text: bool = False
    limits: ClientLimits = field(default_factory=ClientLimits)
    worker: int = 0
    workers: int = 1

    def max_tokens(self, index: int) -> int:
        """Output tokens asked of request number `index`: its prompt's own, if it has any."""
        own = self.workload.prompts[index % len(self.workload.prompts)].max_tokens
        return own or self.sampling.max_tokens or self.workload.max_tokens or DEFAULT_MAX_TOKENS

    @property
    def requests(self) -> int | None:
        """How many requests this share has; None if only time ends it."""
        if self.load.requests is not None:
            return self.load.requests
        if self.load.duration_s is not None:
            return None
        assert isinstance(self.load, ClosedLoop)
        return max(self.load.concurrency, self.workload.requests or len(self.workload.prompts))


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a round stands, for a live line. `tokens` is what the last chunks said, before they are decoded."""

    phase: str
    elapsed_s: float
    done: int
    total: int | None
    in_flight: int
    failed: int
    tokens: int


Report = Callable[[Progress], None]


class _Running:
    """One request in flight."""

    __slots__ = ("arrivals", "fault", "index", "intended", "start_gate", "task")

    def __init__(self, index: int, start_gate: StartGate) -> None:
        self.index = index
        self.start_gate = start_gate
        self.arrivals = start_gate.arrivals
        self.intended: float | None = None
        self.fault: Fault | None = None
        self.task: asyncio.Task[Fault | None] | None = None


class Player:
    """One process's share of a round. Use once: `await Player(plan).play()`."""

    def __init__(self, plan: PlayPlan, report: Report | None = None, start_at: float | None = None) -> None:
        self._plan = plan
        self._report = report
        self._start_at = start_at
        self._client = Client(plan.endpoint)
        self._meter = LagMeter()
        self._flying: set[_Running] = set()
        self._records: list[RequestRecord] = []
        self._landed: list[tuple[_Running, float]] = []
        self._tokens_landed = 0
        self._failed = 0
        self._idle_s = 0.0
        self._next = plan.worker
        self.zero = 0.0
        self.zero_unix = 0.0

    async def play(self) -> tuple[tuple[RequestRecord, ...], ClientHealth]:
        """Play, then decode what is not yet decoded. Records come in the order of their index."""
        try:
            if self._client.model is None:
                self._client.model = await self._client.first_model()
            gc.freeze()  # what exists now is not walked again while the clock runs
            try:
                await self._run()
            finally:
                gc.unfreeze()
                self._meter.stop()
            self._tell("decoding")
            self._settle()
        finally:
            await self._client.close()
        records = tuple(sorted(self._records, key=lambda r: r.index))
        lateness = [max(0.0, r.started_s - r.intended_s) for r in records]
        busy_s = sum(r.ended_s - r.started_s for r in records)
        idle_share = self._idle_s / (self._idle_s + busy_s) if self._idle_s else 0.0
        chunks = sum(r.chunks for r in records)
        return records, self._meter.health(chunks, lateness, idle_share, self._client.kernel_stamped(chunks))

    async def _run(self) -> None:
        load = self._plan.load
        work = asyncio.create_task(self._closed(load) if isinstance(load, ClosedLoop) else self._open(load))
        watch = asyncio.create_task(self._watch())
        try:
            await asyncio.wait([work, watch], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                await watch  # only an error ends it
            await work
        finally:
            flying = [r.task for r in self._flying if r.task is not None]
            for task in (work, watch, *flying):
                task.cancel()
            await asyncio.gather(work, watch, *flying, return_exceptions=True)

    # the two shapes

    async def _closed(self, load: ClosedLoop) -> None:
        await self._client.open_ahead(load.concurrency)
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = asyncio.Event()
        waiting = set(range(load.concurrency))

        def at_line(number: int) -> None:
            waiting.discard(number)
            if not waiting:
                line.set()

        clients = [
            asyncio.create_task(self._one_client(n, load, gate, at_line)) for n in range(load.concurrency)
        ]
        try:
            await line.wait()
            await self._go(gate)
            await asyncio.gather(*clients)
        finally:
            for client in clients:
                client.cancel()
            await asyncio.gather(*clients, return_exceptions=True)

    async def _one_client(
        self, number: int, load: ClosedLoop, gate: asyncio.Future[None], at_line: Callable[[int], None]
    ) -> None:
        """One client of a closed loop: its first request waits built at the line, unless it joins later."""
        try:
            if load.ramp_s > 0:
                at_line(number)
                await gate
                await asyncio.sleep(load.ramp_s * number / load.concurrency)
            elif (index := self._take(load)) is not None:
                start_gate = StartGate(self._arrivals(index), gate, parked=lambda: at_line(number))
                await self._fly(_Running(index, start_gate))
        finally:
            at_line(number)  # also if there was nothing to do, or it failed before it got there
        free_since = 0.0
        while (index := self._take(load)) is not None:
            running = _Running(index, StartGate(self._arrivals(index)))
            running.intended = clock()
            await self._fly(running)
            if free_since and running.start_gate.started is not None:
                self._idle_s += running.start_gate.started - free_since
            free_since = running.arrivals.end_t
            if running.fault is not None:
                await asyncio.sleep(_AFTER_FAULT_S)

    async def _open(self, load: OpenLoop | Schedule) -> None:
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await self._client.open_ahead(1)
        await self._go(gate, ahead_s=_BUILD_AHEAD_S)
        flights: set[asyncio.Task[None]] = set()
        try:
            for number, offset in enumerate(load.starts()):
                if number % self._plan.workers != self._plan.worker:
                    continue
                due = self.zero + offset
                await asyncio.sleep(max(0.0, due - _BUILD_AHEAD_S - clock()))
                running = _Running(number, StartGate(self._arrivals(number), _opens_at(due)))
                running.intended = due
                flight = asyncio.create_task(self._fly(running))
                flights.add(flight)
                flight.add_done_callback(flights.discard)
            await asyncio.gather(*flights)
        finally:
            for flight in set(flights):
                flight.cancel()
            await asyncio.gather(*flights, return_exceptions=True)

    def _take(self, load: ClosedLoop) -> int | None:
        """The next request's number, or None if the round is to end."""
        if load.duration_s is not None and self.zero and clock() - self.zero >= load.duration_s:
            return None
        number, total = self._next, self._plan.requests
        if total is not None and (number - self._plan.worker) // self._plan.workers >= total:
            return None
        self._next += self._plan.workers
        return number

    async def _go(self, gate: asyncio.Future[None], ahead_s: float = 0.0) -> None:
        """Start the clock: now, or at the start agreed with other processes; zero lies `ahead_s` after that."""
        if self._start_at is not None:
            await asyncio.sleep(max(0.0, self._start_at - clock()))
        self._meter.start()
        self.zero, self.zero_unix = clock() + ahead_s, time.time() + ahead_s
        gate.set_result(None)

    # one request

    def _arrivals(self, index: int) -> RawStream:
        plan = self._plan
        prompts = plan.workload.prompts
        affixes = (plan.workload.unique_prefix, plan.workload.shared_prefix)
        size = prompts[index % len(prompts)].size_bytes + sum(len(text or "") * 4 for text in affixes)
        return RawStream(
            plan.keep_text, Bounds(plan.max_tokens(index) * plan.sampling.n, size, plan.sampling.n)
        )

    async def _fly(self, running: _Running) -> None:
        plan = self._plan
        ask = self._client.ask(
            plan.workload.prompt(running.index),
            plan.sampling,
            plan.max_tokens(running.index),
            running.index,
            running.start_gate,
        )
        running.task = asyncio.create_task(ask)
        self._flying.add(running)
        try:
            running.fault = await running.task
        except asyncio.CancelledError:
            if running.fault is None:  # not the watch: the whole round is being cancelled
                running.task.cancel()
                raise
        finally:
            self._flying.discard(running)
            self._landed.append((running, clock()))
            self._failed += running.fault is not None
            self._tokens_landed += _tokens_said(running.arrivals)

    # watching

    async def _watch(self) -> None:
        """Ends requests that stall or overrun, keeps the backlog of undecoded bytes bounded, reports progress."""
        while True:
            await asyncio.sleep(_WATCH_S)
            self._client.set_clocks()
            now = clock()
            for running in list(self._flying):
                self._check(running, now)
            await self._decode_backlog()
            self._tell("running")

    def _check(self, running: _Running, now: float) -> None:
        started, last_t = running.start_gate.started, running.arrivals.end_t
        if started is None or running.task is None:
            return
        quiet_s = now - max(started, last_t)
        plan = self._plan
        if plan.stall_s is not None and quiet_s > plan.stall_s:
            seen = "after the answer had begun" if last_t else "and no answer ever began"
            running.fault = Fault(FaultKind.stalled, f"no byte for {quiet_s:.1f} s, {seen}", at_s=now)
        elif plan.timeout_s is not None and now - started > plan.timeout_s:
            running.fault = Fault(FaultKind.timed_out, f"not done after {plan.timeout_s:g} s", at_s=now)
        elif running.arrivals.received_bytes > running.arrivals.most_bytes:
            running.fault = oversized(running.arrivals)
        else:
            running.fault = (
                running.arrivals.answer.fault
            )  # found while it still comes: more of it is worth nothing
        if running.fault is not None:
            running.task.cancel()

    async def _decode_backlog(self) -> None:
        everyone = [r.arrivals for r in self._flying] + [r.arrivals for r, _ in self._landed]
        backlog = sum(len(a.pieces) for a in everyone)
        if backlog < _BACKLOG_HIGH:
            return
        portion = max(_SLICE, backlog // 64)  # the further behind, the larger
        left = portion
        for arrivals in everyone:
            while arrivals.pieces and backlog > _BACKLOG_LOW:
                decoded = arrivals.decode(left)
                backlog -= decoded
                left -= decoded
                if left == 0:
                    await asyncio.sleep(0)
                    left = portion
        self._settle(whole_only=True)

    def _settle(self, whole_only: bool = False) -> None:
        """Turn landed requests into records, freeing each; with `whole_only`, those whose bytes are decoded."""
        landed, self._landed = self._landed, []
        while landed:
            running, ended = landed.pop()
            if whole_only and running.arrivals.pieces:
                self._landed.append((running, ended))
                continue
            running.arrivals.decode()
            self._records.append(self._record(running, ended))

    def _record(self, running: _Running, ended: float) -> RequestRecord:
        plan, answer, zero = self._plan, running.arrivals.answer, self.zero
        if running.fault is None:
            answer.finish()
        fault = answer.fault or running.fault  # an error event explains the cut that followed it
        if fault is not None and fault.at_s is not None:
            fault = replace(fault, at_s=fault.at_s - zero)
        started = running.start_gate.started
        intended = running.intended if running.intended is not None else started
        started = started if started is not None else ended
        intended = intended if intended is not None else started
        last = running.arrivals.end_t or ended
        return RequestRecord(
            index=running.index,
            prompt=plan.workload.prompts[running.index % len(plan.workload.prompts)].id,
            kind=plan.workload.prompts[running.index % len(plan.workload.prompts)].kind,
            intended_s=intended - zero,
            started_s=started - zero,
            origin_s=(started if isinstance(plan.load, ClosedLoop) else intended) - zero,
            ended_s=(last if fault is None else ended) - zero,
            timeline=answer.timeline(zero),
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            completion_tokens=answer.completion_tokens,
            reasoning_tokens=answer.reasoning_tokens,
            finish_reasons=tuple(answer.finish_reasons.get(i) for i in range(plan.sampling.n)),
            spec=answer.spec,
            fault=fault,
            chunks=answer.chunks,
            max_tokens=plan.max_tokens(running.index),
            text="".join(answer.text) if plan.keep_text else None,
            reasoning="".join(answer.reasoning) if plan.keep_text else None,
        )

    def _tell(self, phase: str) -> None:
        if self._report is None or not self.zero:
            return
        tokens = self._tokens_landed + sum(_tokens_said(r.arrivals) for r in self._flying)
        done = len(self._landed) + len(self._records)
        self._report(
            Progress(
                phase, clock() - self.zero, done, self._plan.requests, len(self._flying), self._failed, tokens
            )
        )


def _opens_at(due: float) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    gate: asyncio.Future[None] = loop.create_future()

    def go() -> None:
        if not gate.done():
            gate.set_result(None)

    loop.call_at(loop.time() + due - clock(), go)
    return gate


def _tokens_said(arrivals: RawStream) -> int:
    """What the newest read says of tokens, without decoding it: good enough for a progress line, used for no metric."""
    for piece in reversed(arrivals.pieces[-4:]):
        _, found, tail = piece.rpartition(b'"completion_tokens":')
        if found:
            digits = tail.split(b",", 1)[0].rstrip(b"}").strip()
            return int(digits) if digits.isdigit() and len(digits) < 10 else 0
    return arrivals.answer.completion_tokens or 0
