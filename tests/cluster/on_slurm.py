"""A real Slurm, a real job array: ``python -m tests.cluster.on_slurm`` (``tox run -e slurm``), some ten minutes.

Starts a cluster of two pretend nodes on this machine, measures target ``slurm`` once as one run and once in four shards,
loses a node on the way, has another shard pre-empted, and holds the merged verdicts to those of the one run. What is
measured has a damaged draft, so that there is something to be found. ``--target sglang-cpu`` does the same with genuine
SGLang, in two shards.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from suite.cluster import slurm
from suite.cluster.merge import launches_of
from suite.cluster.submission import Submission
from suite.gate.runs import StoredVerdicts, load_run, load_verdicts
from tests.cluster import local_slurm
from tests.cluster.local_slurm import LocalSlurm

HERE = Path(".slurm")
RESULTS = HERE / "results"
LIMIT_S = 1200.0


class Disturber(threading.Thread):
    """Loses the node that measures mtp-on, once a launch is behind it; then has an urgent job take the node it goes on at."""

    def __init__(self, cluster: LocalSlurm) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self.done: list[str] = []
        """What it did, in sentences."""
        self.over = threading.Event()

    def run(self) -> None:
        task = self._wait(lambda: self._running(complete=1))
        if task is None:
            return
        there = len(servers())
        self._cluster.kill_node(task.node)
        self._say(
            f"node {task.node} is killed while it measured shard {task.number} ({there} servers were up)"
        )
        if self._wait(lambda: self._running(complete=1, not_on=task.node)) is None:
            return
        self._cluster.start_node(task.node)
        self._say(f"node {task.node} is back; the shard goes on elsewhere")
        if (again := self._wait(lambda: self._running(complete=2))) is None:
            return
        command = ("sbatch", "--parsable", "--partition=urgent", "--exclusive", f"--nodelist={again.node}")
        job = self._cluster.run(*command, "--output=/dev/null", "--wrap=sleep 5").strip()
        self._say(f"urgent job {job} takes node {again.node} from shard {again.number}")
        while not self.over.wait(0.5):
            self._hurry()

    def _running(self, complete: int, not_on: str = "") -> slurm.ArrayTask | None:
        """The task that measures mtp-on, once so many launches of its shard are complete."""
        submission = newest()
        if submission is None or not submission.jobs:
            return None
        shard = next(n for n, its in enumerate(submission.shards, 1) if "mtp-on" in its.arms)
        state = submission.state(shard)
        if state.finished or (launches_of(state.run)[0] if state.run else 0) < complete:
            return None
        task = slurm.tasks(submission.job_numbers).get((submission.last_job(shard) or 0, shard))
        return task if task is not None and task.state == "RUNNING" and task.node != not_on else None

    def _hurry(self) -> None:
        """Slurm has a task that it put back wait for two minutes; nothing is learned from that here."""
        submission = newest()
        for task in slurm.tasks(submission.job_numbers if submission else []).values():
            if task.state == "PENDING" and task.reason == "BeginTime":
                self._cluster.run(
                    "scontrol", "update", f"JobId={task.job}_{task.number}", "StartTime=now", check=False
                )

    def _wait(self, what: Callable[[], slurm.ArrayTask | None]) -> slurm.ArrayTask | None:
        while not self.over.wait(0.3):
            if (found := what()) is not None:
                return found
            self._hurry()
        return None

    def _say(self, what: str) -> None:
        self.done.append(what)
        print(f"{time.strftime('%H:%M:%S')} ** {what}", flush=True)


def newest() -> Submission | None:
    """The last submission."""
    folders = sorted((RESULTS / "submitted").glob("*/submission.json"))
    return Submission.load(folders[-1].parent) if folders else None


def servers() -> list[psutil.Process]:
    """Servers of these runs that are up: they carry a mark in their environment."""
    mark = str(HERE.resolve())
    found = []
    for process in psutil.process_iter(["environ"]):
        if (process.info["environ"] or {}).get("ON_SLURM") == mark and "-m" in _words(process):
            found.append(process)
    return [
        process for process in found if "pytest" not in _words(process) and "suite" not in _words(process)
    ]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def perf(target: str, *options: str) -> int:
    """One run, unsharded."""
    command = [sys.executable, "-m", "pytest", "-m", "perf", f"--target={target}", "-q", *options]
    return subprocess.run(
        [*command, f"--results={RESULTS}", f"--baselines={HERE}/baselines"], check=False
    ).returncode


def submitted(cluster: LocalSlurm, target: str, shards: int, options: Sequence[str], disturb: bool) -> int:
    """The same in shards, disturbed."""
    disturber = Disturber(cluster)
    if disturb:
        disturber.start()
    # both nodes are this machine: of genuine servers, which take a lock there, one at a time
    nodes = 2 if target == "slurm" else 1
    command = [
        sys.executable,
        "-m",
        "suite",
        "submit",
        f"--target={target}",
        f"--nodes={nodes}",
        f"--shards={shards}",
    ]
    command += [
        "--sbatch=--partition=perf",
        "--poll=1",
        f"--results={RESULTS}",
        f"--baselines={HERE}/baselines",
    ]
    code = subprocess.run([*command, "--", *options], check=False, timeout=LIMIT_S).returncode
    disturber.over.set()
    if disturb and len(disturber.done) < (3 if target == "slurm" else 2):
        print(f"not all that was to happen did: {'; '.join(disturber.done) or 'nothing'}")
        return -1
    return code


def same(one: StoredVerdicts, merged: StoredVerdicts) -> bool:
    """Are the words of two runs the same, figure by figure? Those that are not are told."""
    words = [{verdict.key: verdict.word for verdict in said.verdicts} for said in (one, merged)]
    told = [
        f"{', '.join(key)}: {words[0].get(key)} in one run, {words[1].get(key)} in shards"
        for key in sorted({*words[0], *words[1]})
        if words[0].get(key) != words[1].get(key)
    ]
    print(f"\none run:   {one.sentence}\nin shards: {merged.sentence}")
    counted = {word: list(words[1].values()).count(word) for word in dict.fromkeys(words[1].values())}
    print(f"{len(words[1])} figures in shards: {', '.join(f'{n} {word}' for word, n in counted.items())}")
    for line in told:
        print(f"DIFFERENT {line}")
    return not told and one.status == merged.status


def ended_alike(one: Path, merged: Path) -> bool:
    """Did the same items end in the same way in both runs?"""
    words = [
        {
            (o.item, o.arm, o.launch): o.word
            for o in load_run(path).outcomes
            if not o.item.startswith("server of")
        }
        for path in (one, merged)
    ]
    for item in sorted({*words[0], *words[1]}):
        if words[0].get(item) != words[1].get(item):
            print(f"DIFFERENT {item}: {words[0].get(item)} in one run, {words[1].get(item)} in shards")
    return words[0] == words[1]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default="slurm")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--undisturbed", action="store_true", help="lose no node, pre-empt nothing")
    parser.add_argument("options", nargs="*", help="options of pytest -m perf, after --")
    arguments = parser.parse_args()
    if gone := local_slurm.missing():
        print(f"not installed: {', '.join(gone)}; Debian: apt-get install slurm-wlm munge", file=sys.stderr)
        return 9
    shutil.rmtree(HERE, ignore_errors=True)
    HERE.mkdir()
    os.environ["ON_SLURM"] = str(HERE.resolve())
    options = arguments.options
    if arguments.target == "slurm":
        perf("slurm", "--record-baseline", *options)
        options = ["--flag=fault=draft-partial", *options]
    perf(arguments.target, *options)
    (alone,) = [path for path in RESULTS.glob("*/verdicts.json") if path.parent.name != _recorded()]
    with local_slurm.up() as cluster:
        os.environ["SLURM_CONF"] = cluster.env["SLURM_CONF"]
        code = submitted(cluster, arguments.target, arguments.shards, options, not arguments.undisturbed)
        print(cluster.run("sinfo", "--Node", "--partition=perf"))
    left = servers()
    print(f"{len(left)} servers left")
    found = list(RESULTS.glob("*-merged/verdicts.json"))
    if not found:
        print("nothing was merged")
        return 1
    merged = found[0]
    one, whole = load_verdicts(alone), load_verdicts(merged)
    alike = same(one, whole) and ended_alike(alone.parent, merged.parent)
    print("the same verdicts" if alike else "NOT the same verdicts")
    return 0 if alike and not left and code == whole.status else 1


def _recorded() -> str:
    """The run that was recorded as the baseline: the first."""
    runs = sorted(path.parent.name for path in RESULTS.glob("*/run.json") if "merged" not in path.parent.name)
    return runs[0] if len(runs) > 1 else ""


if __name__ == "__main__":
    sys.exit(main())
