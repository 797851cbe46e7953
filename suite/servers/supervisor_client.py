"""The suite's end of the conversation with the supervisor, the process on the host that holds locks and servers."""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import queue
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suite.hosts import ConnectionLost, Host
from suite.hosts.local import kill_running
from suite.hosts.program import program
from suite.servers.errors import Locked, SupervisorFailed, SupervisorLost

DIRECTORY_VARIABLE = "SGLANG_PERF_GATE_DIR"
"""Overrides where locks and records are kept on this machine (tests use one of their own)."""

SILENCE_S = 90.0
"""Over SSH: the supervisor ends the server when it has heard nothing for so long (a link that died silently)."""

DIRECTORY = "/tmp/sglang-perf-gate"
"""Where locks and records are kept on every host, for all its users."""

Tell = Callable[[str, str], None]
"""Takes lasting news: a kind (``leftover``, ``supervisor``, ``log``) and a sentence."""

_MODULES = ("processes", "claims", "job", "supervisor")


_OPEN: set[SupervisorClient] = set()
"""Every supervisor that was started and has not gone yet."""


def end_all_at_once(limit_s: float) -> bool:
    """Kill every command here, have every supervisor kill what it holds, and wait at most ``limit_s``; did all go?

    For a signal's handler: takes no lock that the interrupted code may hold. What takes longer goes on without us.
    """
    deadline = time.monotonic() + limit_s
    kill_running()
    supervisors = list(_OPEN)
    for supervisor in supervisors:
        supervisor.hurry()
    return all(one.gone.wait(max(0.0, deadline - time.monotonic())) for one in supervisors)


