"""Servers that answer with whatever bytes they are told, for as long as their client holds out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator

Bytes = Iterable[bytes | float]
"""Pieces to send; a number is a pause in seconds."""


@contextlib.contextmanager
def sending(answer: Callable[[bytes], Bytes]) -> Iterator[str]:
    """The URL of a server that answers every connection with ``answer(request)`` and closes."""
    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve(client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            client.settimeout(20)
            request = b""
            while b"\r\n\r\n" not in request and (piece := client.recv(65536)):
                request += piece
            for piece in answer(request):
                if over.is_set():
                    return
                if isinstance(piece, float):
                    time.sleep(piece)
                else:
                    client.sendall(piece)

    def accept() -> None:
        while not over.is_set():
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        over.set()
        listener.close()


def page(
    body: bytes, status: str = "200 OK", kind: str = "application/json", length: int | None = None
) -> Bytes:
    """A whole answer with its length, or with one that is not its."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body) if length is None else length}"
    return [head.encode() + b"\r\nConnection: close\r\n\r\n", body]


def forever(piece: bytes, every_s: float | None = None, head: bytes = b"") -> Iterator[bytes | float]:
    """``head``, then ``piece`` without end."""
    yield head or b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
    while True:
        yield piece
        if every_s is not None:
            yield every_s
