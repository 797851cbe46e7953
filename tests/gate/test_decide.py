"""The rule on arrays: where its lines are, what each of its conditions is for, and how often it is right.

Changes are in logs, + = worse, as the rule has them. Where a line is tried, the noise is known: two hundred sessions whose
spread is exactly what is stated, so that a quantile from a table says where the line must be.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import t as student

from suite.gate.decide import Decision, decide
from suite.gate.layout import Column, Layout
from suite.gate.paired import AcceptanceColumns, Borne, Pairs
from suite.gate.robust import Array

MARGIN = float(np.log1p(0.02))
SESSIONS = 200
DF = SESSIONS - 1
NEW = float(np.sqrt(1 + 1 / SESSIONS))
"""Standard deviation of (a new session - mean of the recorded ones), in units of one session's."""
JUST = 0.01
"""Of a line: how far beside it a change is tried."""


def layout_of(arms: int = 1, kind: str = "decode", each: int = 1, gated: bool = True) -> Layout:
    """Columns of one kind, ``each`` questions in every arm."""
    columns = (Column(f"q{i}", f"arm{a}", kind, gated) for a in range(arms) for i in range(each))  # type: ignore[arg-type]
    return Layout(tuple(columns))


def history(columns: int, own: float = 0.0, shared: float = 0.0, sessions: int = SESSIONS) -> Array:
    """Sessions of one launch about 0: each column moves by ``own``, all together by ``shared``, exactly and uncorrelated."""
    drawn = np.random.default_rng(7).standard_normal((sessions, columns + 1))
    basis, _ = np.linalg.qr(drawn - drawn.mean(axis=0))
    unit = np.sqrt(sessions - 1) * basis
    return np.asarray(own * unit[:, :-1] + shared * unit[:, -1:])[None, :, None, :]


def still(columns: int, sessions: int = SESSIONS) -> Array:
    """Sessions that never moved: what is known of them is as sharp as the gate believes anything to be (0.05 %)."""
    return np.zeros((1, sessions, 1, columns))


def decided(base: Array, changes: Sequence[float], layout: Layout, **more: object) -> Decision:
    """The rule's decision on a run of one launch that moved by so much."""
    return decide(base, np.array(changes, dtype=float)[None, None, :], layout, **more)  # type: ignore[arg-type]


def words(decision: Decision) -> list[str]:
    """The word of each column of the first run."""
    flags = {
        "regression": decision.regression,
        "improvement": decision.improvement,
        "pass": decision.passed,
    }
    columns = range(decision.change.shape[1])
    return [next((word for word, flag in flags.items() if flag[0, g]), "inconclusive") for g in columns]


def said(base: Array, changes: Sequence[float], layout: Layout, **more: object) -> list[str]:
    return words(decided(base, changes, layout, **more))


def critical(level: float, sd: float) -> float:
    """What a change must exceed to be beyond chance at that level, one-sided."""
    return float(student.ppf(1 - level, DF)) * sd * NEW


# a column by itself


@pytest.mark.parametrize("kind", ["count", "ratio", "decode", "latency", "tail"])
def test_by_more_than_the_margin_is_a_regression_and_the_margin_itself_is_not(kind: str) -> None:
    layout = layout_of(kind=kind)
    assert said(still(1), [MARGIN], layout) == ["pass"]
    assert said(still(1), [MARGIN * (1 + JUST)], layout) == ["regression"]
    assert said(still(1), [-MARGIN], layout) == ["pass"]
    assert said(still(1), [-MARGIN * (1 + JUST)], layout) == ["improvement"]


@pytest.mark.parametrize(("share", "metrics"), [(1.0, 1), (0.5, 1), (0.25, 1), (1.0, 4)])
def test_beyond_chance_is_six_in_a_thousand_over_the_share_of_a_look_and_all_metrics(
    share: float, metrics: int
) -> None:
    layout, line = layout_of(kind="count", each=metrics), critical(0.006 * share / metrics, 0.02)
    base, rest = history(metrics, own=0.02), [0.0] * (metrics - 1)
    assert said(base, [line * (1 - JUST), *rest], layout, share=share)[0] == "inconclusive"
    assert said(base, [line * (1 + JUST), *rest], layout, share=share)[0] == "regression"
    assert said(base, [-line * (1 - JUST), *rest], layout, share=share)[0] == "pass", "no gain, and no loss"
    assert said(base, [-line * (1 + JUST), *rest], layout, share=share)[0] == "improvement"


