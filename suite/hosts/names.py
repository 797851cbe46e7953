"""What this machine is called."""

from __future__ import annotations

import os
import socket


def here() -> str:
    """The name of this machine: as its cluster knows it, inside a job, else its own."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()
