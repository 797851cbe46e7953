"""Acceptance compared prompt by prompt: what it claims, what it must not claim, and what rests on it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import Answers, Key, Session, Verdict, judge
from suite.gate.accepted import decode_share, prompt_logs, round_acceptance, same_texts, step_rounds
from suite.gate.paired import ANSWER_SD, Borne, Pairs
from suite.gate.records import Counts, Invalid, Launch
from suite.gate.robust import t_quantile
from tests.gate.builds import answers, recorded, run, stripped

ACCEPTANCE = Key("acceptance_length[code-t0]", "mtp-on", "acceptance_length")
SPEED = Key("decode_throughput[c1]", "mtp-on", "output_tokens_per_s")
TPOT = Key("decode_throughput[c1]", "mtp-on", "tpot_s")
SPEEDUP = Key("mtp_speedup[c1]", "mtp-on", "mtp_speedup")


def verdicts(store: object, new: Session) -> dict[Key, Verdict]:
    return judge(new, store.sessions_for(new)).verdicts  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> object:
    """Five sessions of one build, whose greedy answers are the same every time."""
    return recorded(tmp_path_factory.mktemp("one-build"), ["old"] * 5)


# arrays


def drawn(
    seed: int, prompts: int, spread: float, change: float = 0.0, sessions: int = 1, n: int = 1
) -> Pairs:
    """Prompts of their own level; a build moves each by `spread`."""
    rng = np.random.default_rng(seed)
    level = rng.normal(-1.2, 0.1, (n, 1, prompts))
    old = level + spread * rng.standard_normal((n, 1, prompts)) + np.zeros((n, sessions, prompts))
    return Pairs(old, level + change + spread * rng.standard_normal((n, 1, prompts)))


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(2, 40), st.randoms(use_true_random=False))
def test_the_order_of_prompts_does_not_matter(seed: int, prompts: int, shuffle: object) -> None:
    pairs = drawn(seed, prompts, 0.06)
    order = list(range(prompts))
    shuffle.shuffle(order)  # type: ignore[attr-defined]
    turned = Pairs(pairs.base[..., order], pairs.new[..., order])
    (a, spread), (b, other) = pairs.change, turned.change
    assert a == pytest.approx(b)
    assert spread.variance == pytest.approx(other.variance)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(2, 40), st.floats(-0.1, 0.1))
def test_better_and_worse_are_mirror_images(seed: int, prompts: int, change: float) -> None:
    pairs = drawn(seed, prompts, 0.06, change)
    mirrored = Pairs(pairs.new, pairs.base)
    assert pairs.change[0] == pytest.approx(-mirrored.change[0])
    assert pairs.change[1].variance == pytest.approx(mirrored.change[1].variance)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.integers(2, 20), st.integers(2, 6))
def test_repeating_a_recorded_session_adds_no_knowledge(seed: int, prompts: int, copies: int) -> None:
    once = drawn(seed, prompts, 0.06)
    often = Pairs(np.repeat(once.base, copies, axis=1), np.repeat(once.new, 3, axis=1))
    assert often.change[0] == pytest.approx(once.change[0])
    assert often.change[1].variance == pytest.approx(once.change[1].variance)
    assert often.change[1].df == once.change[1].df


@pytest.mark.parametrize("prompts", [8, 64, 256])
def test_the_interval_holds_the_truth_as_often_as_it_says(prompts: int) -> None:
    pairs = drawn(5, prompts, 0.06, change=0.03, n=4000)
    centre, spread = pairs.change
    held = np.abs(centre - 0.03) <= t_quantile(0.975, spread.df) * spread.se
    assert 0.94 < held.mean() < 0.96


def test_prompts_that_one_side_did_not_answer_are_left_out() -> None:
    pairs = drawn(1, 12, 0.06)
    base = pairs.base.copy()
    base[0, 0, 3] = np.nan
    less = Pairs(np.delete(base, 3, axis=2), np.delete(pairs.new, 3, axis=2))
    assert Pairs(base, pairs.new).change[0] == pytest.approx(less.change[0])
    assert Pairs(base, pairs.new).change[1].df == less.change[1].df == 10


def test_of_one_prompt_nothing_is_learned() -> None:
    _, spread = drawn(1, 1, 0.06).change
    assert spread.se == pytest.approx(ANSWER_SD * 2**0.5)


# what launches keep


def test_a_prompt_asked_again_is_the_same_prompt() -> None:
    told = Answers(["a", "b", "a@2", "b@2"], [10, 20, 30, 20], [20, 20, 20, 20])
    launch = Launch({}, answers=told)
    assert prompt_logs(launch) == {"a": pytest.approx(np.log(2.0)), "b": pytest.approx(np.log(2.0))}
    assert round_acceptance(launch) == {
        0: pytest.approx(np.log(1 + 40 / 30)),
        1: pytest.approx(np.log(1 + 40 / 50)),
    }


def test_counts_without_prompts_are_paired_by_their_place() -> None:
    launch = Launch({}, counts={"acceptance_length": [Counts([20, 5], [10, 5]), Counts([20, 5], [10, 5])]})
    assert prompt_logs(launch) == {"#0": pytest.approx(np.log(3.0)), "#1": pytest.approx(np.log(2.0))}


def test_a_round_set_aside_says_nothing_of_acceptance() -> None:
    told = Answers(["a", "a@2"], [10, 10], [20, 0])
    launch = Launch({}, answers=told, invalid=[Invalid("throttled", "hot", 1)])
    assert prompt_logs(launch) == {"a": pytest.approx(np.log(3.0))}


def test_an_answer_of_no_verify_step_is_not_counted() -> None:
    assert prompt_logs(Launch({}, answers=Answers(["a", "b"], [0, 10], [0, 10]))) == {
        "b": pytest.approx(np.log(2.0))
    }


def test_a_text_is_the_same_if_any_session_gave_it() -> None:
    old = [Launch({}, answers=Answers(["a", "b", "c"], texts=[x, "y", "z"])) for x in "pq"]
    new = [Launch({}, answers=Answers(["a", "b", "d"], texts=["q", "other", "z"]))]
    assert same_texts(old, new) == (1, 2)


@settings(deadline=None, max_examples=40)
@given(st.floats(1.0, 4.0), st.floats(0.002, 0.1), st.floats(0.2, 1.0))
def test_steps_do_not_follow_what_a_round_yielded(length: float, step: float, share: float) -> None:
    """tokens/s, its inverse and a count of chunks, each of a server with that step time and that acceptance."""
    told = Answers(["a"], [1000], [round(1000 * (length - 1))])
    length = 1 + told.drafts[0] / 1000
    rounds: dict[str, list[float | None]] = {
        "output_tokens_per_s": [length**share / step],
        "round_s": [step / length**share],
        "tokens_per_chunk": [length],
        "step_s": [step],
        "tpot_s": [step / length],
    }
    launch = Launch(rounds, answers=told)
    assert step_rounds(launch, "output_tokens_per_s", share) == pytest.approx([-np.log(step)])
    assert step_rounds(launch, "round_s", share) == pytest.approx([np.log(step)])
    assert step_rounds(launch, "tpot_s", 1.0) == pytest.approx([np.log(step)])
    assert step_rounds(launch, "tokens_per_chunk", 1.0) == pytest.approx([0.0])


# whole runs


def test_another_build_of_the_same_quality_is_not_called_anything(store: object) -> None:
    for build in ("a", "b", "c", "d", "e", "f"):
        words = {v.word for v in verdicts(store, run("new", build)).values()}
        assert words <= {"pass", "inconclusive"}, build


@pytest.mark.parametrize("recorded_builds", [["old"], ["old", "nightly"], ["old"] * 3])
def test_fewer_accepted_drafts_are_found_and_named_however_few_sessions(
    tmp_path: Path, recorded_builds: list[str]
) -> None:
    store = recorded(tmp_path, recorded_builds, prompts=256)
    found = verdicts(store, run("new", "new", prompts=256, lower=0.05))
    assert found[ACCEPTANCE].word == "regression"
    assert "256 prompts compared one by one" in found[ACCEPTANCE].reason
    for key in (SPEED, TPOT, SPEEDUP):
        assert found[key].word == "regression"
        assert "acceptance moved" in found[key].reason
        assert "the steps did not" in found[key].reason


def test_longer_steps_are_found_whatever_the_answers_yield(store: object) -> None:
    for build in ("a", "b", "c"):
        found = verdicts(store, run("new", build, slower=0.05))
        assert {found[key].word for key in (SPEED, TPOT, SPEEDUP)} == {"regression"}, build
        assert found[ACCEPTANCE].word in ("pass", "inconclusive")
        steps, acceptance = found[TPOT].estimate.factors
        assert steps.change == pytest.approx(0.05, abs=0.006)
        assert acceptance.ci_low is not None
        assert acceptance.ci_high is not None
        assert acceptance.ci_low < acceptance.change < acceptance.ci_high  # type: ignore[operator]


def test_a_loss_by_steps_that_acceptance_hides_is_headed_by_its_factor(tmp_path: Path) -> None:
    store = recorded(tmp_path, ["old"] * 5, prompts=256, spread=0.0)
    verdict = verdicts(store, run("new", "new", prompts=256, spread=0.0, lower=-0.15, slower=0.06))[SPEED]
    assert verdict.estimate.change > 0.05  # type: ignore[operator]
    assert verdict.word == "regression"
    assert verdict.headline.startswith("steps alone cost ")
    assert "the whole hides it: output tokens/s +" in verdict.headline
    plain = verdicts(store, run("new", "new", prompts=256, spread=0.0, slower=0.06))[SPEED]
    assert plain.word == "regression"
    assert plain.headline.startswith("output tokens/s -")


def test_the_product_holds_both_parts(store: object) -> None:
    estimate = verdicts(store, run("new", "a", slower=0.05, lower=0.05))[SPEED].estimate
    steps, acceptance = estimate.factors
    assert estimate.change == pytest.approx((1 + steps.change) * (1 + acceptance.change) - 1, abs=1e-5)  # type: ignore[operator]
    widths = [f.ci_high - f.ci_low for f in (steps, acceptance, estimate)]  # type: ignore[operator]
    assert max(widths[:2]) * 0.9 < widths[2] < widths[0] + widths[1]


def test_faster_steps_that_lost_as_much_acceptance_are_no_improvement(tmp_path: Path) -> None:
    store = recorded(tmp_path, ["old"] * 5, prompts=256, spread=0.0)
    found = verdicts(store, run("new", "new", prompts=256, spread=0.0, lower=0.05, slower=-0.055))
    assert found[ACCEPTANCE].word == "regression"
    assert found[SPEED].word == "pass"


def test_the_same_texts_are_told_and_make_the_comparison_sharp(tmp_path: Path) -> None:
    store = recorded(tmp_path, ["old"], spread=0.0)
    verdict = verdicts(store, run("new", "new", spread=0.0, lower=0.03))[ACCEPTANCE]
    assert verdict.word == "regression"
    assert "128 of 128 answers are the same text" in verdict.reason
    assert verdict.estimate.ci_high < -0.025  # type: ignore[operator]


def test_other_texts_are_told_too(store: object) -> None:
    assert "0 of 128 answers are the same text" in verdicts(store, run("new", "new"))[ACCEPTANCE].reason


def without_answers(session: Session, of: str) -> Session:
    """The run with the series of questions that begin so as they were kept before answers were."""
    plain = {(s.question, s.arm): s for s in stripped(session).series}
    series = [plain[s.question, s.arm] if s.question.startswith(of) else s for s in session.series]
    return msgspec.structs.replace(session, series=series)


def test_a_baseline_without_answers_claims_no_precision_it_does_not_have(tmp_path: Path) -> None:
    """Five identical sessions say nothing of what another build's answers yield."""
    store = recorded(tmp_path, [])
    for i in range(5):
        store.record(without_answers(run(f"r{i}", day=i + 1), ""))
    for new in (run("new", "a"), without_answers(run("new", "a"), "")):
        estimate = verdicts(store, new)[ACCEPTANCE].estimate
        assert estimate.ci_high - estimate.ci_low > 0.03  # type: ignore[operator]
        assert estimate.ci_low < 0 < estimate.ci_high  # type: ignore[operator]
    speed = verdicts(store, run("new", "a"))[SPEED]
    assert speed.estimate.factors == []
    assert speed.word in ("pass", "inconclusive")


