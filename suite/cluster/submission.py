"""A plan submitted to Slurm: its folder, the jobs that were submitted for it, and how far each shard has come."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from suite.cluster import merge, slurm
from suite.cluster.script import JOBS, Script
from suite.cluster.shards import Priced
from suite.gate import GateError
from suite.gate.files import read, render, write_together
from suite.gate.runs import load_verdicts
from suite.gate.status import INFRASTRUCTURE
from suite.session import journal

FORMAT, VERSION = "sglang-perf-submission", 1
NAME = "submission.json"
FOLDER = "submitted"
"""Below the results: where submissions are."""


class Submitted(msgspec.Struct, frozen=True):
    """A job: which shards it was to measure, and when it was submitted (Unix seconds)."""

    job: int
    shards: list[int]
    at: float


class _SubmissionFile(msgspec.Struct, frozen=True):
    format: str
    version: int
    target: str
    options: list[str]
    shards: list[Priced]
    at_once: int
    sbatch: list[str]
    script: str
    jobs: list[Submitted]


@dataclass(frozen=True, slots=True)
class State:
    """How far a shard has come, by its journal. how: `finished`, `infrastructure` (to be measured again), or `open`."""

    how: str
    run: merge.ShardRun | None = None

    @property
    def finished(self) -> bool:
        """Is there nothing left to be measured?"""
        return self.how == "finished"


class Submission:
    """One plan on one cluster; everything it knows is in its folder.

    Args:
        sbatch: more words for ``sbatch``, as ``--partition=gpu``.
        jobs: what was submitted so far.
    """

    def __init__(
        self,
        folder: Path,
        target: str,
        options: list[str],
        shards: list[Priced],
        at_once: int,
        sbatch: list[str],
        jobs: list[Submitted] | None = None,
    ) -> None:
        self.folder = folder
        self.target = target
        self.options = options
        self.shards = shards
        self.at_once = at_once
        self.sbatch = sbatch
        self.jobs = jobs or []

    @classmethod
    def load(cls, folder: Path) -> Submission:
        """Read one that was made before. Raises StoredFileError."""
        kept = read(folder / NAME, FORMAT, VERSION, _SubmissionFile)
        return cls(
            folder.resolve(),
            kept.target,
            kept.options,
            kept.shards,
            kept.at_once,
            kept.sbatch,
            list(kept.jobs),
        )

    @property
    def script(self) -> Path:
        """The job's script."""
        return self.folder / "job.sh"

    @property
    def numbers(self) -> list[int]:
        """The shards, from 1."""
        return list(range(1, len(self.shards) + 1))

    @property
    def job_numbers(self) -> list[int]:
        """All jobs that were submitted here, and those that began on its shards though they were submitted by hand."""
        begun = [job for number in self.numbers for job in self._begun(number)]
        return list(dict.fromkeys([*(one.job for one in self.jobs), *begun]))

    def write(self, script: Script) -> None:
        """Write the script and what is known of the submission. Raises WriteFailed."""
        write_together({self.script: script.text().encode(), self.folder / NAME: self._rendered()})
        self.script.chmod(0o755)

    def submit(self, numbers: list[int], wait_s: int = 0) -> Submitted:
        """Have these shards measured, after so many seconds at the earliest.

        Raises:
            SlurmError: Slurm does not take the job.
            WriteFailed: it was taken, and could not be noted.
        """
        begin = [f"--begin=now+{wait_s}"] if wait_s else []
        with _uninterrupted():
            job = slurm.submit(self.script, numbers, self.at_once, [*self.sbatch, *begin])
            done = Submitted(job, sorted(numbers), time.time())
            self.jobs.append(done)
            write_together({self.folder / NAME: self._rendered()})
        return done

    def tries(self, number: int) -> int:
        """How often a shard was submitted."""
        return sum(number in one.shards for one in self.jobs)

    def last_job(self, number: int) -> int | None:
        """The job that measures a shard, or did last: the highest, as Slurm counts them."""
        return max(
            [*(one.job for one in self.jobs if number in one.shards), *self._begun(number)], default=None
        )

    def _begun(self, number: int) -> list[int]:
        """The jobs that have begun on a shard, as its script notes them."""
        try:
            words = (self.folder / f"shard-{number}" / JOBS).read_text().split()
        except OSError:
            return []
        return [int(word) for word in words if word.isdecimal() and len(word) < 20]

    def state(self, number: int) -> State:
        """How far a shard has come."""
        folders = sorted(path.parent for path in (self.folder / f"shard-{number}").glob(f"*/{journal.NAME}"))
        for folder in reversed(folders):
            try:
                run = merge.read(folder)
            except GateError:
                continue  # it died before it had written its plan
            if not run.finished:
                return State("open", run)
            return State("infrastructure" if _infrastructure(folder) else "finished", run)
        return State("open")

    def _rendered(self) -> bytes:
        return render(
            _SubmissionFile(
                FORMAT,
                VERSION,
                self.target,
                self.options,
                self.shards,
                self.at_once,
                self.sbatch,
                str(self.script),
                self.jobs,
            )
        )


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C and SIGTERM in the body come after it: a job that Slurm has taken is noted, or nobody could cancel it."""
    came: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, frame: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if came:
        raise KeyboardInterrupt


def _infrastructure(folder: Path) -> bool:
    """Did host, driver or disk keep a shard from being measured?"""
    try:
        return load_verdicts(folder).status == INFRASTRUCTURE
    except GateError:
        return True  # its journal says that it came to its end, and its verdicts were never written