def test_what_is_not_gated_or_not_measured_is_no_metric_of_the_procedure() -> None:
    columns = (
        Column("q0", "a", "count"),
        Column("q1", "a", "count", gated=False),
        Column("q2", "a", "count"),
    )
    line = critical(0.006, 0.02) * (1 + JUST)
    found = decided(history(3, own=0.02), [line, 0.2, np.nan], Layout(columns))
    assert words(found) == ["regression", "inconclusive", "inconclusive"]
    assert np.isnan(found.p_worse[0, 1:]).all()
    assert np.isnan(found.change[0, 2])


def test_a_pass_excludes_a_loss_of_twice_the_margin_with_95_percent() -> None:
    layout, reach = layout_of(kind="count"), float(student.ppf(0.95, DF)) * NEW
    loud, quiet = (2 * MARGIN / reach * (1 + by) for by in (JUST, -JUST))
    assert said(history(1, own=quiet), [0.0], layout) == ["pass"]
    assert said(history(1, own=loud), [0.0], layout) == ["inconclusive"]
    assert said(history(1, own=quiet / 2), [MARGIN * (1 - JUST)], layout) == ["pass"]
    assert said(history(1, own=loud / 2), [MARGIN * (1 + JUST)], layout) == ["inconclusive"]


@pytest.mark.parametrize("change", [0.0, 0.01, -0.03])
def test_worse_and_better_are_the_two_sides_of_one_test(change: float) -> None:
    found = decided(history(1, own=0.02), [change], layout_of(kind="count"))
    assert found.p_worse[0, 0] + found.p_better[0, 0] == pytest.approx(1)
    assert (found.p_worse[0, 0] < 0.5) == (change > 0)


def test_launches_of_a_session_count_as_many_as_there_are() -> None:
    """Three launches that differ by 3 % say less than three that agree, in the recorded sessions and in the run."""
    layout = layout_of(kind="count", each=2)
    apart = 0.03 * np.array([-1.0, 0.0, 1.0])[:, None]
    base = np.broadcast_to(apart, (1, 5, 3, 2)) * np.array([1, -1, 1, -1, 1])[None, :, None, None]
    for new, word in ((apart * [1, 1], "pass"), (apart * [1, 1] + 0.05, "inconclusive")):
        assert words(decide(base, new[None], layout)) == [word] * 2
    assert words(decide(0 * base, 0 * apart[None] + np.full(2, 0.05), layout)) == ["regression"] * 2


def test_more_judged_metrics_make_a_loss_of_each_harder_to_see_and_informational_ones_do_not() -> None:
    def effect(*gated: bool) -> float:
        columns = tuple(Column(f"q{i}", "a", "count", flag) for i, flag in enumerate(gated))
        return float(decided(history(len(gated), own=0.02), [0.0] * len(gated), Layout(columns)).sdc[0, 0])

    alone = effect(True, False)
    assert alone < effect(True, True)
    assert alone == pytest.approx(effect(False, False)), (
        "what is not judged has the effect that it would have"
    )


# an arm among others


@pytest.mark.parametrize(("own", "word"), [(0.75, "pass"), (0.76, "regression")])
def test_a_control_that_improves_makes_no_regression_of_what_moved_by_less_than_three_quarters(
    own: float, word: str
) -> None:
    """The other arm is 10 % faster: relative to it this one lost, but its own value must have moved too."""
    assert said(still(2), [own * MARGIN, -0.1], layout_of(arms=2))[0] == word
    assert said(still(2), [-own * MARGIN, 0.1], layout_of(arms=2))[0] == word.replace(
        "regression", "improvement"
    )


@pytest.mark.parametrize(
    ("kinds", "share"), [(("decode",), 1.0), (("decode", "latency"), 1.0), (("decode",), 0.5)]
)
def test_all_arms_together_are_tested_at_two_in_a_thousand_shared_by_decode_and_latency(
    kinds: tuple[str, ...], share: float
) -> None:
    columns = [Column("q", arm, kind) for kind in kinds for arm in "ab"]  # type: ignore[arg-type]
    layout, base = Layout(tuple(columns)), history(len(columns), shared=0.015)
    line = critical(0.002 * share / len(kinds), 0.015)
    rest = [0.0] * (len(columns) - 2)
    for sign, word, less in ((1, "regression", "inconclusive"), (-1, "improvement", "pass")):
        beyond = decided(base, [sign * line * (1 + JUST)] * 2 + rest, layout, share=share)
        assert words(beyond)[:2] == [word] * 2
        assert beyond.by_common[0, :2].all()
        assert not beyond.by_common[0, 2:].any()
        within = decided(base, [sign * line * (1 - JUST)] * 2 + rest, layout, share=share)
        assert words(within)[:2] == [less] * 2
        assert not within.by_common.any()


