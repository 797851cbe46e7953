"""One life of one server on its host: started in a session of its own, watched, and ended with all it spawned."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

from suite.servers.on_host import processes

PR_SET_PDEATHSIG = 1


def prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def never() -> bool:
    return False


def run(argv: Sequence[str], timeout_s: float, gone: Callable[[], bool] = never) -> tuple[int, str]:
    """Run one command to its end: its status and output, or 127 and why there is none.

    It is killed after ``timeout_s``, and as soon as ``gone`` says that nobody waits for it any more.
    """
    try:
        process = subprocess.Popen(
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except (OSError, ValueError) as error:
        return 127, f"{argv[0]}: {error}"
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            out, _ = process.communicate(timeout=0.05 if gone is not never else timeout_s)
            return process.returncode, out.decode("utf-8", "replace").strip()
        except subprocess.TimeoutExpired:
            if time.monotonic() < deadline and not gone():
                continue
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a child of its own may hold the output open
            process.communicate(timeout=1.0)
        return 127, f"{argv[0]}: did not end in {timeout_s:g} s, or nothing waited for it"


class Job:
    """One life of one server.

    ``spec``: ``token``; ``stages`` (command lines run one after the other, each once the one before has
    succeeded; the last is the server, or what follows it); ``status`` (a command that describes the end);
    ``end`` and ``kill`` (commands that end what is not a child of ours: a container, a unit, kindly and at
    once); ``env``, ``cwd``, ``log``, ``port``, ``bind``, ``gpus``, ``shown``.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.exited = False
        self._stages = list(spec["stages"])
        self._sessions: list[int] = []
        self._since = 0
        self._out_of_memory_kills = processes.out_of_memory_kills()
        self._gpu_users = processes.gpu_users() if spec.get("gpus") else set()
        self._uptime_s = processes.uptime_s()
        self._start_next()

    def _start_next(self) -> None:
        # only the owner may read it: SGLang prints its API key into its log
        log = os.open(self.spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._command = self._stages.pop(0)
        try:
            self._popen = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.spec.get("cwd") or None,
                env={**os.environ, **self.spec.get("env", {}), processes.MARKER: self.spec["token"]},
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        finally:
            os.close(log)
        stat = processes.stat_of(self._popen.pid)
        self._since = self._since or (stat.start if stat else 0)
        self._sessions.append(self._popen.pid)

    @property
    def pid(self) -> int:
        return self._popen.pid

    def identity(self) -> dict[str, Any]:
        """What the next run needs to find this launch, should nobody end it."""
        keys = ("token", "log", "end", "kill", "shown")
        known = {key: self.spec.get(key) for key in keys}
        return {**known, "sessions": self._sessions, "since": self._since}

    def look(self) -> dict[str, Any] | None:
        """The news of the server's exit, once."""
        if self.exited or self._popen.poll() is None:
            return None
        unstarted = ""
        if self._popen.returncode == 0 and self._stages:
            try:
                self._start_next()
                return None
            except OSError as error:
                unstarted = f"{self._command[0]}: {error}"
        self.exited = True
        status = run(self.spec["status"], 20)[1] if self.spec.get("status") else ""
        return {
            "code": 127 if unstarted else self._popen.returncode,
            "status": unstarted or status,
            "out_of_memory_kills": processes.out_of_memory_kills() - self._out_of_memory_kills,
            "kernel": processes.kernel_lines(self._uptime_s),
            "command": self._command if self._stages else None,
        }

    def end(self, drain_s: float, kindly: bool, gone: Callable[[], bool]) -> dict[str, Any]:
        """Ask, wait, kill what is left, and wait until port and GPU memory are free."""
        start = time.monotonic()
        ran = self._popen.poll() is None
        everyone = self.members()
        if self.spec.get("kill") and self.spec.get(
            "gpus"
        ):  # whose processes are not the supervisor's to know
            everyone |= processes.gpu_users() - self._gpu_users
        self._ask(drain_s, kindly, gone)
        while self._popen.poll() is None and time.monotonic() - start < drain_s and not gone():
            time.sleep(0.02)
        how = "SIGTERM" if ran else "had exited already"
        if self._popen.poll() is None:
            how = f"SIGKILL after {time.monotonic() - start:.0f} s"
        everyone |= self.members()
        for argv in self.spec.get("kill", []):
            run(argv, 60)
        stray, remaining = kill_all(self.members, self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(5)
        return {
            "seconds": time.monotonic() - start,
            "how": how,
            "stray": stray,
            "remaining": remaining,
            "busy": self._wait_until_free(everyone, gone),
        }

    def _ask(self, drain_s: float, kindly: bool, gone: Callable[[], bool]) -> None:
        if self.spec.get("kill"):
            for argv in self.spec["end"] if kindly else self.spec["kill"]:
                run(argv, drain_s + 60, gone if kindly else never)
        elif self._popen.poll() is None:
            os.kill(self.pid, signal.SIGTERM)

    def members(self) -> set[int]:
        """Every living process of this launch."""
        return processes.members(
            self.spec["token"], self.spec["log"], self._sessions, self._since, os.getpid()
        )

    def _wait_until_free(
        self, everyone: set[int], gone: Callable[[], bool], limit_s: float = 30.0
    ) -> list[str]:
        """Name what is still taken after ``limit_s``, or when nobody waits any more."""
        deadline = time.monotonic() + limit_s
        while True:
            busy = []
            port = self.spec.get("port")
            if port and not processes.can_listen(self.spec.get("bind", "127.0.0.1"), port):
                busy.append(f"port {port}")
            if self.spec.get("gpus") and (processes.gpu_users() - self._gpu_users) & everyone:
                busy.append("GPU memory")
            if not busy or time.monotonic() > deadline or gone():
                return busy
            time.sleep(0.1)


def _die_with_parent() -> None:
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


def reap() -> None:
    """Collect the adopted children that died, but not the server: its exit code is Popen's to collect."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def kill_all(find: Callable[[], set[int]], first: int) -> tuple[list[str], list[str]]:
    """SIGKILL until nobody is found. Returns those that were not the server itself, and those that remain."""
    stray: dict[int, str] = {}
    deadline = time.monotonic() + 15
    while True:
        found = find()
        if not found or time.monotonic() > deadline:
            return [stray[pid] for pid in stray], [processes.command_of(pid) for pid in found]
        for pid in found:
            if pid != first:
                stray.setdefault(pid, processes.command_of(pid)[:200] or str(pid))
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
