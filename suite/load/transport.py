"""An HTTP/1.1 transport for the openai package that stamps every read in `data_received`, before anything else.

It does one thing, plain `http://` without a proxy; `client.py` uses the openai package's public aiohttp transport
for everything else. Timeouts, cancellation and errors behave as httpx documents them for any transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Any

import httptools
import httpx2

from suite.load.arrivals import TICKET, Arrivals

_IDLE_LIMIT_S = 2.0  # uvicorn closes idle connections after 5 s: never race with that
_NO_BODY = (204, 304)

Origin = tuple[str, int]
"""Host and port."""


class _Connection(asyncio.Protocol):
    """One TCP connection, at most one response at a time."""

    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self.transport: asyncio.Transport | None = None
        self.closed = False
        self.idle_since = 0.0
        self._parser: Any = None  # httptools ships no types

    def begin(self, arrivals: Arrivals) -> None:
        """Get ready for one response: `head` resolves when its headers are in, `body_done` at its end."""
        loop = asyncio.get_running_loop()
        self._parser = httptools.HttpResponseParser(self)
        self.status = 0
        self.reason = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.reusable = False
        self.arrivals = arrivals
        self.wake: asyncio.Event | None = None  # set only while somebody iterates over the body
        self.head: asyncio.Future[None] = loop.create_future()
        self.body_done: asyncio.Future[None] = loop.create_future()
        self.body_done.add_done_callback(_retrieve)
        arrivals.complete = self.body_done
        self._until_close = False
        self._stamp, self._store, self._now = arrivals.stamps.append, arrivals.pieces.append, 0.0

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._now = perf_counter()
        if self._parser is None:  # nobody asked
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(httpx2.RemoteProtocolError(f"the server's answer is not HTTP/1.1: {error!r}"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed = True
        if self._parser is None:
            return
        if exc is None and self._until_close and self.head.done():
            self._finish()
        elif self.head.done():
            self._break(
                httpx2.ReadError(f"the connection broke in the middle of the answer: {exc or 'closed'}")
            )
        else:
            self._break(httpx2.ReadError(f"the connection broke before any answer: {exc or 'closed'}"))

    # httptools calls these

    def on_status(self, status: bytes) -> None:
        self.reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        names = {name.lower(): value.lower() for name, value in self.headers}
        framed = b"content-length" in names or b"chunked" in names.get(b"transfer-encoding", b"")
        self._until_close = not framed and self.status not in _NO_BODY
        if self.status >= 200 and not self.head.done():
            self.head.set_result(None)

    def on_body(self, body: bytes) -> None:
        self._stamp(self._now)
        self._store(body)
        if self.wake is not None:
            self.wake.set()

    def on_message_complete(self) -> None:
        if self.status < 200:  # an interim answer; the real one follows
            self.headers, self.reason = [], b""
            return
        self.reusable = self._parser.should_keep_alive()
        self._finish()

    # inside

    def _finish(self) -> None:
        self._parser = None
        self.body_done.set_result(None)
        if self.wake is not None:
            self.wake.set()

    def _break(self, error: Exception) -> None:
        self._parser = None
        if not self.head.done():
            self.head.set_exception(error)
        self.body_done.set_exception(error)
        if self.wake is not None:
            self.wake.set()
        self.abort()

    def abort(self) -> None:
        """Close at once, dropping what was not yet sent."""
        self.closed = True
        self._parser = None
        if self.transport is not None:
            self.transport.abort()


class _Body(httpx2.AsyncByteStream):
    """The body as httpx reads it: for errors and short answers. The player waits for `Arrivals.complete` instead."""

    def __init__(
        self, pool: StampingTransport, connection: _Connection, read_timeout_s: float | None
    ) -> None:
        self._pool, self._connection, self._timeout_s = pool, connection, read_timeout_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        connection = self._connection
        connection.wake = asyncio.Event()
        arrivals, position = connection.arrivals, 0
        while True:
            while position < len(arrivals.pieces):
                position += 1
                yield arrivals.pieces[position - 1]
            if connection.body_done.done():
                await connection.body_done
                return
            connection.wake.clear()
            try:
                async with asyncio.timeout(self._timeout_s):
                    await connection.wake.wait()
            except TimeoutError:
                raise httpx2.ReadTimeout(f"no byte for {self._timeout_s:g} s") from None

    async def aclose(self) -> None:
        self._pool.give_back(self._connection)


class StampingTransport(httpx2.AsyncBaseTransport):
    """Keeps connections alive and opens as many as are asked for: no request waits unseen for a free one."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[_Connection]] = {}

    async def open_ahead(self, url: httpx2.URL, count: int) -> None:
        """Have `count` fresh connections at hand, so that none is opened on the clock. Failures show at use."""
        origin = _origin(url)
        for connection in self._idle.pop(origin, []):
            connection.abort()
        made = await asyncio.gather(
            *(self._connect(origin, 10.0) for _ in range(count)), return_exceptions=True
        )
        for opened in made:
            if isinstance(opened, _Connection):
                self._keep(opened)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        ticket = TICKET.get()
        timeouts = request.extensions.get("timeout", {})
        message = _head(request) + await request.aread()
        connection = self._checkout(_origin(request.url))
        try:
            if ticket is not None:
                await ticket.start()
            if connection is None or connection.closed:
                connection = await self._connect(_origin(request.url), timeouts.get("connect"))
            connection.begin(ticket.arrivals if ticket is not None else Arrivals())
            assert connection.transport is not None
            connection.transport.write(message)
            async with asyncio.timeout(timeouts.get("read")):
                await connection.head
        except TimeoutError:
            if connection is not None:
                connection.abort()
            raise httpx2.ReadTimeout(f"no answer for {timeouts['read']:g} s", request=request) from None
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        return httpx2.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(self, connection, timeouts.get("read")),
            extensions={"http_version": b"HTTP/1.1", "reason_phrase": connection.reason},
        )

    def give_back(self, connection: _Connection) -> None:
        """Keep a connection whose answer came to its end; abort any other."""
        done = connection.body_done.done() and connection.body_done.exception() is None
        if done and connection.reusable and not connection.closed:
            self._keep(connection)
        else:
            connection.abort()

    async def aclose(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # let the loop carry the aborts out

    def _keep(self, connection: _Connection) -> None:
        connection.idle_since = perf_counter()
        self._idle.setdefault(connection.origin, []).append(connection)

    def _checkout(self, origin: Origin) -> _Connection | None:
        idle = self._idle.get(origin, [])
        while idle:
            connection = idle.pop()
            if not connection.closed and perf_counter() - connection.idle_since < _IDLE_LIMIT_S:
                return connection
            connection.abort()
        return None

    async def _connect(self, origin: Origin, timeout_s: float | None) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(lambda: _Connection(origin), *origin)
        except TimeoutError:
            raise httpx2.ConnectTimeout(
                f"no connection to {origin[0]}:{origin[1]} within {timeout_s} s"
            ) from None
        except OSError as error:
            raise httpx2.ConnectError(f"cannot connect to {origin[0]}:{origin[1]}: {error}") from error
        return connection


def _origin(url: httpx2.URL) -> Origin:
    if url.scheme != "http":
        raise httpx2.UnsupportedProtocol(f"this transport speaks plain http only, not {url.scheme!r}")
    return url.host, url.port or 80


def _head(request: httpx2.Request) -> bytes:
    lines = [b"%s %s HTTP/1.1" % (request.method.encode("ascii"), request.url.raw_path)]
    lines += [
        b"%s: %s" % (name, value)
        for name, value in request.headers.raw
        if name.lower() != b"transfer-encoding"
    ]
    if b"content-length" not in {name.lower() for name, _ in request.headers.raw} and request.content:
        lines.append(b"Content-Length: %d" % len(request.content))
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _retrieve(future: asyncio.Future[None]) -> None:
    """Mark an exception as seen: the answer's reader reports it, if there still is one."""
    if not future.cancelled():
        future.exception()
