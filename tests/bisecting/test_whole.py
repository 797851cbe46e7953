"""A search whose sessions are whole runs of pytest on modelled builds: one that lost most of its speed, one that cannot start."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.__main__ import main
from suite.bisect import journal
from tests.perf.running import config

BUILDS = """
[targets.here.builds.sound]
[targets.here.builds.no-start]
flags = { no-such-flag = true }
[targets.here.builds.slow]
flags = { fault = "slow-decode=0.7" }
"""


def test_sessions_are_runs_of_two_builds_and_their_verdicts_lead_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite_config = config(tmp_path)
    with (tmp_path / "suite.toml").open("a") as file:
        file.write(BUILDS)
    row = ["--good", "sound", "--bad", "slow", "--arm", "mtp-off", f"--results={tmp_path / 'results'}"]
    status = main(["bisect", suite_config, *row, "--", "--budget=quick", "--rounds=2", "--launches=1"])
    said = capsys.readouterr().out
    assert "slow against sound: no-go, " in said
    assert "no-start against sound: cannot start, passed over: " in said
    assert "came with one of 2 builds: no-start, slow" in said
    assert status == 8
    search = journal.load(next((tmp_path / "results").glob("bisect-*")))
    assert [step.word for step in search.steps] == ["no-go", "cannot start"]
    assert 0.4 < (search.steps[0].loss or 0.0) < 0.9
