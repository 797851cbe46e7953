"""The process on a host that starts a server, watches it, and ends all of it when told to or when the suite is gone.

It talks JSON lines: commands on its input, events on its output. The end of its input is the end of the
suite (killed, or the connection dropped), so it ends the server and goes. While it lives it holds the locks.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from suite.servers.on_host import claims, processes
from suite.servers.on_host.job import Job, kill_all, prctl, reap, remove, run

PR_SET_CHILD_SUBREAPER = 36
TICK_S = 1.0
LAUNCH_TICK_S = 0.15
GOODBYE_S = 3.0
"""How long a server may take over a SIGTERM when nobody is there to wait for it."""


def say(event: str, **values: Any) -> None:
    """Tell the suite; a suite that is gone is noticed by the end of the input, not here."""
    with contextlib.suppress(OSError):
        line = json.dumps({"event": event, **values}).encode() + b"\n"
        while line:
            line = line[os.write(1, line) :]


class Supervisor:
    """The conversation with the suite."""

    def __init__(self) -> None:
        self._input = b""
        self._input_over = False
        self._input_closed = False
        self._told_to_quit = False
        self._heard = time.monotonic()
        self._tick_s = TICK_S
        self._job: Job | None = None
        self._record: claims.Record | None = None
        self._locks: list[claims.Lock] = []
        self._hello: dict[str, Any] = {}
        self._leave: list[list[str]] = []
        self._sent = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def run(self) -> None:
        """Until told to quit or nobody is there any more."""
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        try:
            while True:
                ready, _, _ = select.select([0, wake_read], [], [], self._tick_s)
                if wake_read in ready:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wake_read, 4096)
                if 0 in ready:
                    self._read()
                self._look()
                if self._gone():  # asked last: a heartbeat may have waited while we were busy
                    break
        finally:
            self._undo()

    def _on_signal(self, *_: Any) -> None:
        self._input_over = True

    def _gone(self) -> bool:
        """Nobody is there: end of input, a parent that died, or a silence longer than agreed."""
        parent = self._hello.get("parent")
        silence = self._hello.get("silence_s")
        return (
            self._input_over
            or (parent is not None and os.getppid() != parent)
            or (silence is not None and time.monotonic() - self._heard > silence)
        )

    def _gone_meanwhile(self) -> bool:
        """As :meth:`_gone`, also when the input ended, or we were told to quit, while we were busy."""
        self._receive_waiting()
        return self._gone() or any(_is_quit(line) for line in self._input.split(b"\n")[:-1])

    def _hurried(self) -> bool:
        """Told to quit, and then left: whoever told us does not wait for a kind end."""
        self._receive_waiting()
        return self._told_to_quit and self._input_closed

    def _receive_waiting(self) -> None:
        while not self._input_closed and select.select([0], [], [], 0)[0]:
            self._receive()

    def _receive(self) -> None:
        data = os.read(0, 65536)
        self._heard = time.monotonic()
        self._input_closed = self._input_closed or not data
        self._input_over = self._input_over or not data
        self._input += data

    def _read(self) -> None:
        self._receive()
        while b"\n" in self._input and not self._input_over:
            line, _, self._input = self._input.partition(b"\n")
            if line.strip():
                self._obey(json.loads(line))

    def _obey(self, command: dict[str, Any]) -> None:
        act: dict[str, Callable[..., None]] = {
            "hello": self._greet,
            "room": self._make_room,
            "port": self._port,
            "launch": self._launch,
            "programs": self._programs,
            "calm": self._calm,
            "end": self._end,
            "quit": self._quit,
        }
        try:
            act[command.pop("do")](**command)
        except claims.Busy as busy:
            say("busy", key=busy.key, holder=busy.holder)
        except Exception as error:  # whatever it is, the suite must hear of it rather than wait
            say("failed", error=f"{type(error).__name__}: {error}")

    def _greet(self, **hello: Any) -> None:
        """Take the locks, and end what dead runs left."""
        directory = claims.open_directory(hello["directory"])
        holder = {**hello["holder"], "keeper": os.getpid()}
        self._hello = {**hello, "holder": holder}
        for key in hello["locks"]:
            lock = claims.Lock(directory, key)
            lock.take(holder, hello.get("wait_s", 0.0), self._gone_meanwhile)
            self._locks.append(lock)
        for path, record in claims.left_over(directory):
            with contextlib.suppress(KeyError, TypeError):  # a record of another version, or half of one
                say("leftover", **end_left_over(record))
            os.unlink(path)
        self._record = claims.Record(directory, hello["token"])
        self._record.write(leave=[], holder=holder)
        say("ready", pid=os.getpid())

    def _make_room(self, enter: list[list[str]], leave: list[list[str]]) -> None:
        """Run what makes room (stops a unit); ``leave`` is run at the end, or by the next run."""
        self._leave = leave
        if self._record is not None:
            self._record.write(leave=leave)
        for argv in enter:
            code, output = run(argv, 300, self._gone_meanwhile)
            say("entered", command=argv, code=code, output=output)
            if code:
                raise RuntimeError(f"{' '.join(argv)} ended with status {code}: {output}")
        say("roomy")

    def _port(self, bind: str, port: int | None) -> None:
        """A free port, or whether this one is, and else who has it."""
        if port is None:
            say("port", port=processes.free_port(bind), free=True)
            return
        holder = processes.listener_on(port)
        ours = holder is not None and self._job is not None and holder in self._job.members()
        command = processes.command_of(holder) if holder else ""
        free = processes.can_listen(bind, port)
        say("port", port=port, free=free, holder=holder, command=command, ours=ours)

    def _launch(self, **spec: Any) -> None:
        self._sent = 0
        self._decoder.reset()
        self._tick_s = LAUNCH_TICK_S
        try:
            self._job = Job(spec)
        except OSError:
            remove(spec["log"])
            raise
        self._note()
        say("started", pid=self._job.pid)

    def _programs(self) -> None:
        """What runs of the launch: command lines and the ports that are listened on."""
        say("programs", found=processes.programs(self._job.members()) if self._job is not None else [])

    def _note(self) -> None:
        """Leave word of what runs. A note that finds no room is told; the server is ours to end all the same."""
        if self._record is not None:
            with _told():
                self._record.write(job=self._job.identity() if self._job else None)

    def _calm(self) -> None:
        """The server is ready: look at its log less often, and leave the processor to the measurement."""
        self._tick_s = TICK_S
        self._forward_log()
        say("calmed")

    def _look(self) -> None:
        if self._job is None:
            return
        before = self._job.pid
        news = self._job.look()
        self._forward_log()
        if self._job.pid != before:
            self._note()
        if news:
            say("exited", **news)
        if self._job.exited:
            reap()

    def _forward_log(self) -> None:
        """Send what the log has grown by: the copy people see is on the suite's side, without secrets."""
        if self._job is None:
            return
        data = b""
        with contextlib.suppress(OSError), open(self._job.spec["log"], "rb") as file:
            file.seek(self._sent)
            data = file.read()
        if data:
            self._sent += len(data)
            say("log", text=self._decoder.decode(data))

    def _end(self, drain_s: float) -> None:
        if self._job is None:
            say("ended", seconds=0.0, how="was not running", stray=[], remaining=[], busy=[])
            return
        ended = self._job.end(drain_s, True, self._gone_meanwhile)
        self._forward_log()
        self._forget_job()
        say("ended", **ended)

    def _forget_job(self) -> None:
        if self._job is not None:
            remove(self._job.spec["log"])
        self._job = None
        reap()
        self._note()

    def _quit(self) -> None:
        self._told_to_quit = True
        self._input_over = True

    def _undo(self) -> None:
        """Undo everything, in whatever way this process came to its end short of SIGKILL.

        Each step is taken whatever became of the one before: a full disk must not leave a server running.
        """
        for lock in self._locks:
            lock.write({**self._hello["holder"], "ending": True})
        with _told():
            if self._job is not None:
                ended = self._job.end(GOODBYE_S, False, self._hurried)
                self._forward_log()
                self._forget_job()
                say("ended", **ended)
        for argv in self._leave:
            with _told():
                code, output = run(argv, 300)
                say("left", command=argv, code=code, output=output)
        if self._record is not None:
            with _told():
                self._record.remove()
        for lock in self._locks:
            lock.drop()
        say("bye")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Whatever fails in the body is told, and the next thing done all the same."""
    try:
        yield
    except Exception as error:
        say("broke", error=f"{type(error).__name__}: {error}")


def _is_quit(line: bytes) -> bool:
    return b'"quit"' in line and json.loads(line).get("do") == "quit"


def end_left_over(record: dict[str, Any]) -> dict[str, Any]:
    """End what a dead run left on this host, and put back what it moved, as its record describes it."""
    job = record.get("job")
    ended: list[str] = []
    remaining: list[str] = []
    commands: list[list[str]] = []
    if job and record.get("boot") == processes.boot_id():
        commands += [*job["end"], *job["kill"]]

        def find() -> set[int]:
            return processes.members(job["token"], job["log"], job["sessions"], job["since"])

        ended, remaining = kill_all(find, -1)
        remove(job["log"])
    commands += record["leave"]
    return {
        "shown": (job or {}).get("shown", ""),
        "ended": ended,
        "remaining": remaining,
        "holder": record.get("holder", {}),
        "commands": [" ".join(argv) for argv in commands if run(argv, 300)[0] == 0],
    }


def main(arguments: Sequence[str] = ()) -> None:
    """Entry point of the text that is sent over."""
    Supervisor().run()
