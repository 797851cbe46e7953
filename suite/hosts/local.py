"""This machine as a host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from suite.hosts.base import Completed, Host, Running, in_words
from suite.hosts.errors import CommandFailed, CommandTimeout, ConnectionLost, NoSuchFile

_RUNNING: set[subprocess.Popen[bytes]] = set()
"""Commands that somebody waits for."""


def kill_running() -> None:
    """Kill every command that is waited for, with all it started. For a signal's handler: waits for nothing."""
    for process in list(_RUNNING):
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


class LocalHost(Host):
    """Commands are started directly; files are the machine's own; a forwarded port is the port itself."""

    is_local = True
    address = "127.0.0.1"

    def __init__(self, name: str = "local") -> None:
        self.name = name

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: bytes | str | None = None,  # noqa: A002
    ) -> Completed:
        try:
            process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            return Completed(tuple(argv), 127, "", f"{argv[0]}: {error.strerror or error}")
        data = input.encode() if isinstance(input, str) else input
        _RUNNING.add(process)
        try:
            out, err = process.communicate(data, timeout_s)
        except BaseException as error:
            _kill_group(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise CommandTimeout(f"{argv[0]} did not end in time ({timeout_s:g} s) on {self.name}") from None
        finally:
            _RUNNING.discard(process)
        return Completed(tuple(argv), process.returncode, _text(out), _text(err))

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Running:
        try:
            return _LocalRunning(argv, env or {}, cwd)
        except OSError as error:
            raise CommandFailed(f"{argv[0]}: {error.strerror or error} (on {self.name})") from None

    def read_bytes(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        try:
            with open(path, "rb") as file:
                if offset:
                    file.seek(offset)
                return file.read(-1 if size is None else size)
        except (OSError, ValueError) as error:
            raise _no_such_file(path, error, self.name) from None

    def write_bytes(self, path: str, data: bytes) -> None:
        target = Path(path)
        try:
            fd, part = tempfile.mkstemp(dir=target.parent, prefix=".part-")
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                os.replace(part, target)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(part)
                raise
        except (OSError, ValueError) as error:
            raise _no_such_file(path, error, self.name) from None

    def size(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size
        except (OSError, ValueError):
            return None

    def list_dir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (OSError, ValueError) as error:
            raise _no_such_file(path, error, self.name) from None

    def forward(self, port: int, address: str = "127.0.0.1") -> int:
        return port

    def close(self) -> None:
        return


class _LocalRunning(Running):
    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: str | None) -> None:
        # a session of its own: a Ctrl-C in the terminal is for the suite alone, which then ends this
        super().__init__()
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env},
            cwd=cwd,
            start_new_session=True,
            bufsize=0,
        )
        self._reader = threading.Thread(target=self._read, name=f"reader of {argv[0]}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        pending = b""
        with contextlib.suppress(OSError, ValueError):  # closed by us meanwhile: as good as its end
            while data := self._process.stdout.read(65536):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._lines.put(line)
        self._lines.put(None)

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        try:
            while view:
                view = view[self._process.stdin.write(view) :]
        except (OSError, ValueError):
            raise ConnectionLost(f"{self._process.args[0]!r} is gone") from None  # type: ignore[index]

    def ended(self) -> str | None:
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output may have ended a moment before it
            return in_words(self._process.wait(1.0))
        return None

    def close_input(self, last: bytes = b"") -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            if last:
                self._process.stdin.write(last)
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def close(self, timeout_s: float) -> None:
        assert self._process.stdout is not None
        self.close_input()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _kill_group(self._process)
        self._reader.join(1.0)
        self._process.stdout.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _no_such_file(path: str, error: Exception, host: str) -> NoSuchFile:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return NoSuchFile(f"{path} on {host}: {reason}")
