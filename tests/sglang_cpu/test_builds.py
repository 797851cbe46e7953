"""What may be said of two builds of genuine SGLang, and what may not: the check that `tests.sglang_cpu.builds` ends with."""

import re
from dataclasses import replace
from typing import Any

import pytest

from suite.gate import Estimate, Verdict
from tests.sglang_cpu.builds import Told, shortcomings


def _verdict(word: str, change: float = 0.0, half: float = 0.01) -> Verdict:
    estimate = Estimate("acceptance length", "tokens/step", 2.8, 2.8, change, change - half, change + half)
    where: Any = ("acceptance_length[code-t0]", "mtp-on", "acceptance_length", word)
    return Verdict(*where, f"acceptance length {change:+.1%}", "64 prompts", estimate, 0.02, "", 1)


GOOD = {
    "again": Told("again", (_verdict("pass"),), "GO"),
    "0.5.20": Told("0.5.20", (_verdict("pass"),), "GO"),
    "float32": Told("float32", (_verdict("pass", 0.017, 0.03),), "GO"),
    "from float32": Told("from float32", (_verdict("inconclusive", -0.017, 0.03),), "NOT JUDGED"),
    "noisier head": Told(
        "noisier head",
        (_verdict("regression", -0.07),),
        "NO-GO: fewer drafts are accepted, acceptance length -7 %",
    ),
}


def test_what_must_be_said_is_enough():
    assert shortcomings(list(GOOD.values())) == []


@pytest.mark.parametrize(
    ("name", "told", "complaint"),
    [
        ("again", {"acceptance": (_verdict("inconclusive"),)}, "again, .* must pass"),
        ("again", {"acceptance": (_verdict("pass", 0.015, 0.001),)}, "interval that holds 0"),
        ("0.5.20", {"acceptance": (_verdict("regression", -0.05),)}, r"0\.5\.20, .* must pass"),
        ("float32", {"acceptance": (_verdict("improvement", 0.03),)}, "neither worse nor better"),
        ("from float32", {"acceptance": (_verdict("regression", -0.03),)}, "neither worse nor better"),
        ("noisier head", {"acceptance": (_verdict("pass"),)}, "must be called a regression"),
        ("noisier head", {"sentence": "NO-GO: steps take longer"}, "must be named as acceptance"),
        ("float32", {"acceptance": ()}, "there is no verdict on acceptance"),
    ],
)
def test_anything_else_is_a_shortcoming(name, told, complaint):
    wrong = shortcomings(list((GOOD | {name: replace(GOOD[name], **told)}).values()))
    assert any(re.search(complaint, sentence) for sentence in wrong), wrong


def test_steps_are_held_against_a_head_only_where_the_machine_was_quiet():
    both = replace(GOOD["noisier head"], sentence="NO-GO: fewer drafts are accepted; decode steps are slower")
    assert shortcomings(list((GOOD | {"noisier head": both}).values()))
    busy = replace(GOOD["again"], sentence="NO-GO: decode steps are slower")
    assert shortcomings(list((GOOD | {"noisier head": both, "again": busy}).values())) == []