def test_few_answers_of_the_timed_requests_stand_in_where_acceptance_was_not_asked(tmp_path: Path) -> None:
    def decode_only(session: Session) -> Session:
        return msgspec.structs.replace(
            session, series=[s for s in session.series if "acceptance" not in s.question]
        )

    store = recorded(tmp_path, [])
    for i in range(5):
        store.record(decode_only(run(f"r{i}", day=i + 1)))
    for build in "abcdef":
        verdict = verdicts(store, decode_only(run("new", build)))[SPEED]
        assert verdict.word in ("pass", "inconclusive")
        assert verdict.estimate.ci_high - verdict.estimate.ci_low > 0.04  # type: ignore[operator]
    slow = verdicts(store, decode_only(run("new", "a", slower=0.05)))[SPEED]
    assert slow.word == "regression"


def test_acceptance_at_another_temperature_is_not_that_of_these_answers(store: object) -> None:
    def warm(session: Session) -> Session:
        series = [
            msgspec.structs.replace(s, identity=s.identity | {"temperature": 1.0})
            if "acceptance" in s.question
            else s
            for s in session.series
        ]
        return msgspec.structs.replace(session, series=series)

    other = type(store)(store.folder.parent.parent / "warm", "simulator")  # type: ignore[attr-defined,call-arg]
    for i in range(3):
        other.record(warm(run(f"r{i}", day=i + 1)))  # type: ignore[attr-defined]
    estimate = verdicts(other, warm(run("new", "a", lower=0.05)))[SPEED].estimate
    assert estimate.ci_high - estimate.ci_low > 0.05  # type: ignore[operator]


