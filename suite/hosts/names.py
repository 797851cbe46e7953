"""What this machine is called."""

from __future__ import annotations

import os
import socket

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names of whatever machine one is on."""


def here() -> str:
    """The name of this machine: as its cluster knows it, inside a job, else its own."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
