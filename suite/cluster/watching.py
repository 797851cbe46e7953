"""Watching a submission until its shards are measured: progress in lines, failed shards submitted again, a clean end."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from suite.cluster import slurm
from suite.cluster.merge import launches_of
from suite.cluster.submission import State, Submission

POLL_S = 10.0
AGAIN_S = 60
"""Until a shard that failed is tried again: what stood in its way on its host is given time to pass."""
GONE_S = 90.0
"""How long a cancelled job may take to be gone: Slurm's KillWait is 30 seconds, unless its cluster says otherwise."""


@dataclass
class Watch:
    """Follows a submission.

    Args:
        say: writes a line for people.
        tries: how often a shard may be submitted in all.
    """

    submission: Submission
    say: Callable[[str], None]
    tries: int = 3
    poll_s: float = POLL_S
    sleep: Callable[[float], None] = time.sleep
    _told: dict[int, str] = field(default_factory=dict)
    _silent: bool = False

    def until_done(self) -> list[int]:
        """Wait until every shard is measured, or given up; the numbers of those that are not finished.

        Raises:
            SlurmError: a shard cannot be submitted again.
        """
        while True:
            alive, open_ = self._look()
            failed = [number for number in open_ if number not in alive]
            again = [number for number in failed if self.submission.tries(number) < self.tries]
            if again:
                self._submit(again)
            elif not alive:
                return open_
            self.sleep(self.poll_s)

    def _submit(self, numbers: list[int]) -> None:
        if all(self.submission.last_job(number) is None for number in numbers):
            self.say(f"submitted: shard {_listed(numbers)} (job {self.submission.submit(numbers).job})")
            return
        job = self.submission.submit(numbers, AGAIN_S).job
        self.say(f"submitted again, where they stopped: shard {_listed(numbers)} (job {job}), in {AGAIN_S} s")

    def cancel(self) -> bool:
        """End all jobs, and wait until they are gone; are they?

        Raises:
            SlurmError: Slurm cannot be asked.
        """
        slurm.cancel(self.submission.job_numbers)
        deadline = time.monotonic() + GONE_S
        while any(task.alive for task in slurm.tasks(self.submission.job_numbers).values()):
            if time.monotonic() > deadline:
                return False
            self.sleep(min(self.poll_s, 1.0))
        return True

    def _look(self) -> tuple[set[int], list[int]]:
        """The shards that run or wait, and those that are not finished; what is new is said."""
        try:
            tasks = slurm.tasks(self.submission.job_numbers)
        except slurm.NoAnswer as error:
            if not self._silent:
                self.say(f"{error}; its jobs may go on, asking again")
            self._silent = True
            return set(self.submission.numbers), self.submission.numbers
        self._silent = False
        alive = {task.number for task in tasks.values() if task.alive}
        open_ = []
        for number in self.submission.numbers:
            state = self.submission.state(number)
            if not state.finished:
                open_.append(number)
            self._tell(number, state, tasks)
        return alive, open_

    def _tell(self, number: int, state: State, tasks: dict[tuple[int, int], slurm.ArrayTask]) -> None:
        job = self.submission.last_job(number)
        task = tasks.get((job, number)) if job is not None else None
        if task is not None and (task.alive or not state.finished):
            how = str(task)
        elif state.finished:
            how = "finished"
        else:
            how = self._ended(job, number)
        complete, begun = launches_of(state.run) if state.run is not None else (0, 0)
        told = f"{how}, {complete} of {begun} launches complete" if begun else how
        if state.how == "infrastructure" and (task is None or not task.alive):
            told += "; host, driver or disk stood in the way"
        if self._told.get(number) != told:
            self._told[number] = told
            self.say(f"shard {number}/{len(self.submission.shards)}: {told}")

    def _ended(self, job: int | None, number: int) -> str:
        if job is None:
            return "not submitted"
        state = slurm.state_of(job, number)
        return slurm.in_words(state) if state else "ended before its end"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
