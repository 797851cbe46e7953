"""``--minutes N``: over in time, with servers down and a verdict on what there was, whatever overruns."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from suite.session import journal
from suite.session.entries import Launching, RoundDone
from suite.session.fold import told
from suite.session.plan import LaunchId
from tests.perf.running import Ran, config, perf, servers_of
from tests.perf.test_killed import folder_of

FAST = "start_estimate_s = 1.0\nbudgets = { quick = { round_estimate_s = 0.5 } }"
"""What the simulator takes, about."""


@pytest.fixture(autouse=True)
def marked(tmp_path, monkeypatch):
    """Servers of these runs carry a mark in their environment."""
    monkeypatch.setenv("PERF_TEST_MARK", str(tmp_path))


def within(minutes: float, tmp_path: Path, *options: str) -> Ran:
    """Run with ``--minutes``; it must be over by then, with nothing left."""
    began = time.monotonic()
    ran = perf(tmp_path, f"--minutes={minutes}", *options)
    took = time.monotonic() - began
    # a busy machine may be late in telling this process
    assert took < minutes * 60 + 5.0, f"{took:.0f} s\n{ran.out}"
    assert not servers_of(tmp_path)
    assert "Traceback" not in ran.out
    return ran


def test_the_plan_is_cut_before_anything_is_launched_and_what_is_left_out_is_named(tmp_path):
    plan = ("--launches=9", "--rounds=9", "-k", "decode or acceptance_length")
    ran = within(1.0, tmp_path, config(tmp_path, more=FAST), *plan)
    assert ran.code in (0, 8), ran.out
    assert "--minutes 1 leaves out: " in ran.out
    assert "of 9 launches of each arm" in ran.out
    session = ran.run["session"]
    assert session["plan"]["launches"] < 9
    begun = journal.read(folder_of(tmp_path) / journal.NAME).begun
    assert begun is not None
    assert begun.left_out
    asked = {(a["question"], a["arm"]) for a in session["asked"]}
    assert {(s["question"], s["arm"]) for s in session["series"]} <= asked


def test_too_little_time_is_told_and_nothing_is_launched(tmp_path):
    ran = perf(tmp_path, "--minutes=5", config(tmp_path, more="start_estimate_s = 600.0"), "-k", "decode")
    assert ran.code == 4
    assert "the least of this plan takes about" in ran.out
    assert not list((tmp_path / "results").glob("*"))


def test_a_launch_that_hangs_is_broken_off_in_time(tmp_path):
    here = config(tmp_path, ready_s=300.0, more=FAST)
    ran = within(1.0, tmp_path, here, "--rounds=1", "--flag=fault=hang-at-start", "-k", "decode")
    assert ran.code == 8, ran.out
    assert "--minutes 1" in ran.out
    assert "not measured" in ran.out


def test_rounds_that_take_longer_than_estimated_stop_in_time_and_what_there_is_counts(tmp_path):
    """The configuration believes that a round takes no time at all."""
    cheap = FAST.replace("0.5", "0.001")
    ran = within(1.0, tmp_path, config(tmp_path, more=cheap), "--rounds=400", "-k", "decode and off")
    assert ran.code == 8, ran.out
    entries = journal.read(folder_of(tmp_path) / journal.NAME).entries
    rounds = sum(isinstance(entry, RoundDone) for entry in entries)
    assert 0 < rounds < 400
    assert f"{rounds} of 400 rounds were played" in ran.out
    assert "--minutes 1 leave no more time" in ran.out


def test_what_was_cut_is_resumed_as_cut(tmp_path):
    plan = ("--launches=20", "--rounds=4", "-k", "decode or acceptance_length")
    within(1.0, tmp_path, config(tmp_path, more=FAST), *plan)
    run = folder_of(tmp_path)
    path = run / journal.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    end = next(i for i, line in enumerate(lines) if b'"what":"complete"' in line)
    path.write_bytes(b"".join(lines[: end + 1]))
    resumed = perf(tmp_path, f"--resume={run}")
    assert resumed.code in (0, 8), resumed.out
    after = told(journal.read(path).entries)
    assert after.begun is not None
    assert after.begun.left_out
    assert {LaunchId(e.arm, e.number) for e in after.launches.values()} == after.complete
    session = resumed.run["session"]
    assert session["plan"]["launches"] == after.begun.plan.launches < 20
    assert {(s["question"], s["arm"]) for s in session["series"]} == {
        (a["question"], a["arm"]) for a in session["asked"]
    }


def test_the_next_run_knows_how_long_things_take(tmp_path):
    options = (config(tmp_path), "--launches=1", "--rounds=2", "-k", "decode")
    first = perf(tmp_path, "--plan", *options)
    assert "estimates of suite.toml" in first.out
    assert perf(tmp_path, *options).code == 8, "nothing is judged without a baseline"
    after = perf(tmp_path, "--plan", *options)
    assert "measured in former runs" in after.out
    entries = journal.read(folder_of(tmp_path) / journal.NAME).entries
    launches = sum(isinstance(entry, Launching) for entry in entries)
    rounds = sum(isinstance(entry, RoundDone) for entry in entries)
    assert f"{launches} launches, {rounds} rounds" in after.out


@pytest.mark.skipif("PERF_WHOLE" not in os.environ, reason="a whole run of the simulator: PERF_WHOLE=1")
def test_a_plan_counts_the_launches_and_rounds_that_a_whole_run_has(tmp_path):
    planned = perf(tmp_path, "--plan").out
    ran = perf(tmp_path)
    entries = journal.read(folder_of(tmp_path) / journal.NAME).entries
    launches = sum(isinstance(entry, Launching) for entry in entries)
    rounds = sum(isinstance(entry, RoundDone) for entry in entries)
    assert f"{launches} launches, {rounds} rounds" in planned, ran.out