def test_a_common_loss_must_be_beyond_the_margin_in_all_arms_together_and_in_the_arm_itself() -> None:
    layout = layout_of(arms=2)
    assert said(still(2), [MARGIN, MARGIN], layout) == ["pass", "pass"]
    assert said(still(2), [1.25 * MARGIN, 0.75 * MARGIN], layout) == ["pass", "pass"], (
        "together just the margin"
    )
    found = decided(still(2), [1.3 * MARGIN, MARGIN], layout)
    assert found.by_common[0].tolist() == [True, False]
    assert words(found) == ["regression", "pass"]


def test_what_is_not_gated_is_no_loss_of_all_arms_either() -> None:
    columns = (Column("q", "a", "decode"), Column("q", "b", "decode", gated=False))
    found = decided(still(2), [0.05, 0.05], Layout(columns))
    assert found.by_common[0].tolist() == [True, False]
    assert words(found) == ["regression", "inconclusive"]


def test_an_arm_passes_by_itself_or_beside_arms_that_have_not_lost_together() -> None:
    """Days differ by 2.2 %, alike in both arms: beside the other arm each is known sharply, by itself it is not."""
    layout, base = layout_of(arms=2), history(2, shared=0.022)
    reach = float(student.ppf(0.95, DF)) * 0.022 * NEW
    room = 2 * MARGIN - reach
    assert said(base, [room * (1 - 2 * JUST)] * 2, layout) == ["pass"] * 2
    assert said(base, [room * (1 + 5 * JUST)] * 2, layout) == ["inconclusive"] * 2
    assert said(base, [-0.05] * 2, layout)[0] == "pass", "a gain of the day excludes no less"


def test_beside_the_others_an_arm_must_be_within_the_margin_to_pass() -> None:
    """By themselves the arms are too loosely known to pass; beside each other they are known sharply."""
    layout, base = layout_of(arms=2), history(2, shared=0.02)
    for apart, word in ((1 - JUST, "pass"), (1 + JUST, "inconclusive")):
        assert said(base, [apart * MARGIN / 2, -apart * MARGIN / 2], layout)[0] == word
    both = 0.5**9  # so that the sum is exact
    assert said(still(2), [MARGIN + both, both], layout)[0] == "pass", "the margin itself is within it"


# one or two recorded sessions


def test_one_arm_alone_passes_on_half_a_percent_of_its_own_and_one_of_the_machine() -> None:
    """Both of the recorded session and of this one, and 0.5 % between launches, which nothing has shown either."""
    sd = float(np.sqrt(2 * (0.005**2 + 0.01**2) + 2 * 0.005**2))
    room = 2 * MARGIN - float(student.ppf(0.95, 60)) * sd
    for change, word in ((room * (1 - 2 * JUST), "pass"), (room * (1 + 2 * JUST), "inconclusive")):
        assert said(still(1, sessions=1), [change], layout_of()) == [word]


def test_how_far_sessions_differ_is_stated_up_to_two_and_learned_from_three() -> None:
    for sessions, stated in ((1, True), (2, True), (3, False)):
        found = decided(still(2, sessions), [0.05, 0.05], layout_of(arms=2))
        assert found.stated.tolist() == [[stated] * 2]
        assert found.by_common.any() != stated, "with so few no loss of all arms can be called"


FIVE_BESIDE = Layout((Column("q", "a", "decode"), *(Column(f"q{i}", "b", "decode") for i in range(5))))


def _beside_an_arm(of_the_other: Sequence[float], own: float = 0.06) -> Decision:
    """One session; one arm slower by ``own``, and an arm of five metrics that moved by so much."""
    return decided(still(6, sessions=1), [own, *of_the_other], FIVE_BESIDE)


