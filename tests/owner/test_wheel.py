"""The wheel: its commands, and its scenarios run outside of a checkout on the files of whoever runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from suite import packaged
from suite.cli.perf import command
from tests.perf.running import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, unpacked; nothing is fetched."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a copy: what an earlier build left in the checkout would be packed too
    source.mkdir()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    for name in ("suite", "simulator", "scenarios"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    build = [
        *("wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"),
        *("-w", str(folder), str(source)),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *build], capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode and "setuptools" in done.stderr + done.stdout:
        pytest.skip("this environment has no setuptools that can build a wheel")
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "unpacked")
    return folder / "unpacked"


def test_the_wheel_holds_what_runs_and_nothing_of_the_tests(wheel: Path) -> None:
    names = {str(path.relative_to(wheel)) for path in wheel.rglob("*") if path.is_file()}
    shared = {
        name.partition("/scenarios/")[2] for name in names if "/share/sglang-perf-gate/scenarios/" in name
    }
    assert shared == {path.name for path in (ROOT / "scenarios").iterdir() if path.is_file()}
    code = {
        str(path.relative_to(ROOT)) for room in ("suite", "simulator") for path in (ROOT / room).rglob("*.py")
    }
    assert code <= names
    assert {"suite/perf.ini", "suite/config/builtin.toml", "suite/rehearsal/cards.toml"} <= names
    assert not [name for name in names if name.startswith(("tests", "proofs", "scenarios"))]
    (scripts,) = [name for name in names if name.endswith("dist-info/entry_points.txt")]
    assert "sglang-perf-gate = suite.__main__:main" in (wheel / scripts).read_text()


def test_its_scenarios_run_in_a_folder_with_nothing_but_a_suite_toml(wheel: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(wheel)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "suite", *words],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=150, check=False,
        )  # fmt: skip

    nothing = run("doctor")
    assert (nothing.returncode, "init --from" in nothing.stderr) == (2, True)
    made = run("init", "--from", "simulator", "--name", "sim", "--no-doctor")
    assert made.returncode == 0, made.stderr
    assert "next: sglang-perf-gate perf -- --target sim --plan" in made.stdout
    done = run("perf", "--", "-k", "activation", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
    assert {path.name for path in tmp_path.iterdir()} >= {"results", "suite.toml"}


def test_in_a_checkout_it_is_plain_pytest(tmp_path: Path) -> None:
    assert command(["--", "-q"], ROOT)[1:] == ["-m", "pytest", "-m", "perf", "-q"]
    elsewhere = command(["--target", "x"], tmp_path)
    assert elsewhere[-1] == str(ROOT / "scenarios")
    assert ["-c", str(packaged.INI), f"--rootdir={tmp_path}", "-p", "suite.plugin"] == elsewhere[5:10]
    one = tmp_path / "test_own.py"
    one.touch()
    assert command([f"{one}::test_x"], tmp_path)[-1] == f"{one}::test_x"
