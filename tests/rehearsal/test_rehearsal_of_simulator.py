"""The simulator's box against what genuine SGLang 0.5.23 resolves for such cards, setting by setting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from suite import config
from suite.rehearsal import recorded
from suite.rehearsal.answers import LATER, Answer
from suite.sglang.server.info import flatten
from tests.rehearsal.simulated import resolved

ROOT = Path(__file__).resolve().parents[2]
MODEL = str(ROOT / "simulator/checkpoints/qwen3.5-397b-a17b-nvfp4")
HERE = Path(__file__).parent

NOT_MODELLED = {"random_seed", "nccl_port", "model_path", "tokenizer_path", "served_model_name"}
"""Drawn anew by each server, or where the files lie."""

AFTER_RESOLUTION = {
    "mtp-headless": "declares no MTP layers",
    "half-memory": "Not enough memory",
    "fa3": "requires SM>=80 and SM<=90",
    "moe-trtllm": "only supported on SM100",
    "moe-deep-gemm": "only supported on SM100",
    "fp4-trtllm": "only supported on SM100",
}
"""Lines that SGLang resolves, and that end when weights, memory or kernels are looked at: no rehearsal sees that."""


def lines() -> Iterator[Any]:
    for file, folder, name in (
        (ROOT / "suite.toml", ROOT / "rehearsals", "blackwell"),
        (ROOT / "suite.toml", ROOT / "rehearsals", "simulator"),
        (HERE / "suite.toml", HERE / "rehearsals", "lines"),
    ):
        target = config.load(file).target(name)
        found = recorded.read(recorded.place(folder, name, "0.5.23"))
        assert set(found.arms) == set(target.arms), f"arms of {name} changed: record its rehearsal again"
        for arm, answer in found.arms.items():
            flags = target.arm_flags(target.arm(arm))
            if flags["model-path"] == target.model:
                flags = flags.merge({"model-path": MODEL})
            yield pytest.param(flags.argv(), answer, id=f"{name}-{arm}")


@pytest.mark.parametrize(("argv", "answer"), list(lines()))
def test_the_simulator_resolves_as_rehearsed(
    argv: list[str], answer: Answer, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    found = resolved(argv)
    arm = request.node.callspec.id.partition("-")[2]
    if answer.word == "refused":
        assert isinstance(found, str), f"SGLang refuses it: {answer.reason}"
        assert found.split(":")[0] == answer.reason.split(":")[0]
        if not answer.reason.startswith("AssertionError: sglang/"):  # a bare assert, which has no words
            assert found == answer.reason
        return
    if arm in AFTER_RESOLUTION:
        assert isinstance(found, str)
        assert AFTER_RESOLUTION[arm] in found
        return
    assert isinstance(found, dict), found
    modelled = flatten(found)
    assert set(modelled) - NOT_MODELLED == set(answer.settings) - NOT_MODELLED
    differ = {
        name: (modelled[name], value)
        for name, value in answer.settings.items()
        if name not in NOT_MODELLED and modelled[name] != value
    }
    assert set(differ) <= set(LATER), {name: differ[name] for name in set(differ) - set(LATER)}
