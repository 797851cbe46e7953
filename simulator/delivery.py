"""Sending a generation's outputs to the client: event streams, chunk by chunk, and the wire's faults."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.types import Receive, Scope, Send

from simulator import wire
from simulator.scheduler import Output
from simulator.service import Generation, Service

_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class ConnectionCut(Exception):
    """The modelled network cut the connection (truncated-stream)."""


async def outputs(service: Service, generation: Generation) -> AsyncIterator[Output]:
    """The outputs of a generation's sequences as they come, until all have finished."""
    left = len(generation.sequences)
    steps = _recut(generation) if service.behaviour.recut_chunks else _spaced(service, generation)
    async for output in steps:
        yield output
        left -= output.finish is not None
        if not left:
            return


async def _spaced(service: Service, generation: Generation) -> AsyncIterator[Output]:
    """One output a step, or one every `--stream-interval` tokens; first and last always."""
    interval = service.resolved.settings["stream_interval"]
    sent: dict[int, int] = {}
    while True:
        output = await generation.outputs.get()
        index = output.sequence.index
        if output.finish is None and index in sent and output.tokens - sent[index] < interval:
            continue
        sent[index] = output.tokens
        yield output


async def _recut(generation: Generation) -> AsyncIterator[Output]:
    """The same tokens in other pieces: by turns one token a chunk, and three steps in one chunk."""
    sent: dict[int, int] = {}
    turn: dict[int, int] = {}
    while True:
        output = await generation.outputs.get()
        index = output.sequence.index
        turn[index] = turn.get(index, -1) + 1
        if turn[index] % 4 == 0:
            for tokens in range(sent.get(index, 0) + 1, output.tokens):
                yield Output(output.sequence, tokens, None)
        elif turn[index] % 4 != 3 and output.finish is None:
            continue
        sent[index] = output.tokens
        yield output


@contextlib.asynccontextmanager
async def aborted_on_disconnect(
    receive: Receive, generation: Generation, gone: asyncio.Event | None = None
) -> AsyncIterator[None]:
    """Within it, a generation ends when its client goes away (then `gone` is set); after it, in any case."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        abort(generation)
        if gone is not None:
            gone.set()

    watching = asyncio.get_running_loop().create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        abort(generation)


def abort(generation: Generation) -> None:
    """End what has not ended, at the next step."""
    for sequence in generation.sequences:
        if sequence.finish is None:
            sequence.aborted = True


class EventStream:
    """An ASGI response that sends events as they are made, and aborts the generation if the client goes away."""

    def __init__(self, service: Service, generation: Generation, events: AsyncIterator[bytes]) -> None:
        self._service = service
        self._generation = generation
        self._events = events
        self._gone = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, the client's departure or a fault, whichever is first."""
        async with aborted_on_disconnect(receive, self._generation, self._gone):
            await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
            await self._send_events(send)

    async def _send_events(self, send: Send) -> None:
        odd, chunks, held = self._service.behaviour, 0, b""
        async for data in self._events:
            if chunks >= odd.truncate_after:
                raise ConnectionCut
            if chunks >= odd.error_after:
                message = wire.error("Internal server error", "InternalServerError", 500)
                await send({"type": "http.response.body", "body": wire.event({"error": message}) + wire.DONE})
                return
            held, chunks = held + data, chunks + 1
            if len(held) >= odd.buffered_bytes:
                await send({"type": "http.response.body", "body": held, "more_body": True})
                held = b""
            if chunks == 5 and odd.stall_s:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._gone.wait(), odd.stall_s)
        await send({"type": "http.response.body", "body": held, "more_body": False})
