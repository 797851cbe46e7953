"""Boots the real systemd in namespaces of its own, for tests that may not take a stand-in's word for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

_INIT = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
umount -R /sys/fs/cgroup || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup
exec env -i container=test PATH="$PATH" SYSTEMD_UNIT_PATH="$1" "$2" --system --unit=tests.target --show-status=no
"""
_BARE = "[Unit]\nDefaultDependencies=no\n"
_UNITS = {
    "tests.target": _BARE + "Wants=dbus.service\n",
    "sysinit.target": _BARE,
    "basic.target": _BARE,
    "shutdown.target": _BARE,
    "dbus.socket": _BARE + "[Socket]\nListenStream=/run/dbus/system_bus_socket\n",
    "dbus.service": _BARE
    + "Requires=dbus.socket\n[Service]\nType=notify\nExecStart=/usr/bin/dbus-daemon --system --address=systemd: "
    "--nofork --nopidfile --systemd-activation --syslog-only\n",
}


class Booted:
    """A running systemd; ``units`` is the directory it reads units from."""

    def __init__(self, units: Path, init: int) -> None:
        self.units = units
        self._init = init

    def run(self, argv: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside it, as a person logged in there would."""
        enter = ["nsenter", "-t", str(self._init), "-p", "-m", "-C"]
        return subprocess.run(
            [*enter, *argv],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@contextlib.contextmanager
def systemd(directory: Path) -> Iterator[Booted]:
    """Boot it; skips the test, saying why, where that cannot be done."""
    program = next(
        (p for p in ("/lib/systemd/systemd", "/usr/lib/systemd/systemd") if os.access(p, os.X_OK)), None
    )
    wanted = ("unshare", "nsenter", "systemd-run", "/usr/bin/dbus-daemon")
    missing = [name for name in wanted if shutil.which(name) is None]
    if program is None or missing or os.getuid() != 0:
        pytest.skip(f"real systemd needs root and {', '.join(missing) or 'systemd'}")
    for name, text in _UNITS.items():
        (directory / name).write_text(text)
    command = [
        "unshare",
        "-p",
        "-m",
        "-f",
        "-C",
        "--mount-proc",
        "sh",
        "-c",
        _INIT,
        "sh",
        str(directory),
        program,
    ]
    with (directory / "boot.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield Booted(directory, _init_of(process, directory))
    finally:
        for child in psutil.Process(process.pid).children() if process.poll() is None else []:
            child.kill()  # the first process of its namespace: the kernel kills all the others
        process.wait(20)


def _init_of(process: subprocess.Popen[bytes], directory: Path) -> int:
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        for child in psutil.Process(process.pid).children():
            booted = Booted(directory, child.pid)
            if booted.run(["systemctl", "is-active", "dbus.service"]).stdout.strip() == "active":
                return child.pid
        time.sleep(0.2)
    pytest.skip(f"systemd did not boot in a namespace here: {(directory / 'boot.log').read_text()[-500:]}")