def test_with_one_session_a_loss_must_stand_out_from_how_the_metrics_of_other_arms_moved_apart() -> None:
    calm, torn = _beside_an_arm([0.0] * 5), _beside_an_arm([0.05, -0.05, 0.0, 0.04, -0.04])
    assert words(calm)[0] == "regression"
    assert words(torn)[0] == "inconclusive"
    assert torn.se[0, 0] > 2 * calm.se[0, 0]
    assert torn.df[0, 0] == 5, "five metrics have four, and what is stated counts as one more"
    assert torn.sdc[0, 0] > calm.sdc[0, 0] + 0.05
    assert torn.p_worse[0, 0] > calm.p_worse[0, 0]
    even = _beside_an_arm([0.004, -0.004, 0.0, 0.003, -0.003])
    assert even.p_worse[0, 0] >= calm.p_worse[0, 0] / 2, (
        "what is stated holds where the run seems calmer still"
    )


def test_with_one_session_metrics_of_other_arms_that_moved_apart_stand_in_the_way_of_a_pass_too() -> None:
    assert words(_beside_an_arm([0.0] * 5, own=0.015))[0] == "pass"
    assert words(_beside_an_arm([0.05, -0.05, 0.0, 0.04, -0.04], own=0.015))[0] == "inconclusive"


def test_a_shift_of_all_arms_that_few_sessions_cannot_judge_is_told_and_what_is_judged_is_not() -> None:
    layout = layout_of(arms=2)
    few = decided(still(2, sessions=1), [0.05, 0.05], layout)
    assert words(few) == ["inconclusive"] * 2
    assert few.common_shift.all()
    assert not decided(still(2, sessions=1), [0.05, 0.02], layout).common_shift.any(), (
        "more than twice the other"
    )
    for change in (0.05, -0.05):
        assert not decided(still(2), [change] * 2, layout).common_shift.any(), (
            "what is judged is told as that"
        )


# speed that is steps times acceptance


def answered(change: float, prompts: int = 64, apart: float = 0.0) -> Pairs:
    """Prompts that are all accepted by so much less, and by ``apart`` differently."""
    new = change + apart * np.where(np.arange(prompts) % 2, 1.0, -1.0)
    return Pairs(np.zeros((1, 1, prompts)), new[None, None, :])


def speculated(
    steps: float, accepted: Pairs, share: float = 1.0, sessions: int = SESSIONS, column: int | None = 0
) -> Decision:
    """Acceptance, and a speed of which ``share`` follows it; its steps moved by ``steps``."""
    layout = Layout((Column("accepted", "on", "count"), Column("decode", "on", "decode")))
    acceptance = AcceptanceColumns({0: accepted}, {1: Borne(accepted, column, share)}, {})
    return decided(still(2, sessions), [0.5, steps], layout, acceptance=acceptance)


def test_acceptance_is_judged_by_its_prompts_whatever_the_sessions_say() -> None:
    for sessions in (1, SESSIONS):
        found = speculated(0.0, answered(0.001), sessions=sessions)
        assert words(found)[0] == "pass"
        assert found.change[0, 0] == pytest.approx(0.001)
        assert not found.stated[0, 0], "prompts tell it, nothing is stated"
        assert found.stated[0, 1] == (sessions == 1)
        assert found.se[0, 0] == answered(0.001).change[1].se
    apart = answered(0.03, prompts=8, apart=0.05)
    assert words(speculated(0.0, apart))[0] == "inconclusive", "3 % of eight prompts 5 % apart"
    assert words(speculated(0.0, answered(0.03)))[0] == "regression"


def test_a_loss_of_acceptance_is_one_of_the_speed_that_rests_on_it_and_is_told_to_be() -> None:
    found = speculated(0.0, answered(0.05))
    assert words(found) == ["regression", "regression"]
    assert found.by_acceptance[0].tolist() == [False, True]
    assert found.accepted[0] == pytest.approx([0.0, 0.05])
    gained = speculated(0.0, answered(-0.05))
    assert words(gained) == ["improvement", "improvement"]
    assert gained.by_acceptance[0].tolist() == [False, True]
    slower = speculated(0.05, answered(0.05))
    assert words(slower) == ["regression", "regression"]
    assert not slower.by_acceptance.any(), "its steps are worse by themselves"
    assert not speculated(0.0, answered(0.0)).by_acceptance.any()
    unjudged = speculated(0.0, answered(0.05), column=None)
    assert words(unjudged)[1] == "inconclusive", "acceptance that nothing judges has been tested by nothing"


def test_only_the_share_that_is_decoding_follows_acceptance() -> None:
    for share, word in ((0.3, "pass"), (0.6, "regression")):  # of 5 %: 1.5 and 3 %
        assert words(speculated(0.0, answered(0.05), share=share)) == ["regression", word]
        gained = word.replace("regression", "improvement")
        assert words(speculated(0.0, answered(-0.05), share=share)) == ["improvement", gained]


