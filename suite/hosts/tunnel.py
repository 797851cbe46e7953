"""A tunnel to a port of an SSH host, in a process of its own: what it costs must not slow the measuring client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import asyncssh

from suite import config
from suite.hosts.errors import HostError, HostUnreachable
from suite.hosts.ssh_connect import connect

_ROOT = Path(__file__).resolve().parents[2]


class Tunnel:
    """Leads from :attr:`port` on this machine's loopback to ``address:port`` as the host sees it."""

    def __init__(self, host: config.Host, address: str, port: int) -> None:
        """Open it.

        Raises:
            HostUnreachable: it could not be opened.
        """
        # ends with its input, so also when this process is killed
        self._process = subprocess.Popen(
            [sys.executable, "-m", "suite.hosts.tunnel"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(_ROOT)},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"host": host.model_dump(), "address": address, "port": port}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or b'{"error": "it ended at once"}')
        if "error" in answer:
            self.close()
            raise HostUnreachable(f"no tunnel to port {port} on {host.name}: {answer['error']}")
        self.port: int = answer["port"]

    @property
    def alive(self) -> bool:
        """Does it still lead there?"""
        return self._process.poll() is None

    def close(self) -> None:
        """Close it; connections through it break."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(10.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


async def _serve(host: config.Host, address: str, port: int) -> None:
    try:
        connection = await connect(host)
        listener = await connection.forward_local_port("127.0.0.1", 0, address, port)
    except (HostError, OSError, asyncssh.Error) as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"port": listener.get_port()}), flush=True)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer
    )
    over = asyncio.create_task(reader.read())
    broken = asyncio.create_task(connection.wait_closed())
    await asyncio.wait([over, broken], return_when=asyncio.FIRST_COMPLETED)
    connection.abort()


def main() -> None:
    """Read the order from the input, answer with the port, and tunnel until the input ends."""
    order = json.loads(os.read(0, 65536))
    asyncio.run(_serve(config.Host(**order["host"]), order["address"], order["port"]))


if __name__ == "__main__":
    main()
