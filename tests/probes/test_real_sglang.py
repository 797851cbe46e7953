"""The doctor on real SGLang on the CPU: what its own source and its own argument handling say, without a launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from suite import config, doctor
from suite.config import Arm

ROOT = Path(__file__).parents[2]


SIX: dict[str, Any] = {
    "speculative-algo": "NEXTN",
    "speculative-num-steps": 4,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 6,
}


def test_real_sglang_is_fit_and_each_arm_resolves_as_sglang_itself_says() -> None:
    suite = config.load(ROOT / "suite.toml")
    whole = suite.target("sglang-cpu")
    launch = whole.launch
    assert isinstance(launch, config.ProcessLaunch)
    if not (ROOT / launch.interpreter).exists():
        pytest.skip("real SGLang is not installed: python tests/sglang_cpu/install.py")
    arms = {
        "off": Arm(name="off"),
        "on": Arm(name="on", flags={"speculative-algorithm": "nextn"}),
        "half": Arm(name="half", flags={"speculative-num-steps": 3}),
        "six": Arm(name="six", flags=SIX),
        "short": Arm(name="short", flags={"speculative": "NEXTN"}),
        "removed": Arm(name="removed", flags={"mamba-scheduler-strategy": "no_buffer"}),
    }
    lines = list(doctor.examine(suite, whole.model_copy(update={"arms": arms})))
    said = {line.what: line.said for line in lines}
    assert said["sglang"].startswith("0.5.23 in ")
    assert any(
        line.what == "source" and "nothing switches speculation on by itself" in line.said for line in lines
    )
    assert [line.said for line in lines if line.what == "arms"] == [
        "speculation off: off, half",
        "EAGLE, 3 steps, topk 1, 4 draft tokens: on",
        "EAGLE, 4 steps, topk 1, 5 draft tokens: six",
    ]
    problems = {line.what: line for line in lines if line.status == "problem"}
    assert problems.keys() == {"arm short", "arm removed"}
    assert "ambiguous option: --speculative could match" in problems["arm short"].said
    assert "unrecognized arguments: --mamba-scheduler-strategy" in problems["arm removed"].said
    assert "mamba-radix-cache-strategy" in problems["arm removed"].todo
