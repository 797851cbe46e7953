"""Runs a command within a time limit, and notes how the CPU of all its processes grows."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SAMPLE_S = 0.1
CHILDREN_S = 0.5
"""How often a command is looked at, and how often for new children: that search costs some milliseconds."""


class GaveUp(Exception):
    """The command did not end in time and was killed."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exit status, what it wrote, its CPU in all, and samples of (time.monotonic(), CPU so far)."""

    status: int
    output: str
    cpu_s: float
    samples: list[tuple[float, float]]


def run(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path, limit_s: float
) -> Ended:
    """Run to the end in `directory`; both streams go to the file `log` and come back as text.

    Raises GaveUp after `limit_s` seconds, with every process of the command killed.
    """
    deadline = time.monotonic() + limit_s
    samples: list[tuple[float, float]] = []
    with log.open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        tree = _Tree(process.pid)
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                samples.append((time.monotonic(), tree.cpu_s()))
                if time.monotonic() > deadline:
                    raise GaveUp(f"gave up after {limit_s:.0f} s")
                time.sleep(SAMPLE_S)
            process.returncode = os.waitstatus_to_exitcode(ended[1])
        finally:
            _kill(process)  # also what an ended command may have left behind
        output.seek(0)
        return Ended(process.returncode, output.read(), ended[2].ru_utime + ended[2].ru_stime, samples)


class _Tree:
    """A process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._all: list[psutil.Process] = []
        self._searched_s = float("-inf")

    def cpu_s(self) -> float:
        """CPU so far of those that live, and of their children that were waited for."""
        if time.monotonic() - self._searched_s >= CHILDREN_S:
            self._searched_s = time.monotonic()
            with suppress(psutil.NoSuchProcess):
                self._all = [self._root, *self._root.children(recursive=True)]
        total = 0.0
        for process in self._all:
            with suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])  # user and system, its own and its ended children's
        return total


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End every process of the command: its group, and, while it lives, descendants that left the group."""
    strays: list[psutil.Process] = []
    if process.returncode is None:
        with suppress(psutil.NoSuchProcess):
            strays = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for stray in strays:
        with suppress(psutil.NoSuchProcess):
            stray.kill()
    if process.returncode is None:
        process.wait()
