"""A tunnel to a port of an SSH host, in a process of its own: what it costs must not slow the measuring client."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from suite import config
from suite.hosts.errors import HostUnreachable

_ROOT = Path(__file__).resolve().parents[2]


class Tunnel:
    """Leads from :attr:`port` on this machine's loopback to ``address:port`` as the host sees it."""

    def __init__(self, host: config.HostTable, address: str, port: int) -> None:
        """Open it.

        Raises:
            HostUnreachable: it could not be opened.
        """
        # ends with its input, so also when this process is killed
        self._process = subprocess.Popen(
            [sys.executable, "-m", "suite.hosts.tunnel_process"],
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
