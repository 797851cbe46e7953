"""Two builds asked in turn: what the machine does to both is nobody's change, and a launch's luck is not averaged away."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import Launch, Series, Session, judge
from suite.gate.builds import judge_builds
from suite.gate.duet import LAUNCH_SD, Rounds, itself, pairs_of
from suite.gate.robust import NO_LIMIT
from suite.gate.rules import Rules
from suite.gate.spread import Spread
from suite.gate.upgrade import order
from tests.gate.test_two_builds import NOTHING, SPEED, compared, said


def noisy(
    launches: int, rounds: int, slower: float, seed: int = 1, own: float = 0.005, common: float = 0.2
) -> Rounds:
    """A machine that wanders by `common` from round to round, and rounds that differ by `own` beside."""
    chance = np.random.default_rng(seed)
    old, new = [], []
    for _ in range(launches):
        machine = common * chance.standard_normal(rounds)
        old.append(machine + own * chance.standard_normal(rounds))
        new.append(machine + math.log1p(slower) + own * chance.standard_normal(rounds))
    return Rounds(old, new)


def change(rounds: Rounds, arms: int = 1) -> tuple[float, Spread]:
    """Of one figure by itself: nothing is learned of others."""
    told = pairs_of(rounds, arms)
    spread = told.spread(told.variance, told.df)
    return float(told.change[0, 0]), Spread(spread.variance[0], spread.df[0])


@settings(deadline=None)
@given(st.integers(1, 4), st.integers(3, 12), st.integers(0, 10**6))
def test_what_the_machine_does_to_both_changes_nothing(launches: int, rounds: int, seed: int) -> None:
    calm, wild = (change(noisy(launches, rounds, 0.0, seed, common=c)) for c in (0.0, 0.5))
    assert wild[0] == pytest.approx(calm[0], abs=1e-9)
    assert wild[1].variance == pytest.approx(calm[1].variance, abs=1e-9)


def test_more_rounds_never_say_more_than_the_launch_does() -> None:
    for rounds in (10, 100, 1000):
        spread = change(noisy(2, rounds, 0.0))[1]
        assert spread.variance[0] >= 2 * LAUNCH_SD**2 / 2


def test_launches_that_differ_by_more_than_is_stated_are_believed() -> None:
    calm, moved = noisy(2, 6, 0.0), noisy(2, 6, 0.0)
    moved.new[1][:] += 0.2
    assert change(moved)[1].variance[0] > 20 * change(calm)[1].variance[0]


def test_a_change_is_found_with_an_interval_that_holds_it_as_often_as_it_says() -> None:
    held = []
    for seed in range(400):
        chance = np.random.default_rng(seed + 10**6)
        rounds = noisy(2, 6, 0.03, seed)
        luck = [LAUNCH_SD * chance.standard_normal() * math.sqrt(2) for _ in rounds.new]
        moved = Rounds(rounds.old, [new + shift for new, shift in zip(rounds.new, luck, strict=True)])
        centre, spread = change(moved)
        held.append(abs(centre - math.log1p(0.03)) <= spread.bound(0.975)[0])
    assert 0.92 <= np.mean(held) <= 0.98  # 95 %, 400 tries: +-2.2 % is two standard errors


@settings(deadline=None)
@given(st.integers(1, 3), st.integers(4, 12), st.floats(-2, 2), st.floats(-2, 2), st.integers(0, 10**6))
def test_what_being_first_is_worth_is_in_neither_estimate_nor_spread(
    launches: int, rounds: int, first: float, slower: float, seed: int
) -> None:
    plain = noisy(launches, rounds, 0.0, seed)
    worth = first * np.where(np.arange(rounds) % 2 == 0, 1.0, -1.0)
    moved = Rounds(plain.old, [new + slower + worth for new in plain.new])
    (before, spread), (after, same) = change(plain), change(moved)
    assert after - before == pytest.approx(slower, abs=1e-9)
    assert same.variance == pytest.approx(spread.variance, abs=1e-9)
    assert itself(moved) == pytest.approx(itself(plain), abs=1e-9)


def test_half_of_the_pairs_scatter_about_the_other_half_as_the_estimate_does_about_the_truth() -> None:
    told = [noisy(1, 8, 0.0, seed, own=0.01) for seed in range(300)]
    halves, estimates = (
        np.std(values) for values in zip(*((itself(r), change(r)[0]) for r in told), strict=True)
    )
    assert 0.85 < halves / estimates < 1.18  # each is known to 4 % (one standard error of 300 tries)


def test_of_two_pairs_of_each_order_there_are_two_halves_and_of_fewer_none() -> None:
    assert not math.isnan(itself(noisy(1, 4, 0.0)))
    assert all(math.isnan(itself(noisy(1, rounds, 0.0))) for rounds in (1, 2, 3))


def test_rounds_that_are_missing_on_one_side_are_no_pairs_and_leave_the_others_in_their_order() -> None:
    whole = noisy(1, 6, 0.1, common=0.0)
    old = [np.where(np.arange(6) == 2, math.nan, whole.old[0])]
    pairs = whole.new[0] - whole.old[0]
    assert change(Rounds(old, whole.new))[0] == pytest.approx(
        (pairs[[0, 4]].mean() + pairs[[1, 3, 5]].mean()) / 2, abs=1e-12
    )
    assert math.isnan(change(Rounds([np.array([math.nan])], [np.array([0.0])]))[0])


def test_where_one_order_alone_was_played_nothing_is_known_of_the_spread() -> None:
    centre, spread = change(Rounds([np.array([0.0])], [np.array([0.1])]))
    assert centre == pytest.approx(0.1)
    assert math.isnan(spread.variance[0])


def test_a_ratio_has_the_launches_of_two_arms() -> None:
    one, two = (change(noisy(1, 400, 0.0), arms)[1].variance[0] for arms in (1, 2))
    assert two - one == pytest.approx(2 * LAUNCH_SD**2)


def _by_hand(*shifts: float) -> Rounds:
    """Launches of five pairs: 0.2, 0.2 and 0.5 apart in even rounds, 0.1 and 0.3 in odd ones, and each launch by a shift."""
    apart = np.array([0.2, 0.1, 0.2, 0.3, 0.5])
    return Rounds([np.zeros(5) for _ in shifts], [apart + shift for shift in shifts])


def test_pairs_by_hand() -> None:
    """Means of 0.3 and 0.2 by order; squares about them of 0.06 and 0.02, with two and one degrees of freedom."""
    one = pairs_of(_by_hand(0.0))
    assert one.change.item() == pytest.approx(0.25)
    assert one.variance.item() == pytest.approx(0.08 / 3)
    assert one.df.item() == 3
    assert one.weight.item() == pytest.approx(
        (1 / 3 + 1 / 2) / 4
    )  # of the mean of a mean of three and one of two
    assert one.launches.item() == pytest.approx(2 * LAUNCH_SD**2)
    assert (one.seen.item(), one.number.item()) == (0.0, 1)
    two = pairs_of(_by_hand(0.0, 0.2))
    assert two.change.item() == pytest.approx((0.25 + 0.45) / 2)
    assert two.variance.item() == pytest.approx(0.08 / 3)
    assert two.df.item() == 6
    assert two.weight.item() == pytest.approx((1 / 3 + 1 / 2) / 4 / 2)
    assert two.launches.item() == pytest.approx(LAUNCH_SD**2)
    assert two.seen.item() == pytest.approx(0.2**2 / 2 / 2)  # half the square of what two differ by, over two
    assert two.number.item() == 2


def test_rounds_that_are_half_of_the_variance_are_known_twice_as_well_as_they_alone() -> None:
    told = pairs_of(_by_hand(0.0))
    half = told.launches / told.weight
    assert told.spread(half, told.df).df.item() == pytest.approx(2 * 3)
    assert told.spread(half, told.df).variance.item() == pytest.approx(4 * LAUNCH_SD**2)
    assert told.spread(0 * half, told.df).df.item() == NO_LIMIT
    assert told.spread(1e6 * half, told.df / 6).df.item() == 1.0


def wandering(series: Series, machine: list[np.ndarray]) -> Series:
    """The same on a machine whose speed wanders by tens of percent from round to round."""
    launches = []
    for launch, factors in zip(series.launches, machine, strict=True):
        rounds = {
            name: [
                v and (v / f if name.endswith("per_s") else v * f)
                for v, f in zip(values, factors, strict=True)
            ]
            for name, values in launch.rounds.items()
        }
        launches.append(Launch(rounds, answers=launch.answers))
    return msgspec.structs.replace(series, launches=launches)


@pytest.mark.parametrize(("slower", "answers"), [(0.0, {"go"}), (0.1, {"no-go"})])
def test_a_duet_sees_ten_percent_where_launches_in_turn_see_nothing(slower: float, answers: set[str]) -> None:
    session = compared(2, spread=0.0, slower=slower)
    assert session.reference is not None
    old, new = (s.find("decode_throughput[c1]", "mtp-on") for s in (session.reference, session))
    assert old is not None
    assert new is not None
    chance = np.random.default_rng(7)
    machine = [np.exp(0.25 * chance.standard_normal(5)) for _ in old.launches]
    before, after = ([wandering(s, machine)] for s in (old, new))
    told = {v.metric: v.answer for v in judge_builds(before, after, order(2), in_turn=True)}
    assert {told["tpot_s"], told["output_tokens_per_s"]} == answers
    apart = [np.exp(0.25 * chance.standard_normal(5)) for _ in old.launches]
    before, after = [wandering(old, machine)], [wandering(new, apart)]
    assert {v.answer for v in judge_builds(before, after, order(2))} == {"inconclusive"}


@pytest.mark.parametrize(
    ("slower", "word"), [(0.0, "pass"), (0.1, "inconclusive"), (0.3, "regression"), (-0.3, "improvement")]
)
def test_of_one_launch_of_each_a_duet_says_a_pass_or_a_change_beyond_doubt_and_its_a_a(
    slower: float, word: str
) -> None:
    judgement = said(in_turn(slower=slower))
    assert judgement.verdicts[SPEED].word == word
    assert "5 pairs of rounds" in judgement.verdicts[SPEED].reason
    assert any(note.startswith("A/A of this duet") for note in judgement.notes)


def in_turn(**changed: float) -> Session:
    session = compared(1, spread=0.0, **changed)
    return msgspec.structs.replace(session, plan=msgspec.structs.replace(session.plan, duet=True))


def test_where_too_few_pairs_are_left_it_is_undecided_and_says_what_it_takes() -> None:
    session = in_turn(slower=0.1)
    two = [
        msgspec.structs.replace(
            s,
            launches=[
                msgspec.structs.replace(one, rounds={n: r[:2] for n, r in one.rounds.items()})
                for one in s.launches
            ],
        )
        for s in session.series
    ]
    verdict = said(msgspec.structs.replace(session, series=two)).verdicts[SPEED]
    assert (verdict.word, verdict.needs) == ("inconclusive", "4 pairs of rounds at least")


def test_what_a_target_states_of_its_launches_widens_what_is_said() -> None:
    session = in_turn()
    widths = []
    for rules in (Rules(), Rules(duet_launch_sd=0.03)):
        estimate = judge(session, NOTHING, rules).verdicts[SPEED].estimate
        assert estimate.ci_high is not None
        assert estimate.ci_low is not None
        widths.append(estimate.ci_high - estimate.ci_low)
    assert widths[1] > 2 * widths[0]


def test_a_duet_is_not_told_that_a_duet_sees_more() -> None:
    session = in_turn()
    verdict = judge(session, NOTHING, Rules(duet_launch_sd=0.9)).verdicts[SPEED]
    assert verdict.needs.endswith("too noisy to show that it is as fast")
