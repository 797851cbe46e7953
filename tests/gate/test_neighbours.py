"""Sessions that are each of another build: what they tell of the spread, and that one step does not hide in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import Key, judge
from suite.gate.neighbours import CERTAIN, EXPECTED, MOST, WORTH, about_one_step
from tests.gate.builds import recorded, run
from tests.gate.sessions import QUESTION, session
from tests.gate.sessions import recorded as plain_recorded

SPEED = Key("decode_throughput[c1]", "mtp-on", "output_tokens_per_s")
DRAWS = 40_000


@pytest.mark.parametrize("number", sorted(EXPECTED))
def test_the_variance_is_unbiased_and_worth_what_it_says(number: int) -> None:
    rng = np.random.default_rng(number)
    x = rng.standard_normal((DRAWS, number, 1))
    total, df = about_one_step(x)
    variance = (total / df)[:, 0]
    unsure = variance < 10  # the few draws that look like a sure step count otherwise
    assert variance[unsure].mean() == pytest.approx(1.0, abs=0.02)
    assert df[0, 0] == WORTH[number]
    assert 2 / variance.var() == pytest.approx(WORTH[number], rel=0.06)


@pytest.mark.parametrize("number", sorted(EXPECTED))
def test_a_step_that_is_not_there_is_sure_once_in_200(number: int) -> None:
    x = np.random.default_rng(number).standard_normal((DRAWS, number, 1))
    sure = _left(x) * CERTAIN[number] < ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    assert sure.mean() == pytest.approx(0.005, abs=0.0015)


def _left(x: np.ndarray) -> np.ndarray:
    """What is left about the best step or the best session taken out, by trying them all."""
    number = x.shape[1]
    splits = [(x[:, :k], x[:, k:]) for k in range(number)] + [
        (x[:, k : k + 1], np.delete(x, k, axis=1)) for k in range(number)
    ]
    squares = [
        sum(((part - part.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) for part in pair if part.shape[1])
        for pair in splits
    ]
    return np.min(squares, axis=0)


@pytest.mark.parametrize("number", [6, 8, 10])
@pytest.mark.parametrize("kind", ["step", "one session apart"])
def test_one_step_neither_hides_nor_swells_the_spread(number: int, kind: str) -> None:
    x = np.random.default_rng(1).standard_normal((4000, number, 1))
    if kind == "step":
        x[:, number // 2 :] += 30
    else:
        x[:, number // 2] += 30
    total, df = about_one_step(x)
    assert (total / df).mean() == pytest.approx(1.0, abs=0.1)


def test_two_steps_do_swell_it() -> None:
    x = np.random.default_rng(1).standard_normal((500, 9, 1))
    x[:, 3:6] += 30
    total, df = about_one_step(x)
    assert (total / df).min() > 20


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.floats(-1, 1), min_size=5, max_size=10), st.floats(-5, 5), st.sampled_from([-3.0, 0.5, 2.0])
)
def test_level_sign_and_direction_of_time_do_not_matter(
    values: list[float], shift: float, scale: float
) -> None:
    x = np.array(values)[None, :, None]
    total = about_one_step(x).total
    assert about_one_step(x + shift).total == pytest.approx(total, abs=1e-9)
    assert about_one_step(x[:, ::-1]).total == pytest.approx(total, abs=1e-9)
    assert about_one_step(x * scale).total == pytest.approx(scale**2 * total, abs=1e-9)


def test_only_the_last_ten_count_and_gaps_are_skipped() -> None:
    x = np.random.default_rng(2).standard_normal((1, MOST, 1))
    longer = np.concatenate([100 + x[:, :3], x], axis=1)
    assert about_one_step(longer).total == pytest.approx(about_one_step(x).total)
    gaps = np.insert(x, [2, 5, 5], np.nan, axis=1)
    assert about_one_step(gaps).total == pytest.approx(about_one_step(x).total)


def test_four_sessions_tell_nothing() -> None:
    assert about_one_step(np.zeros((2, 4, 3))).df.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("nights", [5, 7])
def test_nightlies_find_slower_steps_and_let_others_pass(tmp_path: Path, nights: int) -> None:
    store = recorded(tmp_path, [f"night{i}" for i in range(nights)], prompts=256)
    for build in ("a", "b"):
        same, slow = run("new", build, prompts=256), run("new", build, prompts=256, slower=0.05)
        assert {v.word for v in judge(same, store.sessions_for(same)).verdicts.values()} == {"pass"}
        verdict = judge(slow, store.sessions_for(slow)).verdicts[SPEED]
        assert verdict.word == "regression"


def test_a_step_among_the_nightlies_hides_no_other(tmp_path: Path) -> None:
    store = recorded(tmp_path, [], prompts=256)
    for i in range(8):
        store.record(run(f"r{i}", f"night{i}", day=i + 1, prompts=256, slower=0.05 if i > 3 else 0.0))
    again, slow = run("new", "a", prompts=256, slower=0.05), run("new", "a", prompts=256, slower=0.1)
    assert judge(again, store.sessions_for(again)).verdicts[SPEED].word == "pass"
    assert judge(slow, store.sessions_for(slow)).verdicts[SPEED].word == "regression"


@pytest.mark.parametrize(
    ("slow", "together"),
    [
        ({"mtp-off": 0.08, "mtp-on": 0.08}, True),
        ({"mtp-off": 0.0, "mtp-on": 0.2}, False),  # one arm's loss
        ({"mtp-off": 0.08, "mtp-on": 0.3}, False),  # both lost, one much more
        ({"mtp-off": -0.08, "mtp-on": 0.08}, False),
        ({"mtp-off": 0.021, "mtp-on": 0.039}, False),  # not for sure, on one session
    ],
)
def test_all_arms_moved_together_is_said_only_if_each_did(
    tmp_path: Path, slow: dict[str, float], together: bool
) -> None:
    store = plain_recorded(tmp_path, sessions=1)
    new = session(slow=slow)
    judgement = judge(new, store.sessions_for(new))
    said = [note for note in judgement.notes if note.startswith("all arms ") and ", together: " in note]
    reasons = [v.reason for v in judgement.verdicts.values() if "common shift" in v.reason]
    assert bool(said) is together
    assert bool(reasons) is together


def test_the_plain_loss_of_one_arm_is_a_regression_of_that_arm(tmp_path: Path) -> None:
    store = plain_recorded(tmp_path, sessions=1)
    new = session(slow={"mtp-on": 0.25})
    found = judge(new, store.sessions_for(new)).verdicts
    assert found[Key(QUESTION, "mtp-on", "output_tokens_per_s")].word == "regression"
    assert found[Key(QUESTION, "mtp-off", "output_tokens_per_s")].word == "pass"
