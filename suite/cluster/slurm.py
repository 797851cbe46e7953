"""Slurm's own commands, as far as a job array needs them: submit it, see how its tasks fare, cancel it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.foreign import one_line

TIMEOUT_S = 60.0
ALIVE = frozenset([
    "PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
    "RESIZING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD",
])  # fmt: skip
"""States of a task that runs or will run; every other is the end of it."""
REASONS: Mapping[str, str] = {
    "Resources": "no node is free",
    "Priority": "others come first",
    "JobArrayTaskLimit": "another shard comes first",
    "BeginTime": "Slurm starts it later",
    "PartitionTimeLimit": "it asks for more time than its partition allows: another --sbatch=--partition=..., or more --shards",
    "PartitionDown": "its partition is down",
    "PartitionInactive": "its partition takes no jobs",
    "ReqNodeNotAvail": "nodes that it needs are down or reserved",
    "JobHeldUser": "it is held: scontrol release",
    "JobHeldAdmin": "an administrator holds it",
    "launch failed requeued held": "Slurm could not start it and holds it: scontrol release",
}
"""Why a task waits, in plain words, by the first word of Slurm's own."""
ENDS: Mapping[str, str] = {
    "TIMEOUT": "ended by its time limit",
    "NODE_FAIL": "lost with its node",
    "OUT_OF_MEMORY": "ended for want of memory",
    "PREEMPTED": "pre-empted",
}
"""How a task ended, in plain words, where Slurm's are none."""
_LINE = re.compile(r"(?P<job>\d+)_(?P<task>\d+)\|(?P<state>[A-Z_]+)[^|]*\|(?P<node>[^|]*)\|(?P<reason>.*)")


class SlurmError(Exception):
    """Slurm's command is not there, or refused what was asked; the text says which and what it said."""


class NoAnswer(SlurmError):
    """Slurm's controller does not answer; its jobs may go on all the same."""


@dataclass(frozen=True, slots=True)
class ArrayTask:
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
        state = in_words(self.state)
        if self.state == "PENDING" and self.reason not in ("", "None"):
            plain = next((told for word, told in REASONS.items() if self.reason.startswith(word)), "")
            return f"{state}: {plain} ({self.reason})" if plain else f"{state}: {self.reason}"
        return f"{state} on {self.node}" if self.node else state


def in_words(state: str) -> str:
    """A task's state as people say it."""
    return ENDS.get(state) or state.lower().replace("_", " ")


def submit(script: Path, numbers: Iterable[int], at_once: int, more: Sequence[str] = ()) -> int:
    """Submit tasks of a script's array, at most so many at once; the job's number.

    Raises:
        SlurmError: it was not taken, and why.
    """
    array = f"{','.join(map(str, sorted(numbers)))}%{at_once}"
    said = _run(["sbatch", "--parsable", f"--array={array}", *more, str(script)])
    number = said.strip().partition(";")[0]  # a federation adds its cluster's name
    if not number.isdecimal():
        raise SlurmError(f"sbatch did not print a job id: {one_line(said, 200)}")
    return int(number)


def tasks(jobs: Sequence[int]) -> dict[tuple[int, int], ArrayTask]:
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
    told = [ArrayTask(int(m["job"]), int(m["task"]), m["state"], m["node"], m["reason"]) for m in found]
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
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            start_new_session=True,  # Ctrl-C is for whoever asked, not for a job that is being submitted
        )
    except FileNotFoundError:
        raise SlurmError(
            f"{command[0]} is not there: run this where jobs are submitted (a login node of the cluster), or "
            "install Slurm's commands (Debian: slurm-client)"
        ) from None
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{command[0]} has not answered for {TIMEOUT_S:g} s") from None
    if done.returncode:
        raise _refused(command[0], done.stderr.strip() or done.stdout.strip(), done.returncode)
    return done.stdout


def _refused(command: str, said: str, status: int) -> SlurmError:
    """What Slurm's command said, in one line, each part once."""
    parts = [line.removeprefix(f"{command}: ").removeprefix("error: ") for line in said.splitlines()]
    told = f"{command}: {one_line('; '.join(dict.fromkeys(parts)), 400) or f'exit status {status}'}"
    if "Munge encode failed" in told:
        return NoAnswer(f"{told}; munge, with which Slurm's commands sign, does not run on this machine")
    lost = any(word in told for word in ("Unable to contact", "Socket timed out", "Connection refused"))
    return NoAnswer(told) if lost else SlurmError(told)
