"""Slurm's own commands, as far as a job array needs them: submit it, see how its tasks fare, cancel it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.foreign import one_line

TIMEOUT_S = 60.0
ALIVE = frozenset(
    [
        "PENDING",
        "CONFIGURING",
        "RUNNING",
        "COMPLETING",
        "SUSPENDED",
        "STOPPED",
        "SIGNALING",
        "STAGE_OUT",
        "RESIZING",
        "REQUEUED",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESV_DEL_HOLD",
    ]
)
"""States of a task that runs or will run; every other is the end of it."""
_LINE = re.compile(r"(?P<job>\d+)_(?P<task>\d+)\|(?P<state>[A-Z_]+)[^|]*\|(?P<node>[^|]*)\|(?P<reason>.*)")


class SlurmError(Exception):
    """Slurm's command is not there, or refused what was asked; the text says which and what it said."""


class NoAnswer(SlurmError):
    """Slurm's controller does not answer; its jobs may go on all the same."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task of an array as Slurm tells it. node: where it runs or ran; reason: why it waits."""

    job: int
    number: int
    state: str
    node: str = ""
    reason: str = ""

    @property
    def alive(self) -> bool:
        """Does it run, or will it?"""
        return self.state in ALIVE

    def __str__(self) -> str:
        state = self.state.lower().replace("_", " ")
        if self.state == "PENDING" and self.reason not in ("", "None"):
            return f"{state} ({self.reason})"
        return f"{state} on {self.node}" if self.node else state


def submit(script: Path, numbers: Iterable[int], at_once: int, more: Sequence[str] = ()) -> int:
    """Submit tasks of a script's array, at most so many at once; the job's number.

    Raises:
        SlurmError: it was not taken, and why.
    """
    array = f"{','.join(map(str, sorted(numbers)))}%{at_once}"
    said = _run(["sbatch", "--parsable", f"--array={array}", *more, str(script)])
    number = said.strip().partition(";")[0]  # a federation adds its cluster's name
    if not number.isdecimal():
        raise SlurmError(f"sbatch did not tell the job's number: {one_line(said, 200)}")
    return int(number)


def tasks(jobs: Sequence[int]) -> dict[tuple[int, int], Task]:
    """How the tasks of these jobs fare, by job and number; those that Slurm has forgotten are left out.

    Raises:
        NoAnswer: the controller does not answer.
        SlurmError: the command is not there.
    """
    if not jobs:
        return {}
    listed = ",".join(map(str, jobs))
    asked = ["squeue", "--noheader", "--array", "--states=all", f"--jobs={listed}", "--format=%i|%T|%N|%r"]
    try:
        said = _run(asked)
    except SlurmError as error:
        if "Invalid job id" in str(error):
            return {}
        raise
    found = [match for line in said.splitlines() if (match := _LINE.fullmatch(line.strip()))]
    told = [Task(int(m["job"]), int(m["task"]), m["state"], m["node"], m["reason"]) for m in found]
    return {(task.job, task.number): task for task in told}


def state_of(job: int, number: int) -> str:
    """How a task ended that squeue has forgotten, in accounting's word; empty where there is no accounting."""
    try:
        said = _run(["sacct", "-X", "--noheader", "--parsable2", f"--jobs={job}_{number}", "--format=State"])
    except SlurmError:
        return ""
    lines = said.split()
    return lines[0] if lines else ""


def cancel(jobs: Sequence[int]) -> None:
    """End all tasks of these jobs, running or not; those that are over already are no error.

    Raises:
        SlurmError: it could not be asked.
    """
    if jobs:
        _run(["scancel", "--quiet", *map(str, jobs)])


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise SlurmError(
            f"{command[0]} is not there: run this where jobs are submitted (a login node of the cluster), or "
            "install Slurm's commands (Debian: slurm-client)"
        ) from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]} has not answered for {TIMEOUT_S:g} s") from None
    if done.returncode:
        said = one_line(done.stderr.strip() or done.stdout.strip(), 400)
        lost = "Unable to contact" in said or "Socket timed out" in said or "Connection refused" in said
        raise (NoAnswer if lost else SlurmError)(f"{command[0]}: {said or f'exit status {done.returncode}'}")
    return done.stdout
