"""Runs a command while this machine can be reached over SSH as the host ``loopback``, with keys made for it.

``python -m tests.hosts.loopback pytest -m perf --target sglang-ssh``, where ``suite.toml`` says

    [hosts.loopback]
    ssh = "loopback"
    config_file = ".sglang-cpu/ssh/config"
"""

from __future__ import annotations

import getpass
import shutil
import subprocess
import sys
from pathlib import Path

from tests.hosts import ssh_servers

DIRECTORY = Path(".sglang-cpu/ssh")


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir(parents=True)
    directory = DIRECTORY.resolve()
    with ssh_servers.openssh(directory) as server:
        (directory / "config").write_text(
            f"Host loopback\n  HostName 127.0.0.1\n  Port {server.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {directory}/client\n  UserKnownHostsFile {directory}/known_hosts\n"
        )
        return subprocess.run(sys.argv[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
