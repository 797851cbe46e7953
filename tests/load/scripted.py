"""A server that says exactly what a test tells it to, byte for byte, on a thread of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any


@dataclass(slots=True)
class Asked:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    number: int = 0
    connection: int = 0


RESET = "reset"
CLOSE = "close"
Step = bytes | float | str
"""What to do next: send these bytes, wait so many seconds, RESET or CLOSE the connection."""

Script = Callable[[Asked], list[Step]]


def chunked(*bodies: bytes, end: bool = True) -> list[bytes]:
    """Bodies as HTTP/1.1 chunks, the last one being the end."""
    frames = [b"%x\r\n%s\r\n" % (len(body), body) for body in bodies]
    return [*frames, b"0\r\n\r\n"] if end else frames


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def event(**fields: Any) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def token_events(tokens: int, per_chunk: int = 1, text: str = "x") -> list[bytes]:
    """The events of a whole good answer of so many tokens, in SGLang's order."""
    role = event(choices=[{"index": 0, "delta": {"role": "assistant", "content": ""}}])
    counts = [*range(per_chunk, tokens, per_chunk), tokens]
    middle = [
        event(
            choices=[{"index": 0, "delta": {"content": text}}],
            usage={"prompt_tokens": 5, "completion_tokens": n, "total_tokens": n + 5},
        )
        for n in counts
    ]
    finish = event(choices=[{"index": 0, "delta": {}, "finish_reason": "length"}])
    usage = event(
        choices=[], usage={"prompt_tokens": 5, "completion_tokens": tokens, "total_tokens": tokens + 5}
    )
    return [role, *middle, finish, usage, b"data: [DONE]\n\n"]


def answer(tokens: int, per_chunk: int = 1, gap_s: float = 0.0) -> list[Step]:
    """A whole good answer, `gap_s` between its chunks."""
    steps: list[Step] = [HEAD]
    for frame in chunked(*token_events(tokens, per_chunk)):
        steps += [frame, gap_s] if gap_s else [frame]
    return steps


def plain(status: str, body: bytes, kind: str = "application/json") -> list[Step]:
    """A whole answer with a content length."""
    return [b"HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (
        status.encode(), kind.encode(), len(body), body
    )]  # fmt: skip


@dataclass
class ScriptedServer:
    """Plays `script` for every request; use as a context manager. `asked` lists the requests in order of arrival."""

    script: Script
    tls: ssl.SSLContext | None = None
    asked: list[Asked] = field(default_factory=list)
    open_now: int = 0
    open_most: int = 0
    connections: int = 0

    def __enter__(self) -> ScriptedServer:
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(ready,), daemon=True)
        self._thread.start()
        assert ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self, ready: threading.Event) -> None:
        async def serve() -> None:
            self._stop = asyncio.Event()
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self.tls)
            self.url = f"http{'s' if self.tls else ''}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            ready.set()
            await self._stop.wait()
            server.close()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve())
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while (asked := await _read(reader)) is not None:
                asked.number, asked.connection = len(self.asked), connection
                self.asked.append(asked)
                self.open_now += 1
                self.open_most = max(self.open_most, self.open_now)
                try:
                    if not await _perform(self.script(asked), writer):
                        return
                finally:
                    self.open_now -= 1
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Asked | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    body = json.loads(raw) if raw else {}
    return Asked(first.split()[1], headers, body)


async def _perform(steps: list[Step], writer: asyncio.StreamWriter) -> bool:
    """Do the steps; False if the connection is over."""
    for step in steps:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        elif step == RESET:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        else:
            return False
    return True
