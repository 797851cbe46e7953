"""What the stand-in clients share: where the daemon is, and asking it."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

DIRECTORY = Path(os.environ.get("STANDIN_DAEMON", "/nonexistent"))


def ask(do: str, **order: Any) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(DIRECTORY / "socket"))
        except OSError:
            fail("Cannot connect to the daemon. Is it running?", 1)
        connection.sendall(json.dumps({"do": do, **order}).encode() + b"\n")
        with connection.makefile() as answer:
            return dict(json.loads(answer.readline()))


def fail(text: str, code: int) -> NoReturn:
    print(text, file=sys.stderr, flush=True)
    sys.exit(code)


def follow(name: str, path: str) -> None:
    """Print a log until its writer has ended."""
    with open(path, "rb") as log:
        while True:
            status = ask("status", name=name)
            while data := log.read(65536):
                os.write(1, data)
            if not status.get("running"):
                return
            time.sleep(0.05)
