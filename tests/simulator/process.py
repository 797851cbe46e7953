"""The simulator as a process of its own: started, asked over HTTP, ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simulator.checkpoints import make

MODEL = str(make.FOLDER / make.WITH_MTP)
MODEL_WITHOUT_MTP = str(make.FOLDER / make.WITHOUT_MTP)
PATIENCE_S = 30.0


@dataclass
class Server:
    """A running simulator."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """(status, body) of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """The JSON of a GET that must succeed."""
        status, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def post(self, path: str, **body: Any) -> Any:
        """The JSON of a POST that must succeed."""
        status, answer = self.ask("POST", path, body)
        assert status == 200, answer
        return json.loads(answer)

    def chat(self, question: str, **fields: Any) -> Any:
        """A chat completion, without thinking and at temperature 0 unless told otherwise."""
        return self.post("/v1/chat/completions", **chat_body(question, **fields))

    def events(self, path: str, **body: Any) -> list[Any]:
        """The events of a stream, [DONE] left out (and required)."""
        status, answer = self.ask("POST", path, {**body, "stream": True})
        assert status == 200, answer
        events = [line[6:] for line in answer.decode().splitlines() if line.startswith("data: ")]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]


def chat_body(question: str, **fields: Any) -> dict[str, Any]:
    """The body of a chat request."""
    messages = [{"role": "user", "content": question}]
    return {
        "model": "m",
        "messages": messages,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": False},
        **fields,
    }


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def command(*flags: str, model: str = MODEL) -> list[str]:
    """The command line of a simulator."""
    fixed = ["--model-path", model, "--host", "127.0.0.1", "--start-seconds", "0"]
    return [sys.executable, "-m", "simulator", *fixed, *flags]


def run(*flags: str, model: str = MODEL, env: dict[str, str] | None = None) -> tuple[int, str]:
    """(exit status, output) of a simulator that is expected to end by itself."""
    port = ["--port", str(free_port())] if "--port" not in flags else []
    done = subprocess.run(
        command(*port, *flags, model=model),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, **(env or {})},
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def serving(
    log: Path, *flags: str, model: str = MODEL, env: dict[str, str] | None = None, ready: bool = True
) -> Iterator[Server]:
    """A simulator from ready to gone."""
    port = free_port()
    with log.open("wb") as output:
        process = subprocess.Popen(
            command("--port", str(port), *flags, model=model),
            stdout=output,
            stderr=output,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    server = Server(port, process, log)
    try:
        if ready:
            _wait_until_ready(server)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.log.read_text()
        with contextlib.suppress(OSError):
            if server.ask("GET", "/health_generate")[0] == 200:
                return
        time.sleep(0.02)
    raise AssertionError(f"not ready within {PATIENCE_S} s:\n{server.log.read_text()}")
