"""The workflow files to copy: they are YAML, and what they call exists and takes those options."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.perf.running import ROOT

FILES = sorted((ROOT / "docs" / "ci").glob("*.yml"))


def lines(value: Any) -> list[str]:
    """Every text in a file, one command line each."""
    if isinstance(value, dict):
        return [line for item in value.values() for line in lines(item)]
    if isinstance(value, list):
        return [line for item in value for line in lines(item)]
    return value.splitlines() if isinstance(value, str) else []


def commands(path: Path, program: str) -> list[list[str]]:
    """The command lines of a module, with the target that is there on every machine and a budget."""
    found = []
    for line in lines(yaml.safe_load(path.read_text())):
        plain = re.sub(r'\$\{\{[^}]*target[^}]*\}\}|"\$TARGET"', "simulator", line)
        plain = re.sub(r'\$\{\{[^}]*budget[^}]*\}\}|"\$BUDGET"', "gate", plain)
        if called := re.search(rf"python -m {program} ([^;}}]*)", plain):
            found.append(shlex.split(called[1]))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_workflow_calls_is_taken(path: Path, tmp_path: Path) -> None:
    (gate,) = commands(path, "pytest")
    assert "--require-baseline" in gate
    assert "--minutes" in gate
    options = [word for word in gate if not word.startswith(("--junitxml", "--alluredir"))]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--plan", f"--results={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mtp-on" in done.stdout


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_jobs_limit_is_above_twice_the_suites_own(path: Path) -> None:
    """Exit status 8 is tried once more: both tries must fit."""
    text = path.read_text()
    minutes = max(int(found) for found in re.findall(r"--minutes (\d+)", text))
    hours = re.search(r"timeout: (\d+)h (\d+)m", text)
    limit = (
        int(hours[1]) * 60 + int(hours[2]) if hours else int(re.findall(r"timeout-minutes: (\d+)", text)[0])
    )
    assert limit > 2 * minutes
