"""Options with a path, in both spellings and from the second run on: the root directory stays this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.perf.running import ROOT, config


def planned(*arguments: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "perf", "--plan", "-p", "no:cacheprovider", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(("spelling", "relative"), [("apart", False), ("apart", True), ("together", True)])
def test_paths_of_options_are_no_paths_of_tests(tmp_path: Path, spelling: str, relative: bool) -> None:
    folder = tmp_path / "with blank"
    folder.mkdir()
    file = config(folder).partition("=")[2]
    given = {"--suite-config": file, "--alluredir": str(folder), "--results": str(folder)}
    if relative:
        given = {name: os.path.relpath(path, ROOT) for name, path in given.items()}
    words = [
        word
        for name, path in given.items()
        for word in ([name, path] if spelling == "apart" else [f"{name}={path}"])
    ]
    out = planned(*words)  # all of them are there, as from the second run on
    assert f"rootdir: {ROOT}\n" in out
    assert "configfile: pyproject.toml" in out
    assert "testpaths: scenarios" in out


def test_a_path_of_tests_beside_them_is_one(tmp_path: Path) -> None:
    config(tmp_path)
    out = planned("--suite-config", str(tmp_path / "suite.toml"), "scenarios/test_activation.py")
    assert f"rootdir: {ROOT}\n" in out
    assert "decode" not in out.partition("configfile")[2].split("leaves out")[0]
