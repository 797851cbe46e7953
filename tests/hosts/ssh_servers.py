"""SSH servers on loopback for tests: OpenSSH's own sshd, and asyncssh's, each with keys made for the occasion."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import getpass
import os
import shutil
import socket
import subprocess
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest

from suite import config


@dataclass(frozen=True)
class SSHServer:
    """A running server and how to reach it."""

    directory: Path
    port: int
    pid: int | None

    def host(self, **changes: str) -> config.HostTable:
        """As a ``[hosts.NAME]`` table would say it: the key is known, and one of ours is accepted."""
        keys: dict[str, str] = {
            "name": "loopback",
            "ssh": f"{getpass.getuser()}@127.0.0.1:{self.port}",
            "known_hosts": str(self.directory / "known_hosts"),
            "identity_file": str(self.directory / "client"),
            "config_file": os.devnull,
        }
        return config.HostTable(**{**keys, **changes})  # type: ignore[arg-type]


def make_keys(directory: Path, port: int) -> None:
    """A host key, a client key, and the files in which each side knows the other's."""
    for name in ("host", "client", "stranger"):
        key = asyncssh.generate_private_key("ssh-ed25519")
        key.write_private_key(directory / name)
        key.write_public_key(directory / f"{name}.pub")
        (directory / name).chmod(0o600)
    host_key = (directory / "host.pub").read_text()
    (directory / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}")
    shutil.copy(directory / "client.pub", directory / "authorized_keys")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def openssh(directory: Path) -> Iterator[SSHServer]:
    """OpenSSH's sshd, as the person who runs the tests."""
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if sshd is None:
        pytest.skip("no OpenSSH sshd here (apt-get install openssh-server)")
    if os.getuid() == 0:
        os.makedirs("/run/sshd", exist_ok=True)  # sshd wants it; a service's start-up would make it
    port = free_port()
    make_keys(directory, port)
    (directory / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {directory}/host\nPidFile none\n"
        f"AuthorizedKeysFile {directory}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
        "KbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
        # bash reads the account's .bashrc for a command over SSH, unless it is not the first shell
        "SetEnv SHLVL=5\n"
    )
    with (directory / "sshd.log").open("wb") as log:
        process = subprocess.Popen([sshd, "-D", "-e", "-f", str(directory / "sshd_config")], stderr=log)
    try:
        _await_port(port, process, directory / "sshd.log")
        yield SSHServer(directory, port, process.pid)
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"sshd does not listen: {log.read_text()}")


class _Forwards(asyncssh.SSHServer):
    """Lets a client reach any port, as sshd does by default."""

    def connection_requested(self, host: str, port: int, from_host: str, from_port: int) -> bool:
        return True


async def _closed(acceptor: asyncssh.SSHAcceptor) -> None:
    acceptor.close()
    await acceptor.wait_closed()


@contextlib.contextmanager
def pure_python(directory: Path) -> Iterator[SSHServer]:
    """asyncssh's server, in a thread: commands go through /bin/sh as sshd would put them."""
    port = free_port()
    make_keys(directory, port)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def handle(process: asyncssh.SSHServerProcess[bytes]) -> None:
        command = ["/bin/sh", "-c", process.command or "true"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        child = subprocess.Popen(command, start_new_session=True, **pipes)
        await process.redirect(child.stdin, child.stdout, child.stderr)
        code = await asyncio.get_running_loop().run_in_executor(None, child.wait)
        await process.stdout.drain()  # until its output is sent, as sshd does
        await process.stderr.drain()
        process.exit(code if code >= 0 else 128 - code)

    async def serve() -> asyncssh.SSHAcceptor:
        return await asyncssh.listen(
            "127.0.0.1",
            port,
            server_host_keys=[str(directory / "host")],
            authorized_client_keys=str(directory / "authorized_keys"),
            server_factory=_Forwards,
            process_factory=handle,
            sftp_factory=True,
            encoding=None,
        )

    acceptor = asyncio.run_coroutine_threadsafe(serve(), loop).result(20)
    try:
        yield SSHServer(directory, port, None)
    finally:
        asyncio.run_coroutine_threadsafe(_closed(acceptor), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        with warnings.catch_warnings():  # see test_hosts.py; not to be found in somebody else's test
            warnings.simplefilter("ignore", RuntimeWarning)
            gc.collect()
