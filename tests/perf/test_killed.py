"""A run that is killed loses the round in progress at most, is judged as it stands, and goes on with --resume."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from suite.session import journal, stored_runs
from suite.session.entries import Complete, Entry, Launching, Ready, Resumed, RoundDone
from suite.session.fold import told
from suite.session.plan import LaunchId
from tests.perf.running import ROOT, Ran, config, perf, servers_of, start

ASKED = ("--launches=2", "--rounds=2", "-k", "decode or asked_for")
KILLS = int(os.environ.get("PERF_KILLS", "3"))
GONE_WITHIN_S = 15.0
"""These runs are not about how quiet this machine is."""


def folder_of(tmp_path: Path) -> Path:
    (path,) = (tmp_path / "results").glob("*/journal.jsonl")
    return path.parent


def judge(tmp_path: Path, run: Path) -> subprocess.CompletedProcess[str]:
    words = ["judge", str(run), "--baselines", str(tmp_path / "baselines")]
    return subprocess.run(
        [sys.executable, "-m", "suite", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def kill(running: subprocess.Popen[str]) -> None:
    running.send_signal(signal.SIGKILL)
    running.wait(timeout=30)
    assert running.stdout is not None
    running.stdout.close()


def must_be_gone(tmp_path: Path) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while servers_of(tmp_path):
        assert time.monotonic() < deadline, "a server outlives its killed run"
        time.sleep(0.2)


def await_rounds(tmp_path: Path, running: subprocess.Popen[str], count: int) -> None:
    """Wait until so many rounds are on disk."""
    deadline = time.monotonic() + 60
    while running.poll() is None and time.monotonic() < deadline:
        for path in (tmp_path / "results").glob("*/journal.jsonl"):
            if sum(isinstance(e, RoundDone) for e in journal.read(path).entries) >= count:
                return
        time.sleep(0.02)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_at_a_random_moment_it_is_judged_and_resumed(tmp_path, seed):
    chance = random.Random(seed)
    running = start(tmp_path, *ASKED, config(tmp_path))
    await_rounds(tmp_path, running, chance.randrange(1, 7))
    time.sleep(chance.random())
    kill(running)
    must_be_gone(tmp_path)
    run = folder_of(tmp_path)
    before = journal.read(run / journal.NAME)
    done = told(before.entries).complete

    said = judge(tmp_path, run)
    assert said.returncode in (0, 8), said.stdout + said.stderr
    assert "--resume" in said.stdout
    assert "Traceback" not in said.stderr

    resumed = perf(tmp_path, "-m", "perf", f"--resume={run}")
    assert resumed.code == 0, resumed.out
    after = journal.read(run / journal.NAME)
    assert after.entries[: len(before.entries)] == before.entries
    assert not after.damage
    anew = after.entries[len(before.entries) :]
    assert isinstance(anew[0], Resumed)
    launched = [LaunchId(e.arm, e.number) for e in anew if isinstance(e, Launching)]
    assert not set(launched) & set(done)
    assert {(e.arm, e.number) for e in after.entries if isinstance(e, Complete)} == {
        (arm, number) for arm in ("mtp-off", "mtp-on") for number in (1, 2)
    }
    # what is judged is what was measured: every launch whole, in the journal as in run.json
    session = resumed.run["session"]
    for series in session["series"]:
        assert [len(launch["rounds"]["tpot_s"]) for launch in series["launches"]] == [2, 2]
    assert len(session["series"]) == 2
    assert told(after.entries).session().rounded() == stored_runs.load(run).session
    assert not servers_of(tmp_path)


def test_an_earlier_failure_is_told_again_and_not_asked_again(tmp_path):
    """The broken promise of a complete launch stays one, word for word."""
    options = [*ASKED, config(tmp_path), "--flag=fault=mtp-auto-on"]
    whole = perf(tmp_path, *options)
    assert whole.code == 1
    run = folder_of(tmp_path)
    path = run / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if b'"what":"complete"' in line)
    path.write_bytes(b"".join(lines[: end + 1]) + lines[end + 1][:50])
    (run / "run.json").unlink()

    resumed = perf(tmp_path, f"--resume={run.name}")
    assert resumed.code == 1
    assert "torn" in resumed.out
    item = "test_mtp_is_off_unless_asked_for[mtp-off-launch1]"
    assert resumed.first_line_of(item) == whole.first_line_of(item)
    after = journal.read(path).entries
    assert [(e.arm, e.number) for e in after if isinstance(e, Launching)].count(("mtp-off", 1)) == 1
    assert verdicts(resumed) == verdicts(whole)


def verdicts(ran: Ran) -> list[tuple[str, str, str, str]]:
    return [(v["question"], v["arm"], v["metric"], v["word"]) for v in ran.run["verdicts"]]


def half_run(tmp_path: Path, *options: str) -> Path:
    """A run that ended after its first launch."""
    perf(tmp_path, "--launches=1", "--rounds=2", "-k", "decode", *options)
    run = folder_of(tmp_path)
    lines = (run / journal.NAME).read_bytes().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if b'"what":"complete"' in line)
    (run / journal.NAME).write_bytes(b"".join(lines[: end + 1]))
    (run / "run.json").unlink()
    return run


def test_another_run_is_not_resumed_and_what_differs_is_said(tmp_path):
    run = half_run(tmp_path, config(tmp_path))
    kept = (run / journal.NAME).read_bytes()

    other = perf(tmp_path, f"--resume={run}", "--rounds=3")
    assert other.code == 4
    assert "--rounds was 2, is 3" in other.out

    other = perf(tmp_path, f"--resume={run}", "--flag=max-running-requests=3")
    assert other.code == 4
    assert "max-running-requests=3" in other.out

    config(tmp_path, more='env = { NCCL_ALGO = "Ring" }')
    other = perf(tmp_path, f"--resume={run}")
    assert other.code == 4
    assert "NCCL_ALGO=Ring" in other.out
    assert (run / journal.NAME).read_bytes() == kept
    assert not servers_of(tmp_path)


def test_another_build_is_not_resumed_and_what_differs_is_said(tmp_path):
    run = half_run(tmp_path, config(tmp_path))
    path = run / journal.NAME
    found = journal.read(path).entries
    lines = [journal.line_of(_older(entry)) for entry in found]
    path.write_bytes(b"".join(lines))
    other = perf(tmp_path, f"--resume={run}")
    assert other.code != 0
    assert "sglang: 0.0.1 ->" in other.out
    assert "put the build back, or begin a new run" in other.out
    assert len([e for e in journal.read(path).entries if isinstance(e, RoundDone)]) == len(
        [e for e in found if isinstance(e, RoundDone)]
    )


def _older(entry: Entry) -> Entry:
    if not isinstance(entry, Ready):
        return entry
    return msgspec.structs.replace(entry, build={**entry.build, "sglang": "0.0.1"})


def test_what_cannot_be_resumed_is_named(tmp_path):
    ran = perf(tmp_path, "--resume=20200101-000000-nowhere", config(tmp_path))
    assert ran.code == 4
    assert "there is no such run" in ran.out
    assert "Traceback" not in ran.out
    old = tmp_path / "results" / "old"
    old.mkdir(parents=True)
    (old / "run.json").write_text(json.dumps({"format": "sglang-perf-run"}))
    ran = perf(tmp_path, f"--resume={old}", config(tmp_path))
    assert ran.code == 4
    assert "journal.jsonl" in ran.out


def test_a_run_that_is_still_going_on_is_not_resumed(tmp_path):
    running = start(tmp_path, *ASKED, config(tmp_path))
    try:
        await_rounds(tmp_path, running, 1)
        run = folder_of(tmp_path)
        other = perf(tmp_path, f"--resume={run}")
        assert other.code == 9
        assert "another run is writing it" in other.out
    finally:
        kill(running)
    must_be_gone(tmp_path)
    assert not journal.read(run / journal.NAME).damage or "torn" in journal.read(run / journal.NAME).damage[0]


def test_results_that_cannot_be_written_are_named_before_anything_is_launched(tmp_path):
    (tmp_path / "results").write_text("a file where a folder should be")
    ran = perf(tmp_path, *ASKED, config(tmp_path))
    assert ran.code == 4  # an option that cannot be: told at the door, in --plan too
    assert "--results" in ran.out
    assert "Traceback" not in ran.out