def test_acceptance_that_costs_a_speed_just_the_margin_is_no_loss_of_it() -> None:
    assert words(speculated(0.0, answered(2 * MARGIN, prompts=2), share=0.5)) == ["regression", "pass"]


def test_steps_and_acceptance_within_the_margin_do_not_pass_where_their_product_is_beyond_it() -> None:
    for each, word in ((0.45, "pass"), (0.55, "inconclusive")):
        found = speculated(each * MARGIN, answered(each * MARGIN))
        assert words(found) == ["pass", word]
    assert words(speculated(1.5 * MARGIN, answered(-1.5 * MARGIN)))[1] == "regression", (
        "steps are judged by themselves"
    )


def test_a_gain_of_steps_that_acceptance_takes_back_is_none() -> None:
    assert words(speculated(-0.05, answered(0.0)))[1] == "improvement"
    assert words(speculated(-0.05, answered(0.04))) == ["regression", "pass"]
    assert words(speculated(-0.05, answered(0.015)))[1] == "improvement", "3.5 % are left"
    assert words(speculated(-2 * MARGIN, answered(MARGIN, prompts=2)))[1] == "pass", (
        "the margin is left, and no more"
    )


def test_beside_the_others_too_steps_and_acceptance_are_held_together() -> None:
    """Days differ by 2 % in all arms alike: only beside the other arm is the speculating one known well enough."""
    columns = (
        Column("accepted", "on", "count"),
        Column("decode", "on", "decode"),
        Column("decode", "off", "decode"),
    )
    for each, word in ((0.45, "pass"), (0.55, "inconclusive")):
        accepted = answered(each * MARGIN)
        found = decided(
            history(3, shared=0.02),
            [0.0, each * MARGIN, 0.0],
            Layout(columns),
            acceptance=AcceptanceColumns({0: accepted}, {1: Borne(accepted, 0, 1.0)}, {}),
        )
        assert words(found)[1] == word


def test_what_nobody_measured_is_no_loss_of_acceptance_either() -> None:
    layout = Layout((Column("accepted", "on", "count"), Column("decode", "on", "decode", gated=False)))
    accepted = answered(0.05)
    found = decided(
        still(2),
        [0.0, 0.0],
        layout,
        acceptance=AcceptanceColumns({0: accepted}, {1: Borne(accepted, 0, 1.0)}, {}),
    )
    assert words(found) == ["regression", "inconclusive"]


# how often it is right


def campaigns(
    count: int, sessions: int, layout: Layout, own: float, shared: float, seed: int
) -> tuple[Array, Array]:
    """Baselines and runs of one launch, of which all columns have ``shared`` noise and each its ``own``."""
    rng = np.random.default_rng(seed)
    shape = (count, sessions + 1, 1, len(layout.columns))
    drawn = own * rng.standard_normal(shape) + shared * rng.standard_normal((*shape[:3], 1))
    return drawn[:, :-1], drawn[:, -1]


@pytest.mark.parametrize(
    ("layout", "own", "shared"),
    [
        (layout_of(kind="count", each=3), 0.008, 0.0),
        (layout_of(arms=3, each=2), 0.006, 0.006),
        (layout_of(arms=3, each=2), 0.003, 0.012),
    ],
    ids=["counts", "arms", "arms on a restless machine"],
)
def test_the_minimum_detectable_effect_is_found_in_nine_runs_of_ten(
    layout: Layout, own: float, shared: float
) -> None:
    base, new = campaigns(1000, 12, layout, own, shared, 3)
    size = decide(base, new, layout).sdc[:, 0]
    assert (size > MARGIN).all()
    hurt = new.copy()
    hurt[:, 0, 0] += size
    found = decide(base, hurt, layout).regression[:, 0].mean()
    assert 0.87 <= found <= 0.95


def test_of_unchanged_runs_one_in_a_hundred_is_called_worse_at_the_most() -> None:
    layout = layout_of(arms=3, each=3)
    base, new = campaigns(2500, 8, layout, 0.02, 0.02, 5)
    found = decide(base, new, layout)
    worse, better = (flags.any(axis=1).mean() for flags in (found.regression, found.improvement))
    assert 0.001 <= worse <= 0.01
    assert 0.001 <= better <= 0.01
