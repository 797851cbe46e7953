"""What a build may be called, and what is launched for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from suite import builds, config
from suite.builds import BuildError
from suite.config import ConfigError

PLAIN = {
    "default_target": "box",
    "builds": {
        "patched": {"python": "/opt/patched/bin/python", "env": {"SGLANG_X": "1"}},
        "slower": {"flags": {"fault": "slow-decode=0.05"}},
    },
    "targets": {"box": {"model": "/models/m", "flags": {"tp-size": 2}, "env": {"A": "1"}}},
}


def _suite(tmp_path: Path, **target: object) -> config.Suite:
    data = {**PLAIN, "targets": {"box": {**PLAIN["targets"]["box"], **target}}}  # type: ignore[index]
    return config.parse(data, tmp_path / "suite.toml")


def _resolved(suite: config.Suite, text: str) -> builds.Build:
    return builds.resolve(text, suite, suite.target(), lambda line: None)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("sglang==0.5.23", "version", "0.5.23"),
        ("0.5.23.post1", "version", "0.5.23.post1"),
        ("nightly:2026-11-30", "nightly", "2026-11-30"),
        ("nightly-2026-11-30", "nightly", "2026-11-30"),
        ("lmsysorg/sglang:v0.5.23-cu129", "image", "lmsysorg/sglang:v0.5.23-cu129"),
        ("lmsysorg/sglang@sha256:" + "a" * 64, "image", "lmsysorg/sglang@sha256:" + "a" * 64),
        ("localhost:5000/sglang:x", "image", "localhost:5000/sglang:x"),
        ("patched", "python", "/opt/patched/bin/python"),
        (sys.executable, "python", sys.executable),
    ],
)
def test_each_form_is_read_as_what_it_is(text: str, key: str, value: str, tmp_path: Path) -> None:
    table = builds.read(text, _suite(tmp_path).target(), tmp_path)
    assert getattr(table, key) == value
    others = {"version", "nightly", "python", "image", "checkout"} - {key}
    assert all(getattr(table, other) is None for other in others)


def test_a_virtual_environment_is_named_by_its_folder(tmp_path: Path) -> None:
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(sys.executable)
    suite = _suite(tmp_path)
    build = _resolved(suite, "venv")
    assert isinstance(build.launch, config.ProcessLaunch)
    assert build.launch.python == str(
        tmp_path / "venv/bin/python"
    )  # not what the link leads to: that has no SGLang


@pytest.mark.parametrize("text", ["slowr", "no/such/python", "sglang>=0.5", "", "nightly:yesterday"])
def test_what_is_no_build_is_told_with_the_forms(text: str, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="A build is a release"):
        _resolved(_suite(tmp_path), text)


def test_a_mistyped_name_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="did you mean 'slower'"):
        _resolved(_suite(tmp_path), "slowr")


def test_a_build_changes_what_it_names_and_leaves_the_rest(tmp_path: Path) -> None:
    launch = {"kind": "process", "python": "python3", "wrapper": ["numactl", "-N0"]}
    suite = _suite(tmp_path, launch=launch)
    target = suite.target()
    slower = _resolved(suite, "slower").on(target)
    assert slower.launch == target.launch
    assert slower.base_flags() == target.base_flags().merge({"fault": "slow-decode=0.05"})
    here = _resolved(suite, sys.executable).on(target)
    assert here.launch == target.launch.model_copy(update={"python": sys.executable})
    assert (here.flags, here.env) == (target.flags, target.env)
    assert _resolved(suite, "own").on(target) == target


def test_an_image_takes_the_model_along_where_the_target_launches_no_container(tmp_path: Path) -> None:
    launch = _resolved(_suite(tmp_path), "lmsysorg/sglang:v0.5.23").launch
    assert isinstance(launch, config.DockerLaunch)
    assert (launch.image, launch.mounts) == ("lmsysorg/sglang:v0.5.23", ["/models/m:/models/m:ro"])
    docker = {"kind": "docker", "image": "old", "mounts": ["/m:/m"], "options": ["--shm-size=1g"]}
    launch = _resolved(_suite(tmp_path, launch=docker), "lmsysorg/sglang:v0.5.23").launch
    assert isinstance(launch, config.DockerLaunch)
    assert (launch.image, launch.mounts, launch.options) == (
        "lmsysorg/sglang:v0.5.23",
        ["/m:/m"],
        ["--shm-size=1g"],
    )


def test_a_target_says_how_a_version_is_had(tmp_path: Path) -> None:
    (tmp_path / "venv-0.5.20/bin").mkdir(parents=True)
    (tmp_path / "venv-0.5.20/bin/python").symlink_to(sys.executable)
    suite = _suite(tmp_path, versions={"python": "venv-{version}/bin/python"})
    build = _resolved(suite, "sglang==0.5.20")
    assert isinstance(build.launch, config.ProcessLaunch)
    assert build.launch.python == str(tmp_path / "venv-0.5.20/bin/python")
    suite = _suite(tmp_path, versions={"flags": {"sglang-version": "{version}"}})
    build = _resolved(suite, "0.5.20")
    assert (build.launch, build.flags) == (None, {"sglang-version": "0.5.20"})


def test_nothing_can_be_made_on_another_machine_or_of_somebody_elses_server(tmp_path: Path) -> None:
    far = config.parse(
        {
            **PLAIN,
            "hosts": {"far": {"ssh": "far"}},
            "targets": {"box": {"model": "/m", "host": "far"}},
        },
        tmp_path / "suite.toml",
    )
    with pytest.raises(BuildError, match="install it there"):
        _resolved(far, "sglang==0.5.23")
    assert _resolved(far, "patched").launch == config.ProcessLaunch(python="/opt/patched/bin/python")
    attached = _suite(tmp_path, launch={"kind": "attach", "url": "http://127.0.0.1:30000"})
    with pytest.raises(BuildError, match="running server"):
        _resolved(attached, "own")


def test_the_known_good_build_is_asked_for_where_it_is_named(tmp_path: Path) -> None:
    suite = _suite(tmp_path)
    table = config.BuildTable(name="known-good", python=sys.executable)
    build = builds.resolve("known-good", suite, suite.target(), lambda line: None, lambda: table)
    assert isinstance(build.launch, config.ProcessLaunch)
    assert build.launch.python == sys.executable


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"version": "0.5.23", "image": "x:y"}, "version and image"),
        ({"commit": "abc"}, "no checkout"),
        ({"verison": "0.5.23"}, "did you mean 'version'"),
    ],
)
def test_a_table_that_is_no_build_is_refused_in_words(
    table: dict[str, str], said: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=said):
        config.parse({**PLAIN, "builds": {"bad": table}}, tmp_path / "suite.toml")


def _commit(folder: Path, text: str) -> str:
    (folder / "version.txt").write_text(text)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", text], check=True)
    return subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()


def test_a_commit_is_taken_into_a_tree_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from suite.builds import checkouts, environments

    monkeypatch.setenv(environments.CACHE_VARIABLE, str(tmp_path / "cache"))
    source = tmp_path / "source"
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    first, second = _commit(source, "one"), _commit(source, "two")
    trees = {commit: checkouts.taken(source, commit[:9], lambda line: None) for commit in (first, second)}
    (source / "version.txt").write_text("edited")
    assert [(trees[c] / "version.txt").read_text() for c in (first, second)] == ["one", "two"]
    table = builds.read(f"{source}@{first[:9]}", _suite(tmp_path).target(), Path(os.sep))
    assert (table.checkout, table.commit) == (str(source), first[:9])
    with pytest.raises(BuildError, match="rev-parse"):
        checkouts.taken(source, "0" * 40, lambda line: None)


def test_packages_after_a_comma_are_exchanged(tmp_path: Path) -> None:
    target = _suite(tmp_path).target()
    table = builds.read("sglang==0.5.23,torch==2.9.1, triton>=3.5", target, tmp_path)
    assert (table.version, table.packages) == ("0.5.23", ["torch==2.9.1", "triton>=3.5"])
    assert table.name == "sglang==0.5.23,torch==2.9.1, triton>=3.5"
    with pytest.raises(BuildError, match="names no package"):
        builds.read("sglang==0.5.23,--index-url=x", target, tmp_path)