def test_answers_are_made_as_the_test_says() -> None:
    one, other = (answers(50, build, "x", spread=0.06) for build in ("a", "b"))
    assert one != other
    assert answers(50, "a", "x", spread=0.06) == answers(50, "a", "y", spread=0.06)


# what is divided out, and by how much


def test_answers_of_other_lengths_end_a_round_of_several_clients_otherwise() -> None:
    """Half of the requests in flight on average, half the tokens/s: the steps are no slower for it."""
    told = Answers(["a"], [100], [200])
    full, half = (
        Launch({"output_tokens_per_s": [100.0 * n], "concurrency_achieved": [n]}, answers=told)
        for n in (8.0, 4.0)
    )
    steps = [step_rounds(one, "output_tokens_per_s", 1.0) for one in (full, half)]
    assert steps[0] == pytest.approx(steps[1])


def test_a_prompt_asked_twice_in_a_round_is_one_prompt() -> None:
    told = Answers(["a", "a#2", "a#2@2", "b#x"], [10, 10, 10, 10], [20, 20, 20, 10])
    assert prompt_logs(Launch({}, answers=told)) == {
        "a": pytest.approx(np.log(3.0)),
        "b#x": pytest.approx(np.log(2.0)),
    }


def test_what_a_long_prompt_takes_does_not_follow_acceptance() -> None:
    launch = Launch({"ttft_s": [0.9, 0.9], "e2e_s": [1.0, None]})
    assert decode_share([launch]) == pytest.approx(0.1)
    assert decode_share([Launch({})]) == 1.0
    pairs = drawn(1, 40, 0.06, change=0.05)
    change, spread = Borne(pairs, None, 0.1).change
    assert change == pytest.approx(0.1 * pairs.change[0])
    assert spread.se == pytest.approx(0.1 * pairs.change[1].se)


def test_acceptance_is_held_against_the_newest_level_alone(tmp_path: Path) -> None:
    """An older build accepted a fifth less: that says nothing of what is compared with the build that came after."""
    store = recorded(tmp_path, [], prompts=256)
    store.record(run("r0", "older", day=1, prompts=256, lower=0.2))
    store.record(run("r1", "old", day=2, prompts=256))
    estimate = verdicts(store, run("new", "old", prompts=256))[ACCEPTANCE].estimate
    assert estimate.change == pytest.approx(0.0, abs=1e-6)


def test_speed_against_a_baseline_without_acceptance_is_no_sharper_than_its_answers(tmp_path: Path) -> None:
    store = recorded(tmp_path, [])
    for i in range(5):
        store.record(without_answers(run(f"r{i}", day=i + 1), ""))
    for build in "abcdef":
        found = verdicts(store, run("new", build))
        for key in (SPEED, TPOT, SPEEDUP):
            estimate = found[key].estimate
            assert found[key].word in ("pass", "inconclusive"), (build, key)
            assert estimate.ci_high - estimate.ci_low > 0.05  # type: ignore[operator]
