"""An HTTP/1.1 transport for the openai package in which every read carries the time the kernel received it.

It does one thing, plain `http://` without a proxy; `client.py` uses the openai package's public aiohttp transport
for everything else. Timeouts, cancellation and errors behave as httpx documents them for any transport.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Sequence
from time import perf_counter
from typing import Any, TypeVar

import httptools
import httpx2

from suite.foreign import ERROR_BYTES, ERROR_S, MIB
from suite.load.draining import Stream
from suite.load.raw_stream import START_GATE, RawStream
from suite.load.reading import Reader

T = TypeVar("T")

_IDLE_LIMIT_S = 2.0  # uvicorn closes idle connections after 5 s: never race with that
_NO_BODY = (204, 304)
HEAD_BYTES = MIB
"""How large status and headers may be."""


class TooLarge(httpx2.ReadError):
    """More came than any answer to what was asked has."""


Origin = tuple[str, int]
"""Host and port."""
_Address = tuple[Any, ...]  # as getaddrinfo gives them


class _Connection(Stream):
    """One TCP connection, at most one response at a time."""

    def __init__(self, origin: Origin, sock: socket.socket, reader: Reader) -> None:
        super().__init__(sock)
        self.origin = origin
        self.closed = False
        self.idle_since = 0.0
        self._sock = sock
        self._reader = reader
        self._parser: Any = None  # httptools ships no types
        reader.watch(sock, self)

    async def send(self, message: bytes) -> None:
        """Hand a whole request to the socket."""
        await asyncio.get_running_loop().sock_sendall(self._sock, message)

    def begin(self, arrivals: RawStream, events: bool) -> None:
        """Get ready for one response: `head` resolves when its headers are in, `body_done` at its end.

        With `events`, the body of a good answer is read for its events, and is in `arrivals` alone.
        """
        loop = asyncio.get_running_loop()
        self.pieces, self.stamps = arrivals.pieces, arrivals.stamps
        self._bodies: list[bytes] = []
        self.events = events
        self._between_chunks = False
        self.on_body = self._bodies.append  # httptools calls it, without a frame of Python's own
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
        self._received = 0
        self._most_bytes = HEAD_BYTES

    # the reader calls these

    def read(self, arrived: float, data: bytes) -> None:
        if self._parser is None:  # nobody asked
            self.abort()
            return
        self._received += len(data)
        if self._received > self._most_bytes:
            self._too_much()
            return
        self._parse(data)
        take = self.arrivals.add if self.events else self.arrivals.keep
        for body in self._bodies:
            take(arrived, body)
        self._bodies.clear()
        self.whole = (  # what comes next begins a chunk, and an event
            self.events
            and self._parser is not None
            and self._between_chunks
            and data.endswith(b"\r\n")  # so nothing of the next chunk's head has come
            and self.arrivals.between_events
        )
        if self.wake is not None:
            self.wake.set()

    def _parse(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._break(httpx2.RemoteProtocolError(f"the server's answer is not HTTP/1.1: {error!r}"))

    def ended(self, error: OSError | None) -> None:
        self.closed = True
        if self._parser is None:
            self.abort()
        elif error is None and self._until_close and self.head.done():
            self._finish()
        elif self.head.done():
            self._break(
                httpx2.ReadError(f"the connection broke in the middle of the answer: {error or 'closed'}")
            )
        else:
            self._break(httpx2.ReadError(f"the connection broke before any answer: {error or 'closed'}"))

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
            kind = names.get(b"content-type", b"")
            self.events &= self.status == 200 and kind.startswith(b"text/event-stream")
            self._most_bytes = self._received + (self.arrivals.most_bytes if self.events else ERROR_BYTES)
            self.head.set_result(None)

    def on_chunk_header(self) -> None:
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_message_complete(self) -> None:
        if self.status < 200:  # an interim answer; the real one follows
            self.headers, self.reason = [], b""
            return
        self.reusable = self._parser.should_keep_alive()
        self._finish()

    # inside

    def _too_much(self) -> None:
        """The answer is beyond its bound. Of an error the beginning is enough, a stream is broken by it."""
        if self.head.done() and not self.events:
            self.cut()
        else:
            self._break(TooLarge(f"more than {self._most_bytes >> 20} MiB came"))

    def cut(self) -> None:
        """Take what has come for the whole body."""
        if self._parser is not None:
            self.reusable = False
            self._finish()
            self.abort()

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
        """Close at once."""
        self.closed = True
        self._parser = None
        self.whole = False
        self._reader.forget(self._sock)
        self._sock.close()


class _Body(httpx2.AsyncByteStream):
    """The body as httpx reads it: for errors and short answers. The player waits for `RawStream.complete` instead.

    It is cut at `ERROR_BYTES` and after `ERROR_S` seconds.
    """

    def __init__(self, pool: StampingTransport, connection: _Connection) -> None:
        self._pool, self._connection = pool, connection

    async def __aiter__(self) -> AsyncIterator[bytes]:
        connection = self._connection
        if connection.events:
            raise httpx2.StreamError("the body of an event stream is read by its events, from RawStream")
        connection.wake = asyncio.Event()
        arrivals, position = connection.arrivals, 0
        until = asyncio.get_running_loop().time() + ERROR_S
        while True:
            while position < len(arrivals.pieces):
                position += 1
                yield arrivals.pieces[position - 1]
            if connection.body_done.done():
                await connection.body_done
                return
            connection.wake.clear()
            try:
                async with asyncio.timeout_at(until):
                    await connection.wake.wait()
            except TimeoutError:
                connection.cut()

    async def aclose(self) -> None:
        self._pool.give_back(self._connection)


class StampingTransport(httpx2.AsyncBaseTransport):
    """Keeps connections alive and opens as many as are asked for: no request waits unseen for a free one."""

    def __init__(self) -> None:
        self._idle: dict[Origin, list[_Connection]] = {}
        self._reader: Reader | None = None  # made inside the event loop

    def set_clocks(self) -> None:
        """See `Reader.set_clocks`."""
        if self._reader is not None:
            self._reader.set_clocks()

    @property
    def unstamped(self) -> int:
        """See `Reader.unstamped`."""
        return self._reader.unstamped if self._reader is not None else 0

    async def open_ahead(self, url: httpx2.URL, count: int) -> None:
        """Have `count` fresh connections at hand, so that none is opened on the clock. Failures show at use."""
        origin = _origin(url)
        for connection in self._idle.pop(origin, []):
            connection.abort()
        try:
            addresses = await _addresses(*origin)  # once for all
        except OSError:
            return
        made = await asyncio.gather(
            *(self._connect(origin, 10.0, addresses) for _ in range(count)), return_exceptions=True
        )
        for opened in made:
            if isinstance(opened, _Connection):
                self._keep(opened)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        start_gate = START_GATE.get()
        timeouts = request.extensions.get("timeout", {})
        message = _head(request) + await request.aread()
        connection = self._checkout(_origin(request.url))
        try:
            if start_gate is not None:
                await start_gate.start()
            if connection is None or connection.closed:
                connection = await self._connect(_origin(request.url), timeouts.get("connect"))
            connection.begin(
                start_gate.arrivals if start_gate is not None else RawStream(), events=start_gate is not None
            )
            await _within(connection.send(message), timeouts.get("write"), httpx2.WriteTimeout)
            await _within(connection.head, timeouts.get("read"), httpx2.ReadTimeout)
        except OSError as error:
            if connection is not None:
                connection.abort()
            raise httpx2.WriteError(f"the connection broke while the request was sent: {error}") from error
        except BaseException:
            if connection is not None:
                connection.abort()
            raise
        return httpx2.Response(
            connection.status,
            headers=connection.headers,
            stream=_Body(self, connection),
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
        if self._reader is not None:
            self._reader.close()

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

    async def _connect(
        self, origin: Origin, timeout_s: float | None, addresses: Sequence[_Address] | None = None
    ) -> _Connection:
        if self._reader is None:
            self._reader = Reader()
        try:
            sock = await _within(_open_socket(*origin, addresses), timeout_s, httpx2.ConnectTimeout)
        except OSError as error:
            raise httpx2.ConnectError(f"cannot connect to {origin[0]}:{origin[1]}: {error}") from error
        return _Connection(origin, sock, self._reader)


async def _addresses(host: str, port: int) -> Sequence[_Address]:
    return await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)


async def _open_socket(host: str, port: int, addresses: Sequence[_Address] | None) -> socket.socket:
    """A connected socket to the first of the host's addresses that answers."""
    loop = asyncio.get_running_loop()
    failure = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in addresses or await _addresses(host, port):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
            return sock
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
    raise failure


async def _within(work: Awaitable[T], timeout_s: float | None, error: type[httpx2.TimeoutException]) -> T:
    if timeout_s is None:
        return await work
    try:
        async with asyncio.timeout(timeout_s):
            return await work
    except TimeoutError:
        raise error(f"not done within {timeout_s:g} s") from None


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
