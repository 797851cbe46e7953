"""Another machine as a host, over SSH."""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
import secrets
import shlex
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import asyncssh

from suite import config
from suite.hosts import ssh_loop
from suite.hosts.base import Completed, Host, Running, in_words
from suite.hosts.errors import CommandFailed, CommandTimeout, ConnectionLost, NoSuchFile
from suite.hosts.ssh_connect import connect
from suite.hosts.tunnel import Tunnel
from suite.redact import is_secret

T = TypeVar("T")
FILE_TIMEOUT_S = 120.0
READ_SIZE = 1 << 20


class SSHHost(Host):
    """One connection for commands and files. Ports are reached through a tunnel in a process of its own."""

    is_local = False

    def __init__(self, host: config.HostTable) -> None:
        """Connect.

        Raises:
            HostError: as :func:`suite.hosts.ssh_connect.connect`.
        """
        self.name = host.name
        self._config = host
        self._tunnels: dict[tuple[str, int], Tunnel] = {}
        self._connection = ssh_loop.call(connect(host), host.connect_timeout_s * 3)
        self._sftp: asyncssh.SFTPClient | None = None

    @property
    def address(self) -> str:  # type: ignore[override]
        """The address this connection leads to."""
        peer: tuple[str, int] | None = self._connection.get_extra_info("peername")
        return peer[0] if peer else str(self._config.ssh)

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float = 60.0,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        input: bytes | str | None = None,  # noqa: A002
    ) -> Completed:
        data = input.encode() if isinstance(input, str) else input
        plain, told = _told_on_input(env)
        words = [*_READ_VARIABLES, *argv] if told else argv
        data = told + (data or b"") if told else data
        command = command_line([*_limited(timeout_s), *words], plain, cwd)

        async def work() -> Completed:
            process = await self._connection.create_process(
                command, encoding=None, stdin=asyncssh.PIPE if data is not None else asyncssh.DEVNULL
            )
            try:
                async with asyncio.timeout(timeout_s):
                    out, err = await process.communicate(data)
            except TimeoutError:
                raise CommandTimeout(
                    f"{argv[0]} did not end in time ({timeout_s:g} s) on {self.name}"
                ) from None
            finally:
                if process.returncode is None:
                    _end(process)
            if process.returncode is None:
                raise ConnectionLost(f"{self.name}: the connection broke while {argv[0]} ran")
            return Completed(tuple(argv), process.returncode, _text(out), _text(err))

        return self._call(work(), timeout_s + 30.0)

    def start(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Running:
        plain, told = _told_on_input(env)
        command = command_line([*_READ_VARIABLES, *argv] if told else argv, plain, cwd)

        async def work() -> asyncssh.SSHClientProcess[bytes]:
            process = await self._connection.create_process(command, encoding=None, stderr=asyncssh.STDOUT)
            if told:
                process.stdin.write(told)
            return process

        return _SSHRunning(self._call(work(), 60.0), self)

    def read_bytes(self, path: str, offset: int = 0, size: int | None = None) -> bytes:
        async def work(sftp: asyncssh.SFTPClient) -> bytes:
            async with sftp.open(path, "rb") as file:
                return b"".join([part async for part in _parts(file, offset, size)])

        return self._on_files(path, work)

    def write_bytes(self, path: str, data: bytes) -> None:
        part = f"{path}.part-{secrets.token_hex(4)}"

        async def work(sftp: asyncssh.SFTPClient) -> None:
            try:
                async with sftp.open(part, "wb") as file:
                    await file.write(data)
                await sftp.posix_rename(part, path)
            except BaseException:
                with contextlib.suppress(asyncssh.SFTPError):
                    await sftp.remove(part)
                raise

        self._on_files(path, work)

    def size(self, path: str) -> int | None:
        async def work(sftp: asyncssh.SFTPClient) -> int | None:
            try:
                return (await sftp.stat(path)).size
            except (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath, asyncssh.SFTPPermissionDenied):
                return None

        return self._on_files(path, work)

    def list_dir(self, path: str) -> list[str]:
        async def work(sftp: asyncssh.SFTPClient) -> list[str]:
            return sorted(str(name) for name in await sftp.listdir(path) if name not in (".", ".."))

        return self._on_files(path, work)

    def _on_files(self, path: str, work: Callable[[asyncssh.SFTPClient], Coroutine[Any, Any, T]]) -> T:
        async def opened() -> T:
            if self._sftp is None:
                self._sftp = await self._connection.start_sftp_client()
            return await work(self._sftp)

        try:
            return self._call(opened(), FILE_TIMEOUT_S)
        except asyncssh.SFTPError as error:
            raise NoSuchFile(f"{path} on {self.name}: {error.reason}") from None

    def forward(self, port: int, address: str = "127.0.0.1") -> int:
        key = (address, port)
        if key not in self._tunnels or not self._tunnels[key].alive:
            self._tunnels[key] = Tunnel(self._config, address, port)
        return self._tunnels[key].port

    def close(self) -> None:
        for tunnel in self._tunnels.values():
            tunnel.close()
        self._tunnels.clear()

        async def work() -> None:
            self._connection.close()
            await self._connection.wait_closed()

        with contextlib.suppress(TimeoutError, asyncssh.Error, OSError):
            ssh_loop.call(work(), 10.0)

    def _call(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        try:
            return ssh_loop.call(work, timeout_s)
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            raise ConnectionLost(f"{self.name}: the connection broke: {error.reason}") from None
        except asyncssh.SFTPError:
            raise
        except (asyncssh.Error, OSError) as error:  # TimeoutError is an OSError
            reason = str(error) or f"no answer for {timeout_s:g} s"
            raise ConnectionLost(f"{self.name}: the connection broke: {reason}") from None


class _SSHRunning(Running):
    def __init__(self, process: asyncssh.SSHClientProcess[bytes], host: SSHHost) -> None:
        super().__init__()
        self._process = process
        self._host = host
        host._call(self._begin(), 10.0)

    async def _begin(self) -> None:
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        pending = b""
        try:
            while data := await self._process.stdout.read(65536):
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    self._lines.put(line)
        except (asyncssh.Error, OSError):
            pass  # a broken connection ends the output; whoever waits for a line learns it so
        finally:
            self._lines.put(None)

    def send(self, data: bytes) -> None:
        async def work() -> None:
            self._process.stdin.write(data)
            await self._process.stdin.drain()

        self._host._call(work(), 60.0)

    def ended(self) -> str | None:
        async def work() -> None:  # its status comes a moment after the end of its output
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._process.wait_closed()

        with contextlib.suppress(ConnectionLost):
            self._host._call(work(), 10.0)
        if self._process.exit_signal:
            return f"was killed by SIG{self._process.exit_signal[0]}"
        code = self._process.exit_status
        return None if code is None or code < 0 else in_words(code)

    def close_input(self, last: bytes = b"") -> None:
        ssh_loop.soon(lambda: self._write_eof(last))

    def _write_eof(self, last: bytes = b"") -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            if last:
                self._process.stdin.write(last)
            self._process.stdin.write_eof()

    def close(self, timeout_s: float) -> None:
        async def work() -> None:
            self._write_eof()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._process.wait_closed()
            except TimeoutError:
                _end(self._process)

        with contextlib.suppress(ConnectionLost):
            self._host._call(work(), timeout_s + 10.0)


async def _parts(file: Any, offset: int, size: int | None) -> AsyncIterator[bytes]:
    """In pieces until the end: files of /proc say that they are empty, and are not."""
    left = math.inf if size is None else size
    while left > 0:
        part: bytes = await file.read(min(left, READ_SIZE), offset)
        if not part:
            return
        yield part
        offset += len(part)
        left -= len(part)


def command_line(argv: Sequence[str], env: Mapping[str, str] | None, cwd: str | None) -> str:
    """``argv`` for the shell that every SSH server puts commands through, each argument quoted as data.

    Raises:
        CommandFailed: an argument or variable that no command line can hold (a NUL, ``=`` in a name).
    """
    variables = [f"{name}={value}" for name, value in (env or {}).items()]
    if any("\0" in word for word in [*argv, *variables, cwd or ""]) or any("=" in name for name in env or {}):
        raise CommandFailed(f"{argv[0]!r}: an argument holds a NUL, or a variable's name an equals sign")
    words = shlex.join(["env", *variables, *argv] if variables else argv)
    return f"cd {shlex.quote(cwd)} && exec {words}" if cwd else f"exec {words}"


_READ_VARIABLES = (
    "sh",
    "-c",
    'while IFS= read -r v && [ -n "$v" ]; do v="$(printf %bx "$v")"; export "${v%x}"; done; exec "$@"',
    "sh",
)
"""Takes variables from its input, a line each up to an empty one, and leaves the rest of it to the command."""


def _told_on_input(env: Mapping[str, str] | None) -> tuple[dict[str, str], bytes]:
    """Variables that may stand on a command line, and the secret ones as ``_READ_VARIABLES`` wants them.

    Anybody on a host may read the command lines of its processes.
    """
    variables = env or {}
    hidden = {
        name: value
        for name, value in variables.items()
        if is_secret(name) and re.fullmatch(r"[A-Za-z_]\w*", name) and "\0" not in value
    }
    lines = [f"{name}={value}".replace("\\", "\\\\").replace("\n", "\\n") for name, value in hidden.items()]
    told = ("\n".join([*lines, ""]) + "\n").encode() if lines else b""
    return {name: value for name, value in variables.items() if name not in hidden}, told


def _limited(timeout_s: float) -> list[str]:
    """What ends a command on the host itself: not every sshd passes on a signal (not for root's logins)."""
    limit = f"timeout -s KILL {math.ceil(timeout_s) + 1}"
    return ["sh", "-c", f'command -v timeout > /dev/null && exec {limit} "$@"; exec "$@"', "sh"]


def _end(process: asyncssh.SSHClientProcess[bytes]) -> None:
    with contextlib.suppress(OSError, asyncssh.Error):
        process.kill()
    process.close()


def _text(data: Any) -> str:
    return bytes(data or b"").decode("utf-8", "replace")
