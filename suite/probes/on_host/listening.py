"""Who listens on a port of this host: the process, the interpreter that it runs, and its variables. Linux's /proc.

Argument: the port. Prints JSON, ``{}`` where it cannot be seen (another user's process, another system).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

from suite.probes.on_host import installed
from suite.redact import MASK, is_secret, scrub

_LISTEN = "0A"
_LOADING = re.compile(r"HF_|TRANSFORMERS_|HUGGINGFACE_|MODELSCOPE_")
"""Variables that say where a model's files come from."""


def sockets(port: int) -> set[str]:
    """The inodes of the sockets that listen on a port."""
    found: set[str] = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        found |= {row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}
    return found


def owner(inodes: set[str]) -> int | None:
    """The process that holds one of these sockets; of several the one that was there first."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    return min(
        (int(pid) for pid in os.listdir("/proc") if pid.isdigit() and wanted & _held(pid)), default=None
    )


def _held(pid: str) -> set[str]:
    try:
        return {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return set()


def look(port: int) -> dict[str, Any]:
    """Process, interpreter, directory and telling variables of whoever listens; empty where that cannot be seen."""
    pid = owner(sockets(port))
    if pid is None:
        return {}
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            argv = [word.decode("utf-8", "replace") for word in file.read().split(b"\0") if word]
        with open(f"/proc/{pid}/environ", "rb") as file:
            pairs = [
                pair.decode("utf-8", "replace").partition("=") for pair in file.read().split(b"\0") if pair
            ]
        cwd, exe = os.readlink(f"/proc/{pid}/cwd"), os.readlink(f"/proc/{pid}/exe")
        inside = os.readlink(f"/proc/{pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    except OSError:
        return {"pid": pid}
    variables = {name: value for name, _, value in pairs}
    return {
        "pid": pid,
        "container": inside,
        "interpreter": interpreter(argv, exe, cwd, variables),
        "cwd": cwd,
        "environment": installed.telling(variables),
        "loading": {
            name: MASK if is_secret(name) else scrub(value)
            for name, value in sorted(variables.items())
            if _LOADING.match(name)
        },
        "command": argv,
        "cgroup": cgroup(pid),
    }


def cgroup(pid: int) -> str:
    """Where the process stands in the tree of control groups: the unit or the container that it belongs to."""
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
            rows = [line.rstrip("\n").split(":", 2)[-1] for line in file]
    except OSError:
        return ""
    return max(rows, key=len, default="")


def interpreter(argv: Sequence[str], exe: str, cwd: str, variables: dict[str, str]) -> str:
    """The Python as it was called, so that its environment's packages are found: ``exe`` alone is the one beneath."""
    called = argv[0] if argv else ""
    if re.search(r"(^|/)python[0-9.]*$", called):
        found = (
            os.path.join(cwd, called) if "/" in called else shutil.which(called, path=variables.get("PATH"))
        )
        if found and os.access(found, os.X_OK):
            return found
    own = os.path.join(variables.get("VIRTUAL_ENV", ""), "bin", "python")
    return own if "VIRTUAL_ENV" in variables and os.access(own, os.X_OK) else exe


def main(arguments: Sequence[str]) -> None:
    """Print what was found."""
    print(json.dumps(look(int(arguments[0]))))
