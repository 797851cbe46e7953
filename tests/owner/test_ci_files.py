"""The workflow files to copy, run: what they ask of the suite is taken, 8 is asked once more, a cancelled job keeps what there is."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.perf.running import ROOT

CI = ROOT / "docs" / "ci"
FILES = sorted(CI.glob("*.yml"))

PYTHON = """#!/bin/sh
echo "$@" >> calls
if [ "$2" = suite ]; then exit {known}; fi
mkdir -p "$RESULTS/a-run"; echo '## NO-GO: x' > "$RESULTS/a-run/summary.md"; touch "$RESULTS/a-run/journal.jsonl"
trap 'touch ended; exit 2' TERM
{wait}
exit $(head -1 codes; sed -i 1d codes)
"""
"""In place of the suite's interpreter: notes what it is asked, leaves a run, and ends as `codes` says, try by try."""

GH = """#!/bin/sh
echo "$@" >> asked
[ "$2" != list ] || echo {number}
"""


def gate(where: Path, *codes: int, known: int = 0, wait: str = "", **variables: str) -> subprocess.Popen[str]:
    """docs/ci/gate.sh with that interpreter."""
    fake(where / "python", PYTHON.format(known=known, wait=wait))
    (where / "codes").write_text("".join(f"{code}\n" for code in codes))
    told = {
        "TARGET": "simulator",
        "CANDIDATE": "0.5.24",
        "MINUTES": "9",
        "RESULTS": str(where / "results"),
        "PYTHON": str(where / "python"),
    }
    environ = {**os.environ, **told, **variables}
    return subprocess.Popen(["bash", str(CI / "gate.sh")], cwd=where, env=environ, text=True)


def fake(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def calls(where: Path) -> list[str]:
    """What pytest was asked, try by try."""
    return [line for line in (where / "calls").read_text().splitlines() if line.startswith("-m pytest")]


@pytest.mark.parametrize(
    ("codes", "tries", "status"), [((0,), 1, 0), ((1,), 1, 1), ((9,), 1, 9), ((8, 0), 2, 0), ((8, 8), 2, 8)]
)
def test_what_cannot_be_told_is_asked_once_more(
    tmp_path: Path, codes: tuple[int, ...], tries: int, status: int
) -> None:
    assert gate(tmp_path, *codes).wait(60) == status
    assert len(calls(tmp_path)) == tries
    assert (tmp_path / "run" / "a-run" / "summary.md").exists()


def test_a_candidate_takes_turns_with_the_last_good_build(tmp_path: Path) -> None:
    gate(tmp_path, 0).wait(60)
    (asked,) = calls(tmp_path)
    assert "--reference known-good --candidate 0.5.24 --minutes 9" in asked
    assert "--require-baseline" not in asked


def test_until_a_build_has_passed_the_box_is_held_to_its_baselines(tmp_path: Path) -> None:
    """As it is asked then, the suite takes it."""
    gate(tmp_path, 0, known=2, BUDGET="gate").wait(60)
    (asked,) = calls(tmp_path)
    options = [word for word in asked.split() if not word.startswith(("--junitxml", "--alluredir"))]
    assert "--require-baseline" in options
    done = subprocess.run(
        [sys.executable, *options, "--plan"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mtp-on" in done.stdout


def test_a_cancelled_job_ends_the_suite_and_keeps_what_there_is(tmp_path: Path) -> None:
    job = gate(tmp_path, 8, 8, wait="sleep 60 & wait")
    while not (tmp_path / "results" / "a-run" / "journal.jsonl").exists():
        time.sleep(0.05)
    time.sleep(0.2)
    job.send_signal(signal.SIGTERM)
    assert job.wait(60) == 2
    assert (tmp_path / "ended").exists()
    assert (tmp_path / "run" / "a-run").is_dir()
    assert len(calls(tmp_path)) == 1


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_jobs_limit_is_above_twice_the_suites_own(path: Path) -> None:
    """Exit status 8 is tried once more: both tries must fit."""
    text = path.read_text()
    minutes = int(re.findall(r"MINUTES: \"?(\d+)", text)[0])
    hours = re.search(r"timeout: (\d+)h (\d+)m", text)
    limit = (
        int(hours[1]) * 60 + int(hours[2]) if hours else int(re.findall(r"timeout-minutes: (\d+)", text)[0])
    )
    assert limit > 2 * minutes


@pytest.mark.parametrize(("number", "does"), [("", "issue create"), ("7", "issue comment 7")])
def test_a_finding_has_one_issue(tmp_path: Path, number: str, does: str) -> None:
    """The step as it stands in the file; `gh` is a stand-in, so that its own query is not run."""
    fake(tmp_path / "gh", GH.format(number=number))
    run = tmp_path / "run" / "20261201-020000-blackwell"
    run.mkdir(parents=True)
    sentence = "NO-GO for sglang==0.5.24 in place of 0.5.23: decode\\_throughput slower, time per step +5.5 %: 12 figures"
    (run / "summary.md").write_text(f"## {sentence}\n")
    script = next(step["run"] for step in steps() if "gh issue" in step.get("run", ""))
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TARGET": "blackwell"}
    subprocess.run(["bash", "-e", "-c", script], cwd=tmp_path, env=environ, timeout=60, check=True)
    listed, done = (tmp_path / "asked").read_text().splitlines()
    assert listed.startswith("issue list --state open")
    assert done.startswith(does)
    assert "--body-file run/20261201-020000-blackwell/summary.md" in done
    if not number:
        assert "--title Performance of blackwell: NO-GO: decode_throughput slower --body-file" in done


def steps() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((CI / "github.yml").read_text())["jobs"]["gate"]["steps"]
    return found


def test_both_files_run_the_gate_keep_its_run_and_one_at_a_time() -> None:
    github, gitlab = (yaml.safe_load((CI / name).read_text()) for name in ("github.yml", "gitlab.yml"))
    assert any("docs/ci/gate.sh" in step.get("run", "") for step in steps())
    assert "bash docs/ci/gate.sh" in gitlab["perf-gate"]["script"]
    uploads = [step for step in steps() if "upload-artifact" in step.get("uses", "")]
    assert [step["if"] for step in uploads] == ["always()"]
    assert "run" in uploads[0]["with"]["path"].split()
    assert gitlab["perf-gate"]["artifacts"]["when"] == "always"
    assert github["concurrency"]["cancel-in-progress"] is False
    assert gitlab["perf-gate"]["resource_group"]
