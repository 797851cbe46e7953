"""The script of a job array: one task measures one shard, and goes on where an earlier try of it was ended."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.cluster import allure
from suite.session import journal

JOBS = "jobs"
"""In a shard's folder: the jobs that have begun on it, a line each, whoever submitted them."""
TEMPLATE = """\
#!/bin/bash
# {what}
# One task a shard. By hand: sbatch {script}; one shard again: sbatch --array=2 {script}
# A shard that failed, was pre-empted, or whose node died goes on where it stopped.
# At the end: {python} -m suite merge {folder}/shard-*/*shard*
#SBATCH --job-name={name}
#SBATCH --array=1-{shards}%{at_once}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
{gres}#SBATCH --time={limit}
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={folder}/shard-%a.log

cd {root} || exit 9
number=$SLURM_ARRAY_TASK_ID
here={folder}/shard-$number
mkdir -p "$here" || exit 9
echo "$SLURM_ARRAY_JOB_ID" >> "$here/{jobs}"
echo "== shard $number/{shards}, job ${{SLURM_ARRAY_JOB_ID}}_$number, try $((${{SLURM_RESTART_COUNT:-0}} + 1)), on $(hostname) (${{SLURMD_NODENAME:-}}), $(date)"

options=({options})
again=()
for journal in "$here"/*/{journal}; do
    if [ -s "$journal" ]; then again=(--resume "$(dirname "$journal")"); fi
done

# pytest takes the place of this shell: Slurm's SIGTERM reaches it, it takes its servers down and keeps what was measured
exec {python} -m pytest "${{options[@]}}" --shard "$number/{shards}" --results "$here"{allure} "${{again[@]}}"
"""


@dataclass(frozen=True, slots=True)
class Script:
    """What a script is made of. options: pytest's words; minutes: after which Slurm ends a task; gpus: of a node;
    allure: have each shard leave Allure results."""

    folder: Path
    root: Path
    python: str
    target: str
    options: Sequence[str]
    shards: int
    at_once: int
    minutes: int
    gpus: int
    allure: bool = False

    @property
    def path(self) -> Path:
        """Where it is written."""
        return self.folder / "job.sh"

    def text(self) -> str:
        """The script, to be read and to be submitted by hand."""
        quoted = {name: shlex.quote(str(getattr(self, name))) for name in ("folder", "root", "python")}
        return TEMPLATE.format(
            **quoted,
            what=f"pytest -m perf on target {self.target}, in {self.shards} shards",
            script=shlex.quote(str(self.path)),
            name=shlex.quote(f"perf-{self.target}"),
            shards=self.shards,
            at_once=self.at_once,
            gres=f"#SBATCH --gres=gpu:{self.gpus}\n" if self.gpus else "",
            limit=f"{self.minutes // 60}:{self.minutes % 60:02d}:00",
            options=shlex.join(self.options),
            journal=journal.NAME,
            jobs=JOBS,
            allure=f' --alluredir "$here/{allure.NAME}"' if self.allure else "",
        )
