"""What lies between two builds: asked of the index, of git and of suite.toml; what is not known is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from suite import config
from suite.bisect import row
from suite.builds import BuildError, environments

TOML = """
default_target = "t"
[targets.t]
model = "m"
[targets.t.launch]
kind = "process"
python = "python"
[targets.t.builds.monday]
[targets.t.builds.tuesday]
flags = { fault = "slow-decode=0.04" }
[targets.t.builds.wednesday]
"""
INDEX = ["0.5.24.dev20261202+gabcdef1", "0.5.24.dev20261130+gabcdef2", "0.5.23", "0.5.22.post1", "0.5.22",
         "0.5.21", "0.5.21rc1", "0.5.20", "0.5.19"]  # fmt: skip


@pytest.fixture
def suite(tmp_path: Path) -> config.Suite:
    path = tmp_path / "suite.toml"
    path.write_text(TOML)
    return config.load(path)


def between(suite: config.Suite, good: str, bad: str, *named: str) -> list[str]:
    return row.between(good, bad, named, suite, suite.target("t"))


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "versions", lambda *more: [v for v in INDEX if more or ".dev" not in v])


@pytest.mark.usefixtures("index")
def test_releases_between_two_are_those_of_the_index_in_order(suite: config.Suite) -> None:
    assert between(suite, "sglang==0.5.20", "0.5.23") == [
        "sglang==0.5.20", "sglang==0.5.21", "sglang==0.5.22", "sglang==0.5.22.post1", "0.5.23",
    ]  # fmt: skip


@pytest.mark.usefixtures("index")
def test_nightlies_are_the_days_that_the_index_has(suite: config.Suite) -> None:
    ends = ("nightly:2026-11-29", "nightly:2026-12-03")
    assert between(suite, *ends) == [ends[0], "nightly:2026-11-30", "nightly:2026-12-02", ends[1]]


def test_names_are_searched_in_the_order_of_the_file(suite: config.Suite) -> None:
    assert between(suite, "monday", "wednesday") == ["monday", "tuesday", "wednesday"]


def test_a_list_stands_for_itself(suite: config.Suite) -> None:
    assert between(suite, "monday", "0.5.23", "a/image:nightly-1", "0.5.22") == [
        "monday", "a/image:nightly-1", "0.5.22", "0.5.23",
    ]  # fmt: skip


def test_commits_are_those_of_the_branch(suite: config.Suite, tmp_path: Path) -> None:
    repository = tmp_path / "sglang"

    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        command = ["git", "-C", str(repository), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    repository.mkdir()
    git("init", "-q")
    commits = []
    for number in range(3):
        git("commit", "-q", "--allow-empty", "-m", str(number))
        commits.append(git("rev-parse", "HEAD"))
    found = between(suite, f"{repository}@{commits[0]}", str(repository))
    assert found == [f"{repository}@{commit}" for commit in commits]
    with pytest.raises(BuildError, match="not later"):
        between(suite, f"{repository}@{commits[2]}", f"{repository}@{commits[0]}")
    with pytest.raises(BuildError, match="rev-list"):
        between(suite, f"{repository}@no-such", str(repository))


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ("0.5.23", "0.5.20", "not a later release"),
        ("nightly:2026-12-01", "nightly:2026-11-30", "not later"),
        ("wednesday", "monday", "declared before"),
        ("0.5.20", "an/image:v1", "what lies between .* is not known"),
        ("0.5.20", "nothing-like-it", "no build"),
    ],
)
def test_ends_that_span_no_row_are_refused(suite: config.Suite, good: str, bad: str, said: str) -> None:
    with pytest.raises(BuildError, match=said):
        between(suite, good, bad)
