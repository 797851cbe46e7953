"""Stands in for dockerd and for systemd: owns processes that outlive the client which asked for them.

Clients (``bin/docker``, ``bin/systemd-run`` ...) send one JSON line over a socket and get one back. As with the
real ones, killing a client ends nothing; ending a thing by name ends all of its processes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socketserver
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil


@dataclass
class Thing:
    """A container or a unit."""

    argv: list[str]
    env: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    code: int | None = None
    order: dict[str, Any] = field(default_factory=dict)


class Daemon:
    """``handle`` is one client's order; ``journal`` the list of all, for tests to read."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.things: dict[str, Thing] = {}
        self.lock = threading.RLock()

    def handle(self, order: dict[str, Any]) -> dict[str, Any]:
        with (self.directory / "journal.jsonl").open("a") as journal:
            journal.write(json.dumps(order) + "\n")
        act = getattr(self, f"do_{order['do']}")
        answer: dict[str, Any] = act(order)
        return answer

    def do_start(self, order: dict[str, Any]) -> dict[str, Any]:
        with self.lock:
            if order["name"] in self.things and order.get("fresh"):
                return {"error": f"{order['name']} is in use already"}
            thing = Thing(order["argv"], order["env"], order=order)
            try:
                with open(order["log"], "ab") as log:
                    thing.process = subprocess.Popen(
                        thing.argv,
                        env=thing.env,
                        cwd=order.get("cwd") or "/",
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
            except OSError as error:
                return {"error": str(error)}
            self.things[order["name"]] = thing
        threading.Thread(target=self._wait, args=(thing,), daemon=True).start()
        return {"pid": thing.process.pid}

    def _wait(self, thing: Thing) -> None:
        assert thing.process is not None
        thing.code = thing.process.wait()

    def do_status(self, order: dict[str, Any]) -> dict[str, Any]:
        thing = self.things.get(order["name"])
        if thing is None:
            return {"known": False}
        return {"known": True, "running": thing.code is None, "code": thing.code, "log": thing.order["log"]}

    def do_stop(self, order: dict[str, Any]) -> dict[str, Any]:
        """SIGTERM (or the signal named) to the first process, and SIGKILL to all of them after ``seconds``."""
        thing = self.things.get(order["name"])
        if thing is None or thing.process is None:
            return {"known": False}
        family = psutil.Process(thing.process.pid).children(recursive=True) if thing.code is None else []
        if thing.code is None:
            thing.process.send_signal(order.get("signal", signal.SIGTERM))
        deadline = time.monotonic() + order.get("seconds", 0)
        while thing.code is None and time.monotonic() < deadline:
            time.sleep(0.02)
        # a real one has a cgroup or a PID namespace; here what was orphaned is a child of this subreaper
        mains = {other.process.pid for other in self.things.values() if other.process}
        family += [child for child in psutil.Process().children(recursive=True) if child.pid not in mains]
        for member in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                member.kill()
        if thing.code is None:
            thing.process.kill()
        while thing.code is None:
            time.sleep(0.01)
        return {"known": True}

    def do_forget(self, order: dict[str, Any]) -> dict[str, Any]:
        self.do_stop(order)
        return {"known": self.things.pop(order["name"], None) is not None}


def main() -> None:
    directory = Path(sys.argv[1])
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    daemon = Daemon(directory)

    class Answer(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            answer = daemon.handle(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(answer).encode() + b"\n")

    with socketserver.ThreadingUnixStreamServer(str(directory / "socket"), Answer) as server:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        server.serve_forever()


if __name__ == "__main__":
    main()
