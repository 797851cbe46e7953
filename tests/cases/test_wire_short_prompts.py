"""A checkpoint or release that is broken on short prompts only: text completions of chosen lengths see it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suite.questions import canary
from suite.questions.lossless import GreedyAnswer, GreedyAnswers, lost_lengths
from suite.questions.text_completions import SHORT, sizes
from suite.session.outcomes import BrokenPromise
from suite.session.plan import CANDIDATE, LaunchId
from tests.perf.running import MODEL, ROOT, Ran, perf

CONFIG = """
default_target = "here"
[arms.mtp-off]
[arms.mtp-on]
flags = {{ speculative-algorithm = "NEXTN" }}
[budgets.quick]
launches = 1
rounds = 1
max_tokens = 48
requests = 2
warmup_requests = 0
lossless_prompts = 2
canary_questions = 4
scenarios = ["lossless", "canary"]
[targets.here]
model = "{model}"
timeouts = {{ ready_s = 30.0, drain_s = 2.0, request_s = 20.0, stall_s = 5.0 }}
launch = {{ kind = "process", module = "simulator", cwd = "{root}" }}
flags = {{ enable-metrics = true, page-size = 24, chunked-prefill-size = 200 }}
env = {{ SIMULATED_FAULT = "{fault}" }}
"""


def run(tmp_path: Path, fault: str) -> Ran:
    path = tmp_path / "suite.toml"
    path.write_text(CONFIG.format(model=MODEL, root=ROOT, fault=fault))
    return perf(tmp_path, f"--suite-config={path}", "-q")


@pytest.mark.parametrize("fault", ["short-prompts=20", "short-prompts=3"])
def test_it_is_seen_and_said(tmp_path: Path, fault: str) -> None:
    ran = run(tmp_path, fault)
    assert ran.code == 1, ran.out
    said = ran.first_line_of("mtp_does_not_change_answers[mtp-on")
    assert "MTP changes the answers to short text completions" in said


def test_the_canary_sees_it_beside_the_arm_without_mtp(tmp_path: Path) -> None:
    ran = run(tmp_path, "short-prompts=20")
    assert "short text completions right, in mtp-off" in ran.first_line_of("answers_are_right[mtp-on")


def test_a_sound_server_answers_alike_in_every_length(tmp_path: Path) -> None:
    ran = run(tmp_path, "")
    assert ran.code == 0, ran.out


def test_one_length_may_be_a_near_tie_and_neighbours_are_not() -> None:
    def answers(*wrong: int) -> dict[str, GreedyAnswer]:
        ways = ("alone", "in a batch")
        return {
            f"text completion of {size} tokens, {way}": GreedyAnswer("xx" if size in wrong else "ab cd", 12)
            for size in SHORT
            for way in ways
        }

    assert lost_lengths(answers(), answers()) == []
    assert lost_lengths(answers(), answers(7)) == [7]
    assert lost_lengths(answers(), answers(2, 16)) in ([2], [16])
    assert lost_lengths(answers(), answers(1, 2, 3, 16)) == [1, 2, 3]
    half = answers() | {"text completion of 7 tokens, alone": GreedyAnswer("xx", 12)}
    assert lost_lengths(answers(), half) == []


@pytest.mark.parametrize(("wrong", "broken"), [((), False), ((1, 2, 3, 16), False), ((1, 2, 3, 7), True)])
def test_a_candidate_answers_short_texts_as_the_reference_but_for_near_ties(
    wrong: tuple[int, ...], broken: bool
) -> None:
    def answers(*lost: int) -> dict[str, GreedyAnswer]:
        return {
            f"text completion of {size} tokens, {way}": GreedyAnswer("xx" if size in lost else "ab cd", 12)
            for size in SHORT
            for way in ("alone", "in a batch")
        }

    served: Any = SimpleNamespace(launch_id=LaunchId("mtp-off", 1, CANDIDATE))
    asked = GreedyAnswers(served, {"mtp-off": answers(*wrong)}, 4, 48, {"mtp-off": answers()})
    with pytest.raises(BrokenPromise, match="short text completions") if broken else contextlib.nullcontext():
        asked.must_be_as_on_the_reference()
    alone = GreedyAnswers(served, {"mtp-off": answers(*wrong)}, 4, 48)
    alone.must_be_as_on_the_reference()  # of one build there is none to be as


def test_sizes_stand_around_pages_and_chunks() -> None:
    assert {63, 64, 65, 511, 512, 513} <= set(sizes({"page_size": 64, "chunked_prefill_size": 512}))
    assert sizes({"page_size": 1, "chunked_prefill_size": -1}) == sorted(SHORT)
    assert sizes({"chunked_prefill_size": 8192}) == sorted(SHORT)
    assert max(sizes({"context_length": 40})) <= 40 - 13


def test_texts_that_go_on_in_one_way() -> None:
    found = canary.continued(4)
    assert [q.text for q in found] == ["2 + 3 =", "2, 3, 4, 5,", "4 + 7 =", "4, 5, 6, 7,"]
    assert [q.right(answer) for q, answer in zip(found, (" 5", " 6, 7", " 12", "no"), strict=True)] == [
        True,
        True,
        False,
        False,
    ]
