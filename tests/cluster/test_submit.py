"""``python -m suite submit`` on a stand-in for Slurm: what is submitted, watched, submitted again, cancelled and merged."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from suite.__main__ import main
from suite.cli import submit
from suite.cluster import slurm
from suite.cluster.script import Script
from suite.cluster.submission import Submission
from suite.gate import judge, load_run, save_run
from suite.gate.baselines import Found
from suite.session import journal
from suite.session.entries import Closed, Complete, Entry, Resumed
from suite.session.fold import told
from tests.cluster import measuring, stand_in_slurm
from tests.cluster.cutting import CUT, journal_of_all, shards_of

CONFIG = """
default_target = "here"
[targets.here]
model = "m"
gpus = 8
launch = { kind = "process", module = "simulator" }
"""
MERGED = "20261201-070000-here-merged"
PLAN = {
    "shards": [
        {"shard": f"{number}/3", "arms": arms, "launches": len(arms), "minutes": 1.5 * number}
        for number, arms in enumerate(CUT, 1)
    ]
}


def place(tmp_path: Path, prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty place to work in, with a stand-in for pytest as the interpreter of the jobs, and what that leaves."""
    prepared.mkdir(exist_ok=True)
    for number, entries in enumerate(shards_of(journal_of_all()), 1):
        prepare(prepared, number, entries)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/bash\nexec {shlex.quote(sys.executable)} -I -S {measuring.__file__} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("STAND_IN", str(prepared))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(submit, "_plan", lambda arguments, options: PLAN)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.toml").write_text(CONFIG)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """The same with a stand-in for Slurm on PATH."""
    folder = tmp_path / "slurm"
    bin_ = stand_in_slurm.install(folder)
    place(tmp_path, folder, monkeypatch)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    yield folder
    for path in folder.glob("[0-9]*"):
        if path.is_dir():
            slurm.cancel([int(path.name)])


def prepare(folder: Path, number: int, entries: list[Entry]) -> None:
    """The files of a shard, for what stands in for pytest to leave them."""
    ends = [i for i, entry in enumerate(entries, 1) if isinstance(entry, Complete)] or [1]
    parts: dict[str, list[Entry]] = {
        "half": entries[: ends[0]],
        "rest": entries[ends[0] :],
        "resumed": [Resumed(4.0)],
        "stopped": [Closed(5.0, "ended by SIGTERM")],
    }
    for name, part in parts.items():
        (folder / f"shard-{number}.{name}").write_bytes(b"".join(map(journal.line_of, part)))
    session = told(entries).session()
    save_run(folder / "saved", session, judge(session, Found()))
    for name in ("run.json", "verdicts.json"):
        (folder / "saved" / name).rename(folder / f"shard-{number}.{name}")


def submitted() -> Path:
    (folder,) = Path("results/submitted").iterdir()
    return folder


def log(number: int) -> str:
    return (submitted() / f"shard-{number}.log").read_text()


def test_every_shard_is_measured_and_one_verdict_is_there(cluster, capsys):
    assert (
        main(["submit", "--nodes=2", "--poll=0.2", "--", "--rounds=3"]) == 1
    )  # headless started: its promise broke
    out = capsys.readouterr().out
    assert "3 shards, at most 2 at once" in out
    assert "submitted as job 1" in out
    for number in (1, 2, 3):
        assert f"shard {number}/3: finished" in out
        assert f"measuring shard {number}, anew" in log(number)
    assert "NO-GO" in out
    assert load_run(Path("results") / MERGED).series
    assert len(list(Path("results/history").glob("*.jsonl"))) == 1


def test_a_task_that_slurm_puts_back_goes_on_where_it_stopped(cluster, capsys):
    (cluster / "hang-1").touch()
    stand_in_slurm.wish(cluster, requeue=[1])
    assert main(["submit", "--nodes=2", "--poll=0.2"]) == 1
    assert "try 2" in log(1)
    assert "measuring shard 1, again" in log(1)
    assert "submitted again" not in capsys.readouterr().out
    assert "is missing" not in (Path("results") / MERGED / "run.json").read_text()


def test_only_the_shard_that_was_lost_is_submitted_again(cluster, capsys):
    (cluster / "hang-2").touch()
    stand_in_slurm.wish(cluster, die=[2])
    assert main(["submit", "--nodes=3", "--poll=0.2"]) == 1
    assert "submitted again, where they stopped: shard 2 (job 2)" in capsys.readouterr().out
    jobs = Submission.load(submitted()).jobs
    assert [job.shards for job in jobs] == [[1, 2, 3], [2]]
    words = json.loads((cluster / "2" / "job.json").read_text())["words"]
    assert "--begin=now+60" in words
    assert "again" not in log(1)


def test_a_shard_that_never_ends_well_is_given_up_and_named(cluster, capsys):
    (cluster / "fail-3").touch()
    assert main(["submit", "--nodes=3", "--poll=0.2", "--tries=2"]) == 8
    out = capsys.readouterr().out
    assert "shard 3/3 was submitted 2 times and did not finish" in out
    session = load_run(Path("results") / MERGED)
    assert {o.arm for o in session.outcomes if o.word == "unproven"} == {"mtp-headless"}
    assert not Path("results/history").exists()


def test_ctrl_c_ends_the_jobs_and_what_was_measured_is_gone_on_with(cluster, capsys):
    for number in (1, 2):
        (cluster / f"hang-{number}").touch()

    def interrupt() -> None:
        deadline = time.monotonic() + 60
        while not (cluster / "reached-1").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    assert main(["submit", "--nodes=3", "--poll=0.2"]) == 130
    out = capsys.readouterr().out
    assert "all jobs are gone" in out
    assert not any(task.alive for task in slurm.tasks([1]).values())
    folder = submitted()
    assert f"python -m suite submit --resume {folder.resolve()}" in out
    run = Submission.load(folder).state(1).run
    assert run is not None
    assert run.ended_by == "ended by SIGTERM"
    assert main(["submit", "--resume", str(folder), "--poll=0.2"]) == 1
    assert "measuring shard 1, again" in log(1)
    assert "is missing" not in (Path("results") / MERGED / "run.json").read_text()


def test_ctrl_c_while_slurm_takes_the_job_cancels_it(cluster, capsys, monkeypatch):
    """It is noted before the interruption is heeded: nobody would know which job to cancel otherwise."""
    for number in (1, 2, 3):
        (cluster / f"hang-{number}").touch()
    real = slurm.submit

    def interrupted(*words, **more):
        os.kill(os.getpid(), signal.SIGINT)
        return real(*words, **more)

    monkeypatch.setattr(slurm, "submit", interrupted)
    assert main(["submit", "--nodes=3", "--poll=0.2"]) == 130
    assert "all jobs are gone" in capsys.readouterr().out
    assert Submission.load(submitted()).job_numbers == [1]
    assert not any(task.alive for task in slurm.tasks([1]).values())


def test_what_was_written_only_is_submitted_where_it_is_taken_up(cluster, capsys):
    assert main(["submit", "--nodes=3", "--write-only"]) == 0
    assert main(["submit", "--resume", str(submitted()), "--poll=0.2", "--sbatch=--time=8:00:00"]) == 1
    assert "submitted: shard 1, 2, 3 (job 1)" in capsys.readouterr().out
    words = json.loads((cluster / "1" / "job.json").read_text())["words"]
    assert "--begin=now+60" not in words
    assert "--time=8:00:00" in words


def test_a_detached_submission_is_taken_up_even_where_slurm_has_forgotten_it(cluster, capsys):
    assert main(["submit", "--detach"]) == 0
    folder = submitted()
    submission = Submission.load(folder)
    deadline = time.monotonic() + 60
    while not all(submission.state(number).finished for number in (1, 2, 3)) and time.monotonic() < deadline:
        time.sleep(0.2)
    stand_in_slurm.wish(cluster, forgotten=[1])
    capsys.readouterr()
    assert main(["submit", "--resume", str(folder), "--poll=0.2"]) == 1
    assert "submitted again" not in capsys.readouterr().out


def test_a_controller_that_does_not_answer_ends_nothing(cluster, capsys):
    stand_in_slurm.wish(cluster, down=3)
    assert main(["submit", "--nodes=3", "--poll=0.2"]) == 1
    out = capsys.readouterr().out
    assert out.count("Unable to contact slurm controller") == 1
    assert len(Submission.load(submitted()).jobs) == 1


def test_a_job_that_slurm_refuses_is_told_in_its_words(cluster, capsys):
    assert main(["submit", "--sbatch=--partition=nowhere"]) == 2
    assert (
        "error: sbatch: invalid partition specified: nowhere; nothing was submitted"
        in capsys.readouterr().err
    )
    assert not list(Path("results/submitted").iterdir())


@pytest.mark.parametrize(
    ("said", "told_", "code"),
    [
        (
            "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            "sbatch: Batch job submission failed: Unable to contact slurm controller (connect failure)",
            9,
        ),
        (
            "sbatch: error: If munged is up, restart with --num-threads=10\nsbatch: error: Munge encode failed: Failed to "
            'access "/run/munge/munge.socket.2": No such file or directory',
            "munge, with which Slurm's commands sign, does not run on this machine",
            9,
        ),
    ],
)
def test_a_slurm_that_cannot_be_asked_is_infrastructure(cluster, capsys, said, told_, code):
    """In the words of Slurm 22.05."""
    stand_in_slurm.wish(cluster, refuse=said)
    assert main(["submit"]) == code
    err = capsys.readouterr().err
    assert told_ in err
    assert "nothing was submitted" in err


def test_a_task_that_waits_or_was_ended_says_why_in_plain_words():
    waits = slurm.ArrayTask(1, 2, "PENDING", "", "PartitionTimeLimit")
    assert str(waits).startswith("pending: it asks for more time than its partition allows")
    assert "(PartitionTimeLimit)" in str(waits)
    assert str(slurm.ArrayTask(1, 2, "PENDING", "", "QOSGrpLimit")) == "pending: QOSGrpLimit"
    assert str(slurm.ArrayTask(1, 2, "PENDING", "", "None")) == "pending"
    assert str(slurm.ArrayTask(1, 2, "TIMEOUT", "n1")) == "ended by its time limit on n1"


def test_a_script_submitted_by_hand_is_followed_and_not_submitted_again(cluster, capsys):
    assert main(["submit", "--nodes=3", "--write-only"]) == 0
    script = (submitted() / "job.sh").resolve()
    assert f"sbatch {script}" in capsys.readouterr().out
    subprocess.run(["sbatch", str(script)], check=True, capture_output=True)
    submission = Submission.load(submitted())
    deadline = time.monotonic() + 60
    while not all(submission.last_job(number) for number in (1, 2, 3)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert main(["submit", "--resume", str(submitted()), "--poll=0.2"]) == 1
    assert "submitted again" not in capsys.readouterr().out
    assert Submission.load(submitted()).jobs == []


def test_without_slurm_it_says_where_to_go(cluster, capsys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["submit"]) == 2
    assert "sbatch is not there: run this where jobs are submitted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--", "--shard=1/2"], "--shard: this command sets it itself"),
        (["--", "--flag=api-key=hunter2"], "a secret after --"),
        (["--", "--flag", "api-key=hunter2"], "a secret after --"),
        (["--nodes=0"], "--nodes 0: must be 1 or more"),
        (["--poll=0"], "--poll 0: must be more than 0"),
        (["--resume=nowhere"], "no such file"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(cluster, capsys, words, says):
    assert main(["submit", *words]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert "hunter2" not in err
    assert not Path("results").exists()


def test_the_script_can_be_read_and_is_good_bash(cluster, tmp_path):
    assert main(["submit", "--write-only", "--", "-k", "decode and (off or on)"]) == 0
    script = submitted() / "job.sh"
    text = script.read_text()
    for line in ("--array=1-3%2", "--exclusive", "--gres=gpu:8", "--time=0:14:00", "--requeue"):
        assert f"#SBATCH {line}\n" in text
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
    assert "-k 'decode and (off or on)'" in text
    assert not list(cluster.glob("[0-9]*"))


def test_a_target_without_gpus_asks_for_none(tmp_path):
    text = Script(tmp_path, tmp_path, "python", "cpu", [], 2, 2, 130, 0).text()
    assert "--gres" not in text
    assert "--time=2:10:00\n" in text
