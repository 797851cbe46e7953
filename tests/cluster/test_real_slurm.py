"""The same on a real Slurm of two nodes, started for the occasion: what is seen here is what the stand-in stands for."""

from __future__ import annotations

import threading
import time

import pytest

from suite.__main__ import main
from suite.cluster import slurm
from suite.cluster.submission import Submission
from suite.gate import load_run
from tests.cluster import local_slurm
from tests.cluster.test_submit import MERGED, log, place, submitted

GONE = local_slurm.missing()
pytestmark = pytest.mark.skipif(
    bool(GONE), reason=f"no Slurm here ({', '.join(GONE)}): apt-get install slurm-wlm munge"
)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Two nodes; what is measured is what stands in for pytest."""
    place(tmp_path, tmp_path / "prepared", monkeypatch)
    with local_slurm.up() as running:
        monkeypatch.setenv("SLURM_CONF", running.env["SLURM_CONF"])
        yield running


def test_a_killed_node_costs_nothing_but_what_was_being_measured(cluster, tmp_path, capsys):
    prepared = tmp_path / "prepared"
    (prepared / "hang-1").touch()
    told: list[str] = []

    def disturb() -> None:
        while not (prepared / "reached-1").exists():
            time.sleep(0.2)
        (job,) = Submission.load(submitted()).job_numbers
        node = slurm.tasks([job])[job, 1].node
        cluster.kill_node(node)
        told.append(node)
        while not over.wait(0.5):  # Slurm has a task that it puts back wait for two minutes
            for task in slurm.tasks([job]).values():
                if task.reason == "BeginTime":
                    cluster.run(
                        "scontrol", "update", f"JobId={job}_{task.number}", "StartTime=now", check=False
                    )

    over = threading.Event()
    thread = threading.Thread(target=disturb, daemon=True)
    thread.start()
    try:
        assert main(["submit", "--nodes=2", "--poll=0.5"]) == 1  # headless started: its promise broke
    finally:
        over.set()
        thread.join(timeout=30)
    (node,) = told
    assert f"({node})" in log(1)
    assert "try 2" in log(1)
    assert "measuring shard 1, again" in log(1)
    assert "is missing" not in (tmp_path / "results" / MERGED / "run.json").read_text()
    assert load_run(tmp_path / "results" / MERGED).series
    assert "submitted again" not in capsys.readouterr().out


def test_what_slurm_says_of_jobs_is_understood(cluster, tmp_path):
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --output=/dev/null --exclusive\nsleep 30\n")
    job = slurm.submit(script, [1, 2, 3], 2)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        tasks = {number: task.state for (_, number), task in slurm.tasks([job]).items()}
        if tasks == {1: "RUNNING", 2: "RUNNING", 3: "PENDING"}:
            break
        time.sleep(0.3)
    assert tasks == {1: "RUNNING", 2: "RUNNING", 3: "PENDING"}
    slurm.cancel([job])
    while any(task.alive for task in slurm.tasks([job]).values()) and time.monotonic() < deadline + 60:
        time.sleep(0.3)
    assert {task.state for task in slurm.tasks([job]).values()} == {"CANCELLED"}
    assert slurm.tasks([job + 100]) == {}
    with pytest.raises(slurm.SlurmError, match="invalid partition specified: nowhere"):
        slurm.submit(script, [1], 1, ["--partition=nowhere"])
