"""What is foreseen before a run is what a run then says, and what would settle a verdict does settle it."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import Key, judge
from suite.gate.precision import FEWEST_ROUNDS, foreseen, rounds_wanted, smallest_detectable
from tests.gate.builds import recorded, run
from tests.gate.sessions import recorded as plain_recorded
from tests.gate.sessions import session

ACCEPTANCE = Key("acceptance_length[code-t0]", "mtp-on", "acceptance_length")


# foreseen


@pytest.mark.parametrize("prompts", [64, 256])
def test_what_is_foreseen_is_about_what_a_run_prints(tmp_path: Path, prompts: int) -> None:
    store = recorded(tmp_path, ["old"], prompts=prompts, spread=0.06)
    new = run("new", "new", prompts=prompts, spread=0.06)
    verdicts = judge(new, store.sessions_for(new)).verdicts
    assert verdicts[ACCEPTANCE].estimate.sdc == pytest.approx(foreseen(prompts, 256, len(verdicts)), rel=0.25)


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 2000), st.integers(16, 4096), st.integers(1, 50))
def test_more_prompts_longer_answers_and_fewer_tests_see_no_less(
    prompts: int, tokens: int, tests: int
) -> None:
    here = foreseen(prompts, tokens, tests)
    assert 0.0199 < here <= 1
    assert foreseen(prompts + 1, tokens, tests) <= here + 1e-12
    assert foreseen(prompts, tokens + 1, tests) <= here + 1e-12
    assert foreseen(prompts, tokens, tests + 1) >= here - 1e-12


def test_one_prompt_sees_nothing() -> None:
    assert foreseen(1, 256) == math.inf


def test_the_stated_loss_is_called_in_nine_of_ten() -> None:
    """Draws of an estimate with that standard error, judged by critical value and margin as the gate does."""
    from suite.gate.decide import ALPHA_OWN
    from suite.gate.robust import t_tail

    rng = np.random.default_rng(0)
    for error, df, tests in ((0.005, 255, 20), (0.02, 30, 10), (0.001, 100, 1)):
        size = -math.log1p(-smallest_detectable(error, df, tests))
        estimate = size + error * rng.standard_normal(20_000)
        own = error * np.sqrt(rng.chisquare(df, 20_000) / df)
        called = (t_tail(estimate / own, np.array(float(df))) < ALPHA_OWN / tests) & (
            estimate > math.log1p(0.02)
        )
        assert 0.88 < called.mean() < 0.95


# rounds


def test_rounds_go_on_until_the_spread_allows_an_end() -> None:
    assert rounds_wanted([], 0.003, 15) == (True, 3, None, "too few")
    assert rounds_wanted([1.0, 1.0], 0.003, 15).go_on
    assert rounds_wanted([1.0, 1.0001, 0.9999], 0.003, 15)[::3] == (False, "precise")
    more = rounds_wanted([1.0, 1.01, 0.99], 0.003, 15)
    assert (more.go_on, more.rounds, more.why) == (True, 15, "not precise yet")
    sd, chi = 0.01, 0.4463  # the 20 % quantile of chi-square with two degrees of freedom
    assert more.standard_error == pytest.approx(math.sqrt(2 * sd**2 / chi / 3), rel=0.02)
    assert rounds_wanted([1.0, 1.01, 0.99] * 5, 0.001, 15)[::3] == (False, "as many as may be")


def test_a_round_without_a_value_counts_as_played() -> None:
    assert rounds_wanted([None, None, 1.0, 1.01], 0.003, 4) == pytest.approx(
        rounds_wanted([None, None, 1.0, 1.01], 0.003, 4)
    )
    assert not rounds_wanted([None] * 4, 0.003, 4).go_on
    assert rounds_wanted([None] * 4, 0.003, 9).rounds == 5


@pytest.mark.parametrize("cv", [0.002, 0.01])
def test_the_error_reached_is_what_it_says(cv: float) -> None:
    """Stopped runs of rounds: the mean that comes out is as precise as was asked, in nine of ten at least."""
    from suite.gate.robust import trimmed_mean

    rng, goal, off = np.random.default_rng(1), 0.004, []
    for _ in range(400):
        values: list[float | None] = []
        while rounds_wanted(values, goal, 60).go_on:
            values.append(math.exp(cv * rng.standard_normal()))
        assert len(values) >= FEWEST_ROUNDS
        off.append(float(trimmed_mean(np.log(np.array(values, dtype=float)))))
    assert np.std(off) < 1.15 * goal


# what would settle it


def asked_for(needs: str) -> int:
    found = re.match(r"(\d+) prompts instead of (\d+)", needs)
    assert found, needs
    return int(found[1])


def test_too_few_prompts_are_settled_by_more_and_the_advice_is_right(tmp_path: Path) -> None:
    tried = 0
    for build in "abcdefgh":
        new = run("new", build, prompts=24, spread=0.08)
        verdict = judge(new, recorded_once(tmp_path, 24).sessions_for(new)).verdicts[ACCEPTANCE]
        if verdict.word != "inconclusive":
            continue
        tried += 1
        prompts = asked_for(verdict.needs)
        assert prompts > 24
        assert "launches" not in verdict.needs
        many = run("new", build, prompts=4 * prompts, spread=0.08)
        assert (
            judge(many, recorded_once(tmp_path, 4 * prompts).sessions_for(many)).verdicts[ACCEPTANCE].word
            == "pass"
        )
    assert tried >= 2


def recorded_once(folder: Path, prompts: int):  # type: ignore[no-untyped-def]
    return recorded(folder / str(prompts), ["old"], prompts=prompts, spread=0.08)


def test_a_speed_undecided_for_want_of_prompts_asks_for_prompts(tmp_path: Path) -> None:
    store = recorded(tmp_path, ["old"] * 5, prompts=12, spread=0.1)
    found = alone = 0
    for build in "abcdefgh":
        new = run("new", build, prompts=12, spread=0.1)
        for key, verdict in judge(new, store.sessions_for(new)).verdicts.items():
            if verdict.word == "inconclusive":
                found += 1
                assert "prompts" in verdict.needs, key
                alone += "launches" not in verdict.needs
    assert found >= 3
    assert alone >= 0.8 * found  # the few others stand at the margin, whatever is asked


def test_launches_are_advised_only_where_launches_differ(tmp_path: Path) -> None:
    """Launches that differ by no more than their rounds explain: rounds cost no server start."""
    noisy = {"noise": 0.04, "machine": 0.0}
    store = plain_recorded(tmp_path, sessions=5, **noisy)
    new = session("x", **noisy)  # type: ignore[arg-type]
    needs = [
        v.needs for v in judge(new, store.sessions_for(new)).verdicts.values() if v.word == "inconclusive"
    ]
    assert needs
    assert any("rounds instead of 5" in text or "launches" in text for text in needs)
