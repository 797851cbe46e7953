"""A server for tests that answers each path with what it is told, and counts what it is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answer:
    """One answer. ``raw`` is sent as it is, instead of HTTP."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes | None = None


@dataclass
class Asked:
    """Where the server listens, and each request's path and Authorization header."""

    url: str
    requests: list[tuple[str, str | None]] = field(default_factory=list)


@contextmanager
def answering(answers: Mapping[str, Answer]) -> Iterator[Asked]:
    """Serve ``answers`` by path on loopback; any other path is 404."""
    asked = Asked("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.requests.append((self.path, self.headers.get("Authorization")))
            answer = answers.get(self.path, Answer(404, "{}"))
            if answer.raw is not None:
                self.wfile.write(answer.raw)
                return
            body = answer.body.encode()
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    asked.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
