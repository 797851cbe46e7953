"""Does a start script hand its arguments to the server? Seen while it starts: command lines, ports, the log."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.redact import is_secret, scrub
from suite.servers.node import Node
from suite.sglang import http
from suite.sglang.command import NotUnderstood, find
from suite.sglang.errors import ServerProbeError
from suite.sglang.flags import Flags

EVERY_S = 2.0
DEFAULT_PORT = 30000
"""SGLang's own, where no flag says another."""
_SERVING = re.compile(r"Uvicorn running on https?://\S+?:(\d+)")
PASS_ON = "pass the arguments on"
_ASKS = 3
"""How often a port is asked whether it is the server's: ranks talk to one another on ports of their own."""


class PassedOn:
    """Looks every two seconds whether what was launched on a node runs as it was asked to.

    Args:
        node: where it was launched.
        asked: its flags, host and port among them.
    """

    def __init__(self, node: Node, asked: Flags) -> None:
        self.node = node
        self._asked = asked
        self._port = int(str(asked["port"]))
        self._next = time.monotonic() + EVERY_S / 2
        self._asks: dict[int, int] = {}

    def why_not(self, now: bool = False) -> str | None:
        """Why the server cannot be the one that was asked for, if so; ``None`` where all is well or nothing is seen."""
        if not now and time.monotonic() < self._next:
            return None
        self._next = time.monotonic() + EVERY_S
        if self.node.plan is None:
            return None
        lines = self.node.log.tail(50) if self.node.log else []
        said = elsewhere(lines, self._port)
        if (
            said is None and not self.node.plan.kill
        ):  # the processes of a container or a unit are not ours to see
            programs = self.node.supervisor.ask("programs", 30.0, do="programs")["found"]
            said = by_command(programs, self._asked) or (None if now else self._by_port(programs))
        return said

    def _by_port(self, programs: Sequence[Mapping[str, Any]]) -> str | None:
        """Does one of its processes serve HTTP on a port that nobody asked for?"""
        ports = {port for program in programs for port in program["ports"]}
        if self._port in ports:
            return None
        for port in sorted(ports):
            self._asks[port] = self._asks.get(port, 0) + 1
            if self._asks[port] <= _ASKS and self._serves(port):
                return _told(port, self._port)
        return None

    def _serves(self, port: int) -> bool:
        try:
            answer = http.ask(f"http://127.0.0.1:{self.node.host.forward(port)}/v1/models", timeout_s=1.0)
        except ServerProbeError:
            return False
        return answer.status in (200, 401)


def _told(port: int, asked: int) -> str:
    return f"the server listens on {port}, not on {asked}: {PASS_ON}"


def elsewhere(lines: Iterable[str], port: int) -> str | None:
    """The sentence about a server whose log says that it serves on another port."""
    for line in lines:
        if (match := _SERVING.search(line)) and int(match[1]) != port:
            return _told(int(match[1]), port)
    return None


def by_command(programs: Iterable[Mapping[str, Any]], asked: Flags) -> str | None:
    """The sentence about an SGLang command line among ``programs`` that has not the flags that were asked for."""
    for program in programs:
        try:
            given = find(program["words"]).flags
        except NotUnderstood:
            continue
        port = str(given.get("port", DEFAULT_PORT))
        if port != str(asked["port"]):
            return _told(int(port), int(str(asked["port"]))) if port.isdecimal() else None
        if dropped := [name for name in asked if not _is(given, name, asked)]:
            return f"the server was started without {', '.join(_shown(name, asked) for name in dropped)}: {PASS_ON}"
        return None
    return None


def _is(given: Flags, name: str, asked: Flags) -> bool:
    """Has a command line this flag as it was asked for? Words, as both were words."""
    return name in given and Flags({name: given[name]}).argv() == Flags({name: asked[name]}).argv()


def _shown(name: str, asked: Flags) -> str:
    shown = f"--{name}" if is_secret(name) else " ".join(Flags({name: asked[name]}).shown())
    return scrub(shown)
