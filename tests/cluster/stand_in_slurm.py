"""A stand-in for Slurm in one folder: sbatch, squeue, sacct and scancel that run a job array here, as the real ones do.

Installed as those commands by :func:`install`. What it does as Slurm 22.05 does was seen there: ``--parsable``, a requeue
into the same task with a restart count, SIGTERM before SIGKILL, ``Invalid job id`` for a job that is forgotten.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def install(folder: Path) -> Path:
    """Make the commands; the folder to put first on PATH. State and wishes (``wishes.json``) are in ``folder``."""
    bin_ = folder / "bin"
    bin_.mkdir(parents=True)
    for name in ("sbatch", "squeue", "sacct", "scancel"):
        path = bin_ / name
        path.write_text(
            f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -I -S {shlex.quote(__file__)} {folder} {name} "$@"\n'
        )
        path.chmod(0o755)
    return bin_


def wish(folder: Path, **wishes: Any) -> None:
    """What is to happen. requeue, die: tasks to lose once, by number, with requeue or for good; down: answers of squeue to be
    refused; refuse: what sbatch says in place of taking a job; forgotten: jobs that it knows no more; accounting: is there any."""
    (folder / "wishes.json").write_text(json.dumps(wishes))


def _wishes(folder: Path) -> dict[str, Any]:
    path = folder / "wishes.json"
    return json.loads(path.read_text()) if path.exists() else {}


def sbatch(folder: Path, words: list[str]) -> int:
    if said := _wishes(folder).get("refuse"):
        print(said, file=sys.stderr)
        return 1
    script = Path(words[-1])
    given = [*re.findall(r"^#SBATCH (--\S+)", script.read_text(), re.MULTILINE), *words[:-1]]
    options = dict(word.lstrip("-").split("=", 1) for word in given if "=" in word)
    if "partition" in options and options["partition"] == "nowhere":
        print("sbatch: error: invalid partition specified: nowhere", file=sys.stderr)
        return 1
    job = max([0, *(int(path.name) for path in folder.glob("[0-9]*"))]) + 1
    home = folder / str(job)
    home.mkdir()
    numbers = []
    listed, _, at_once = options["array"].partition("%")
    for part in listed.split(","):
        low, _, high = part.partition("-")
        numbers += range(int(low), int(high or low) + 1)
    for number in numbers:
        _set(home, number, "PENDING", reason="Resources")
    (home / "job.json").write_text(
        json.dumps({"script": str(script), "output": options["output"], "words": given})
    )
    subprocess.Popen(
        [
            sys.executable,
            "-I",
            "-S",
            __file__,
            str(folder),
            "run",
            str(job),
            at_once or "99",
            *map(str, numbers),
        ],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    print(job if "--parsable" in words else f"Submitted batch job {job}")
    return 0


def _set(home: Path, number: int, state: str, **more: Any) -> None:
    part = home / f".{number}.{os.getpid()}"
    part.write_text(json.dumps({"state": state, **more}))
    part.replace(home / f"task-{number}.json")


def _get(home: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / f"task-{number}.json").read_text())
    return found


def run(folder: Path, words: list[str]) -> int:
    """The scheduler of one job: its tasks, so many at once, until all are over."""
    job, at_once, *numbers = map(int, words)
    home = folder / str(job)
    waiting, running = list(numbers), {}
    restarts = dict.fromkeys(numbers, 0)
    while waiting or running:
        for number in [n for n in waiting if _get(home, n)["state"] == "PENDING"][
            : max(0, at_once - len(running))
        ]:
            waiting.remove(number)
            running[number] = _start(folder, home, job, number, restarts[number])
        waiting = [n for n in waiting if _get(home, n)["state"] == "PENDING"]
        for number, process in list(running.items()):
            if (over := _over(folder, home, number, process)) is None:
                continue
            del running[number]
            if over == "REQUEUE":
                restarts[number] += 1
                waiting.append(number)
                _set(home, number, "PENDING", reason="BeginTime")
        time.sleep(0.05)
    return 0


def _start(folder: Path, home: Path, job: int, number: int, restarts: int) -> subprocess.Popen[bytes]:
    told = json.loads((home / "job.json").read_text())
    env = {
        **os.environ,
        "SLURM_ARRAY_JOB_ID": str(job),
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURMD_NODENAME": f"n{number % 2 + 1}",
        **({"SLURM_RESTART_COUNT": str(restarts)} if restarts else {}),
    }
    with Path(told["output"].replace("%a", str(number))).open("ab") as out:
        process = subprocess.Popen(
            ["bash", told["script"]], env=env, stdout=out, stderr=out, start_new_session=True, cwd=folder
        )
    _set(home, number, "RUNNING", node=env["SLURMD_NODENAME"], pid=process.pid)
    return process


def _over(folder: Path, home: Path, number: int, process: subprocess.Popen[bytes]) -> str | None:
    """How a task ended; ``None`` while it goes on. Wishes come true once each."""
    wishes = _wishes(folder)
    for kind in ("requeue", "die"):
        lost = home.parent / f"{kind}-{number}"
        if number in wishes.get(kind, []) and not lost.exists() and (folder / f"reached-{number}").exists():
            lost.touch()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _set(home, number, "NODE_FAIL", node="n1")
            return "REQUEUE" if kind == "requeue" else "NODE_FAIL"
    code = process.poll()
    if code is None:
        return None
    cancelled = _get(home, number).get("cancelled")
    state = "CANCELLED" if cancelled else "COMPLETED" if code == 0 else "FAILED"
    _set(home, number, state, node="n1")
    return state


def squeue(folder: Path, words: list[str]) -> int:
    if left := _wishes(folder).get("down"):
        wish(folder, **{**_wishes(folder), "down": left - 1})
        print("slurm_load_jobs error: Unable to contact slurm controller (connect failure)", file=sys.stderr)
        return 1
    options = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    jobs = options["jobs"].split(",")
    forgotten = set(_wishes(folder).get("forgotten", []))
    there = [job for job in jobs if (folder / job).is_dir() and int(job) not in forgotten]
    if not there and len(jobs) == 1:
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
        return 1
    for job in there:
        for path in sorted((folder / job).glob("task-*.json")):
            task = json.loads(path.read_text())
            number = path.stem.partition("-")[2]
            print(f"{job}_{number}|{task['state']}|{task.get('node', '')}|{task.get('reason', 'None')}")
    return 0


def sacct(folder: Path, words: list[str]) -> int:
    if not _wishes(folder).get("accounting"):
        print("Slurm accounting storage is disabled", file=sys.stderr)
        return 1
    options = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    job, _, number = options["jobs"].partition("_")
    print(_get(folder / job, int(number))["state"])
    return 0


def scancel(folder: Path, words: list[str]) -> int:
    pids = []
    for job in [word for word in words if word.isdecimal()]:
        for path in sorted((folder / job).glob("task-*.json")):
            task = json.loads(path.read_text())
            number = int(path.stem.partition("-")[2])
            if task["state"] == "PENDING":
                _set(folder / job, number, "CANCELLED")
            elif task["state"] == "RUNNING":
                _set(folder / job, number, "COMPLETING", node=task["node"], pid=task["pid"], cancelled=True)
                pids.append(task["pid"])
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
    return 0


if __name__ == "__main__":
    folder, command, *words = sys.argv[1:]
    sys.exit(globals()[command](Path(folder), words))
