"""What /proc says: who belongs to a launch, who listens on a port, who uses a GPU."""

from __future__ import annotations

import os
import random
import re
import socket
import subprocess
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from suite.redact import scrub

MARKER = "SGLANG_PERF_GATE_LAUNCH"
"""Variable that names the launch in the environment of every process of it."""


class Stat(NamedTuple):
    """The part of ``/proc/PID/stat`` that tells families apart; ``start`` is in clock ticks since boot."""

    state: str
    parent: int
    session: int
    start: int


def stat_of(pid: int) -> Stat | None:
    """``None`` when there is no such process (any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return Stat(fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def is_same(pid: int, start: int) -> bool:
    """Is ``pid`` still the process that started at ``start``, and not a later one with its number?"""
    stat = stat_of(pid)
    return stat is not None and stat.start == start and stat.state != "Z"


def boot_id() -> str:
    """Changes at every boot, so that a record from before it is known to be stale."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def table() -> dict[int, Stat]:
    """Every process there is."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            stat = stat_of(int(name))
            if stat is not None:
                found[int(name)] = stat
    return found


def descendants(root: int, processes: dict[int, Stat]) -> set[int]:
    """Children of ``root`` and theirs, without ``root``."""
    found: set[int] = set()
    edge = {root}
    while edge:
        edge = {pid for pid, stat in processes.items() if stat.parent in edge} - found
        found |= edge
    return found


def members(
    token: str, log: str, sessions: Sequence[int], since: int, supervisor: int | None = None
) -> set[int]:
    """Every living process of a launch, wherever it was adopted to.

    ``sessions`` are those of the processes first started, ``since`` when (in ticks, against reused numbers).
    One sign is not enough: SGLang's schedulers overwrite their environment with a title, others start a
    session of their own, and the parent is lost when it dies. So: descendants of the supervisor, the session of
    the server, the marker, or the log as its output.
    """
    processes = table()
    mine = os.getpid()
    found = descendants(supervisor, processes) if supervisor else set()
    for pid, stat in processes.items():
        if pid in found or stat.start < since:
            continue
        if stat.session in sessions or _marked(pid, token) or _writes_to(pid, log):
            found.add(pid)
    return {pid for pid in found if pid != mine and pid != supervisor and processes[pid].state != "Z"}


def _marked(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{MARKER}={token}".encode() in file.read().split(b"\0")
    except OSError:
        return False


def _writes_to(pid: int, log: str) -> bool:
    for fd in (1, 2):
        try:
            if os.readlink(f"/proc/{pid}/fd/{fd}") == log:
                return True
        except OSError:
            continue
    return False


def command_of(pid: int) -> str:
    """The command line of ``pid`` for people, secrets masked, or its short name, or ``""``.

    It may be a server of somebody else, with a key of theirs.
    """
    for path in (f"/proc/{pid}/cmdline", f"/proc/{pid}/comm"):
        try:
            with open(path, "rb") as file:
                text = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        except OSError:
            continue
        if text:
            return scrub(text)
    return ""


def can_listen(bind: str, port: int) -> bool:
    """Could a server listen there now? Lingering closed connections do not count, as for SGLang itself."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((bind, port))
        except OSError:
            return False
    return True


def free_port(bind: str) -> int:
    """A free port below the kernel's range for outgoing connections, which could take it while weights load."""
    for _ in range(200):
        port = random.randint(20000, 32000)
        if can_listen(bind, port):
            return port
    raise OSError(f"no free port found on {bind} between 20000 and 32000")


def listener_on(port: int) -> int | None:
    """The process that listens on TCP ``port``; ``None`` when nobody does or it may not be seen."""
    wanted = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    if not wanted:
        return None
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            for fd in os.listdir(f"/proc/{name}/fd"):
                if os.readlink(f"/proc/{name}/fd/{fd}") in wanted:
                    return int(name)
        except OSError:
            continue
    return None


def _listening_inodes(port: int) -> Iterable[str]:
    return (inode for inode, listened in _listened().items() if listened == port)


def _listened() -> dict[str, int]:
    """The port of every socket that listens, by inode."""
    found: dict[str, int] = {}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(path) as file:
                lines = file.readlines()[1:]
        except OSError:
            continue
        rows = [line.split() for line in lines]
        found |= {row[9]: int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A"}
    return found


def programs(pids: Iterable[int]) -> list[dict[str, object]]:
    """Command line and listened ports of processes; those of a container's are of another network, and not seen."""
    listened = _listened()
    found: list[dict[str, object]] = []
    for pid in sorted(pids):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().decode("utf-8", "replace").split("\0")
            held = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        except OSError:
            continue
        ports = sorted({port for inode, port in listened.items() if f"socket:[{inode}]" in held})
        found.append({"words": words[:-1], "ports": ports})
    return found


def out_of_memory_kills() -> int:
    """How many processes the kernel has killed for memory since boot (Linux 4.13 and later, else 0)."""
    try:
        with open("/proc/vmstat") as file:
            for line in file:
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
    except OSError:
        pass
    return 0


def uptime_s() -> float:
    """Seconds since boot, as the kernel's log counts them."""
    with open("/proc/uptime") as file:
        return float(file.read().split()[0])


def kernel_lines(since_s: float) -> list[str]:
    """What the kernel said of GPUs (Xid) and of killing for memory since then; empty where it may not be read."""
    try:
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return []
    found = []
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        match = re.match(r"\[ *(\d+\.\d+)\] (.*(?:NVRM: Xid|Killed process).*)", line)
        if match and float(match.group(1)) >= since_s:
            found.append(match.group(2))
    return found


def gpu_users() -> set[int]:
    """Processes that hold memory on an NVIDIA GPU; empty when that cannot be asked."""
    query = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return set()
    return {int(word) for word in done.stdout.decode("utf-8", "replace").split() if word.isdigit()}