class SupervisorClient:
    """A supervisor on ``host``, started by :meth:`open`. Not for several threads at once.

    Args:
        on_log: takes the server's log as it comes, in a thread of its own; must not raise.
        say: takes what goes on, in passing.
        tell: takes what must not be lost, as a kind of event and a sentence.
    """

    def __init__(
        self, host: Host, on_log: Callable[[str], None], say: Callable[[str], None], tell: Tell
    ) -> None:
        self._host = host
        self._on_log = on_log
        self._say = say
        self._tell = tell
        self._noise: list[str] = []
        self._undone: list[str] = []
        self._launches = 0
        self._sending = threading.Lock()
        self._closing = threading.Event()
        self.token = secrets.token_hex(8)
        elsewhere = os.environ.get(DIRECTORY_VARIABLE) if host.is_local else None
        self.directory = elsewhere or DIRECTORY
        self.exit: dict[str, Any] | None = None
        self.pid: int | None = None
        self._events: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._leaving = False
        self.lost: Exception | None = None
        """Why it can be spoken with no more, once that is known."""
        self.gone = threading.Event()
        """Set when its output has ended: nothing will ever come from it again."""

    def open(
        self,
        locks: Sequence[str],
        label: Mapping[str, str],
        *,
        python: str = "python3",
        wait_s: float = 0.0,
    ) -> None:
        """Start it and take the locks; left-overs of dead runs are ended first and told through ``say``.

        Raises:
            Locked: another run holds one of the locks.
            SupervisorFailed: no Python there, or it broke.
        """
        boot, source = program("suite.servers.on_host", _MODULES)
        self._running = self._host.start([python, "-u", "-c", boot])
        _OPEN.add(self)
        threading.Thread(target=self._pump, name="events of the supervisor", daemon=True).start()
        if not self._host.is_local:
            threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()
        try:
            self._running.send(source.encode())
            self._greet(locks, label, wait_s)
        except BaseException:
            self._closing.set()
            self._let_go(3.0)
            raise

    def _greet(self, locks: Sequence[str], label: Mapping[str, str], wait_s: float) -> None:
        holder = {
            **label,
            "who": f"{_user()}@{socket.gethostname()}",
            "pid": os.getpid(),
            "since": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        }
        answer = self.ask(
            "ready",
            wait_s + 900.0,
            do="hello",
            directory=self.directory,
            token=self.token,
            locks=list(locks),
            holder=holder,
            wait_s=wait_s,
            parent=os.getpid() if self._host.is_local else None,
            silence_s=None if self._host.is_local else SILENCE_S,
        )
        self.pid = answer["pid"]

    def make_room(self, enter: Sequence[Sequence[str]], leave: Sequence[Sequence[str]]) -> None:
        """Run ``enter`` now, and ``leave`` at the end, whatever kills whom in between.

        Raises:
            SupervisorFailed: a command of ``enter`` failed.
        """
        self.ask("roomy", 600.0, do="room", enter=list(enter), leave=list(leave))

    def ask(self, event: str, timeout_s: float, **command: Any) -> dict[str, Any]:
        """Send a command and wait for the event that answers it.

        Raises:
            SupervisorFailed: it reported an error, or said nothing in time.
            SupervisorLost: it is gone.
            ConnectionLost: the host is gone.
        """
        self._send(command)
        return self._await(event, timeout_s)

    def _await(self, event: str, timeout_s: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout_s
        while (left := deadline - time.monotonic()) > 0:
            message = self.poll(min(left, 1.0))
            if message is not None and message["event"] == event:
                return message
        raise SupervisorFailed(
            f"the supervisor on {self._host.name}{self._number()} did not say {event!r} in {timeout_s:g} s"
        )

    def _send(self, command: Mapping[str, Any]) -> None:
        if self.lost is not None:
            raise self.lost
        try:
            with self._sending:
                self._running.send(json.dumps(command).encode() + b"\n")
        except ConnectionLost as broken:
            self.gone.wait(2.0)  # it may have said why
            raise self._gone(broken) from None

    def poll(self, timeout_s: float) -> dict[str, Any] | None:
        """The next event, after doing what it calls for here; ``None`` when there was none in time."""
        if self.lost is not None:
            raise self.lost
        try:
            message = self._events.get(timeout=timeout_s) if timeout_s else self._events.get_nowait()
        except queue.Empty:
            return None
        if message is None:
            raise self._gone()
        self._act(message)
        return message

    def drain(self) -> None:
        """Take in all events that have come. Raises as :meth:`poll`."""
        while self.poll(0) is not None:
            pass

    def _pump(self) -> None:
        """Runs in a thread: the log is copied as it comes, whatever the suite is busy with.

        Whatever goes wrong in here, whoever waits for an event learns that there will be no more.
        """
        try:
            while True:
                if (line := self._running.line(3600.0)) is not None:
                    self._take(line)
        except EOFError:
            pass
        finally:
            self.gone.set()
            self._events.put(None)

    def _take(self, line: bytes) -> None:
        message = _event(line)
        if message is None:
            self._noise.append(line.decode("utf-8", "replace"))
        elif message["event"] == "log":
            self._on_log(message["text"])
        else:
            self._events.put(message)

    def _act(self, message: dict[str, Any]) -> None:
        kind = message["event"]
        if kind == "exited":
            self.exit = message
        elif kind == "ended" and self._leaving and message["remaining"]:
            left = "; ".join(message["remaining"])
            self._undone.append(f"STILL RUNNING, could not be ended: {left}")
        elif kind == "leftover":
            self._tell("leftover", _leftover_sentence(message, self._host.name))
        elif kind == "busy":
            raise Locked(*_busy_sentences(message, self._host.name))
        elif kind in ("entered", "left"):
            command = " ".join(message["command"])
            self._say(f"{self._host.name}: {command}")
            if kind == "left" and message["code"]:
                self._undone.append(f"{command} ended with status {message['code']}: {message['output']}")
        elif kind == "broke":
            self._tell("supervisor", f"the supervisor on {self._host.name}: {message['error']}")
        elif kind == "failed":
            raise SupervisorFailed(f"{self._host.name}: {message['error']}")

    def _gone(self, broken: ConnectionLost | None = None) -> Exception:
        """What became of it: it ended, by itself or killed, or the connection to it broke."""
        noise = "\n".join(self._noise[-15:]).strip()
        how = self._running.ended()
        if how is not None:
            self.lost = SupervisorLost(
                f"the supervisor on {self._host.name}{self._number()} {how}",
                "It holds locks and servers for the suite; what it had started ends with it or is ended by the "
                f"next supervisor there. {noise}".strip(),
            )
        else:
            self.lost = ConnectionLost(
                f"{self._host.name}: the connection to the supervisor broke. {broken or noise}\n"
                "What ran there is ended by the supervisor, or found and ended by the next run."
            )
        return self.lost

    def _number(self) -> str:
        return f" (process {self.pid})" if self.pid is not None else ""

    def next_token(self) -> str:
        """A name for the next launch that no other has, on this host or elsewhere."""
        self._launches += 1
        return f"{self.token}-{self._launches}"

    def launch(self, token: str, spec: Mapping[str, Any]) -> int:
        """Start a server; its process number. ``spec`` is described in ``on_host/job.py``.

        Raises:
            SupervisorFailed: the first program, or the directory to start it in, is not there.
        """
        self.exit = None
        log = f"{self.directory}/{token}.log"
        return int(self.ask("started", 60.0, do="launch", token=token, log=log, **spec)["pid"])

    def calm(self) -> None:
        """The server is ready: its log up to here has been taken in, and need not be looked at so often now."""
        self.ask("calmed", 60.0, do="calm")

    def end(self, drain_s: float) -> dict[str, Any]:
        """End the server wholly; how it ended."""
        return self.ask("ended", drain_s + 300.0, do="end", drain_s=drain_s)

    def leave(self) -> None:
        """Ask it to end what it holds, put back what made room, and go; wait for nothing."""
        if self._leaving or self.lost is not None:
            return
        self._leaving = True
        with contextlib.suppress(ConnectionLost, SupervisorFailed):
            self._send({"do": "quit"})

    def hurry(self) -> None:
        """The same at once: the server is killed, not asked. For a signal's handler too."""
        self._leaving = True
        self._running.close_input(b'\n{"do": "quit"}\n')

    def close(self) -> None:
        """Let the supervisor end what is left, put back what made room, and go.

        Raises:
            SupervisorFailed: something could not be put back (a unit that does not start again).
        """
        self._closing.set()
        self.leave()
        try:
            self._await("bye", 400.0)
        except (ConnectionLost, SupervisorFailed) as gone:
            if self._undone:
                raise
            self._tell("supervisor", f"while it was to end: {_first_line(gone)}")
        finally:
            self._let_go(30.0)
        if self._undone:
            raise SupervisorFailed(
                f"{self._host.name} is not as it was: {'; '.join(self._undone)}", "Do it yourself."
            )

    def _let_go(self, limit_s: float) -> None:
        self._running.close(limit_s)
        _OPEN.discard(self)

    def _beat(self) -> None:
        while not self._closing.wait(SILENCE_S / 4):
            try:
                with self._sending:
                    self._running.send(b"\n")
            except ConnectionLost:
                return


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may run as a number without a name
        return str(os.getuid())


def host_python(host: Host, interpreter: str | None) -> str:
    """A Python on ``host`` for the supervisor: this one, ``python3``, or the server's own."""
    if host.is_local:
        return sys.executable
    for candidate in ("python3", interpreter):
        if candidate and host.run([candidate, "-c", ""], timeout_s=60).code == 0:
            return candidate
    raise SupervisorFailed(
        f"no python3 on {host.name}: it is needed there to watch the server and end it wholly",
        "Install python3 (3.8 or later) there, or put it on the PATH of a login without a terminal.",
    )


def _event(line: bytes) -> dict[str, Any] | None:
    """An event of the supervisor; ``None`` for what a shell's start-up file may have printed."""
    if not line.startswith(b'{"event"'):
        return None
    try:
        return dict(json.loads(line))
    except ValueError:
        return None


def _leftover_sentence(message: Mapping[str, Any], host: str) -> str:
    holder = message.get("holder", {})
    whose = f"run of {holder.get('who', 'somebody')} since {holder.get('since', '?')}"
    ended, commands = message["ended"], message["commands"]
    sentence = f"left over on {host} from a {whose}: "
    sentence += f"ended {len(ended)} processes of: {message['shown']}" if ended else "its record"
    if commands:
        sentence += f"; did what it could not: {'; '.join(commands)}"
    if message.get("remaining"):
        sentence += f"; STILL RUNNING, could not be ended: {'; '.join(message['remaining'])}"
    return sentence


def _busy_sentences(message: Mapping[str, Any], host: str) -> tuple[str, str]:
    holder = message.get("holder", {})
    who = ", ".join(f"{key} {value}" for key, value in holder.items() if key != "ending")
    return (
        f"{message['key']} on {host} is in use by another run: {who or 'who did not say'}",
        "Wait for it to end, or end that process; the lock is then free.",
    )
