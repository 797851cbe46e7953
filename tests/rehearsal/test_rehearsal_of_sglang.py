"""Genuine SGLang, where its CPU environments are installed: rehearsed as recorded, and as its server then reports."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from suite import config
from suite.hosts import LocalHost
from suite.rehearsal import recorded
from suite.rehearsal.answers import LATER, Rehearsal
from suite.rehearsal.builds import RehearsedBuild
from suite.rehearsal.cards import Cards, parse
from suite.rehearsal.rehearse import rehearse
from suite.servers.runtimes import Runtime
from suite.sglang.flags import parse_argv
from suite.sglang.server import info
from tests.contract.servers import NEXTN, running, sglang_command, sglang_environment
from tests.sglang_cpu import install

ROOT = Path(__file__).resolve().parents[2]
SUITE = config.load(ROOT / "suite.toml")
OF_THIS_LIFE = {"port", "random_seed"}


def python_of(release: str) -> str:
    path = install.home() / f"venv-{release}/bin/python"
    if not path.exists():
        pytest.skip(f"SGLang {release} is not here: python tests/sglang_cpu/install.py --versions {release}")
    return str(path)


def asked(release: str, target: str, cards: Cards | None, arms: list[str]) -> Rehearsal:
    """The arms of a target of suite.toml, by the CPU lane's SGLang."""
    python = python_of(release)
    wanted = SUITE.target(target)
    local = wanted.model_copy(update={"launch": config.ProcessLaunch(python=python), "host": "local"})
    runtime = Runtime(local, LocalHost(), python, cwd=str(ROOT))
    return rehearse(ROOT, wanted, RehearsedBuild(release, runtime, ours=True), cards, arms)


@pytest.mark.parametrize("release", ["0.5.20", "0.5.23"])
def test_another_environment_of_the_same_release_answers_as_recorded(release: str) -> None:
    arms = ["mtp-off", "mtp-on", "mtp-steps-only", "attention-backend.triton"]
    found = asked(release, "blackwell", parse("rtx-pro-6000x8"), arms)
    kept = recorded.read(recorded.place(ROOT / recorded.FOLDER, "blackwell", release))
    assert kept.cards == found.cards
    assert [arm for arm in arms if not recorded.same(found.arms[arm], kept.arms[arm])] == []
    assert (found.flags, found.defaults) == (kept.flags, kept.defaults)
    assert found.imported == [], "a question while importing: who answers it?"


def test_another_card_resolves_otherwise() -> None:
    found = asked("0.5.23", "blackwell", parse("h200x8"), ["mtp-on"])
    kept = recorded.read(recorded.place(ROOT / recorded.FOLDER, "blackwell", "0.5.23"))
    assert not recorded.same(found.arms["mtp-on"], kept.arms["mtp-on"])


@pytest.mark.parametrize("recording", ["0.5.23-off", "0.5.23-nextn"])
def test_rehearsed_without_cards_is_what_a_server_once_reported(recording: str) -> None:
    text = (ROOT / f"tests/probes/answers/{recording}.server_info.json").read_text("utf-8")
    server = info.parse(text, recording)
    assert server.launch_command is not None
    flags = dict(parse_argv(server.launch_command.split()))
    target = SUITE.target("sglang-cpu")
    flags["model-path"] = target.model
    python = python_of(server.version)
    local = target.model_copy(
        update={"flags": flags, "arms": {"it": config.Arm()}, "launch": config.ProcessLaunch(python=python)}
    )
    runtime = Runtime(local, LocalHost(), python, cwd=str(ROOT))
    found = rehearse(ROOT, local, RehearsedBuild(server.version, runtime, ours=True), None).arms["it"]
    differ = {name for name, value in found.settings.items() if server.resolved.get(name) != value}
    machines = {"mem_fraction_static"}  # of another machine's memory
    assert differ - OF_THIS_LIFE - machines - {"model_path", "tokenizer_path"} <= set(LATER)
    assert set(found.settings) - set(server.resolved) - {"random_seed"} == set()


@pytest.mark.skipif(not os.environ.get("SGLANG_CPU_CONTRACT"), reason="starts servers: tox run -e contract")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("arm", ["mtp-off", "mtp-on"])
@pytest.mark.parametrize("release", install.known_versions())
def test_rehearsed_without_cards_is_what_the_server_then_reports(
    release: str, arm: str, tmp_path: Path
) -> None:
    found = asked(release, "sglang-cpu", None, [arm]).arms[arm]
    command = [*sglang_command(release), *(NEXTN if arm == "mtp-on" else [])]
    with running(command, tmp_path / "log", sglang_environment()) as url:
        reported: dict[str, Any] = dict(info.read(url).resolved)
    model = {name for name, value in found.settings.items() if value == SUITE.target("sglang-cpu").model}
    names = (set(found.settings) | set(reported)) - OF_THIS_LIFE - model
    differ = {name for name in names if found.settings.get(name) != reported.get(name)}
    assert differ <= set(LATER)
