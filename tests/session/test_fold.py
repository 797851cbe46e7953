"""From a journal to a session: whole, half, cut anywhere, with lines lost, taken up again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import Launch, Session
from suite.session.entries import (
    Begun,
    Closed,
    Complete,
    Entry,
    Item,
    Launching,
    Measured,
    Resumed,
    RoundDone,
    WorkloadBegun,
)
from suite.session.fold import told
from suite.session.plan import BUILDS, LaunchId, alternate
from tests.session.made import ARMS, QUESTIONS, begun, launched, played, sample, whole

WHOLE = whole()


def series_of(session: Session) -> dict[tuple[str, str], list[Launch]]:
    return {(s.question, s.arm): s.launches for s in session.series}


def unmeasured(session: Session) -> dict[tuple[str, str], str]:
    return {(a.question, a.arm): a.unmeasured for a in session.asked if a.unmeasured}


def rounds(session: Session) -> int:
    """Rounds that count, ratios left out."""
    return sum(
        len(launch.rounds["output_tokens_per_s"])
        for s in session.series
        if not s.derived_from
        for launch in s.launches
    )


def test_a_whole_run():
    session = told(WHOLE).session()
    assert session.run_id == begun().run_id
    assert session.plan == begun().plan
    assert set(series_of(session)) == {
        *itertools.product(QUESTIONS, ARMS),
        ("speedup[c1]", "mtp-on"),
    }
    first = session.find("decode[c1]", "mtp-on").launches[0]
    assert first.rounds["output_tokens_per_s"] == [141.0, 141.1, 141.2]
    assert [c.numerator for c in first.counts["acceptance_length"]] == [[10], [11], [12]]
    assert session.find("decode[c1]", "mtp-off").subject["graphs"] is True
    assert not unmeasured(told(WHOLE).session())


def test_a_reason_belongs_to_its_round():
    (reason,) = told(WHOLE).session().find("decode[c4]", "mtp-off").launches[1].invalid
    assert (reason.name, reason.round) == ("early_stop", 1)


@given(st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_the_order_of_launches_is_no_matter(chance):
    launch_ids = [(arm, number) for arm in ARMS for number in (1, 2)]
    chance.shuffle(launch_ids)
    entries = [begun(), *(e for i, launch_id in enumerate(launch_ids, 1) for e in launched(i, *launch_id))]
    assert told(entries).session().rounded() == told(WHOLE).session().rounded()


@given(st.integers(0, len(WHOLE)))
def test_of_any_half_every_finished_question_counts_and_the_others_are_named(cut):
    half = told(WHOLE[:cut])
    session = half.session()
    for key, launches in series_of(session).items():
        if key[0].startswith("decode"):
            for launch in launches:
                assert len(launch.rounds["output_tokens_per_s"]) >= 2
    if cut:
        asked = {(a.question, a.arm) for a in begun().asked}
        named = set(unmeasured(session))
        assert named | set(series_of(session)) == asked
        assert not named & set(series_of(session))


def test_how_far_a_question_came_is_said():
    half = [begun(rounds=5), *played(1, "mtp-on", 1, "decode[c1]", 5)[:4]]
    why = unmeasured(told(half).session())
    assert why["decode[c1]", "mtp-on"] == "mtp-on: 2 of 5 rounds were played"
    assert why["decode[c4]", "mtp-off"] == "mtp-off was not asked"
    why = unmeasured(told([*half, Closed(1.0, "--minutes 3 are over")]).session())
    assert why["decode[c4]", "mtp-off"] == "mtp-off was not asked; --minutes 3 are over"


@given(cut=st.integers(1, len(WHOLE)), again=st.integers(0, 40))
def test_taken_up_again_after_any_cut_the_run_is_the_whole(cut, again):
    """Two deaths: one anywhere, one in the launch that was made anew."""
    entries: list[Entry] = list(WHOLE[:cut])
    for stop in (again, None):
        known = told(entries)
        rest = [
            launch_id
            for launch_id in ((arm, n) for n in (1, 2) for arm in ARMS)
            if LaunchId(*launch_id) not in known.complete
        ]
        number = max(known.launches, default=0)
        more = [e for i, launch_id in enumerate(rest, number + 1) for e in launched(i, *launch_id)]
        entries += [Resumed(2.0), *more[:stop]]
    finished = told([*entries, Closed(3.0)])
    assert finished.session().rounded() == told(WHOLE).session().rounded()
    assert finished.complete == {LaunchId(arm, n) for n in (1, 2) for arm in ARMS}


def test_the_half_of_an_interrupted_launch_is_set_aside():
    half = launched(1, "mtp-on", 1)[:5]
    other = [
        msgspec.structs.replace(e, sample=Launch({"output_tokens_per_s": [999.0]}))
        if isinstance(e, RoundDone)
        else e
        for e in half
    ]
    session = told([begun(), *other, Resumed(1.0), *launched(2, "mtp-on", 1)]).session()
    (launch,) = session.find("decode[c1]", "mtp-on").launches
    assert 999.0 not in launch.rounds["output_tokens_per_s"]


def test_what_was_finished_stands_until_the_new_launch_has_finished_it_too():
    """The server died after its first question; it is launched again for the second, and dies in the first once more."""
    first = launched(1, "mtp-on", 1)[:8]
    second = [
        msgspec.structs.replace(e, sample=Launch({"output_tokens_per_s": [999.0]}))
        if isinstance(e, RoundDone)
        else e
        for e in launched(2, "mtp-on", 1)[:5]
    ]
    (launch,) = told([begun(), *first, *second]).session().find("decode[c1]", "mtp-on").launches
    assert launch.rounds["output_tokens_per_s"] == [141.0, 141.1, 141.2]


@pytest.mark.parametrize(("played_rounds", "counts"), [(1, False), (2, True), (3, True)])
def test_half_of_the_rounds_stand_for_a_launch_and_less_do_not(played_rounds, counts):
    entries = [begun(rounds=4), *played(1, "mtp-on", 1, "decode[c1]", 4, done=False)[: 2 + played_rounds]]
    found = told(entries).session().find("decode[c1]", "mtp-on")
    assert (found is not None) is counts


@given(lost=st.sets(st.integers(0, len(WHOLE) - 1), max_size=3))
def test_lost_lines_lose_what_they_said_and_nothing_else(lost):
    left = [entry for number, entry in enumerate(WHOLE) if number not in lost]
    gone = [WHOLE[number] for number in lost]
    session = told(left).session("20261201-070000-here")
    # a workload is known by two lines: only if both are lost, and no other launch tells, it cannot be judged
    pairs = {(e.launch, e.workload) for e in gone if isinstance(e, WorkloadBegun)} & {
        (e.launch, e.workload) for e in gone if isinstance(e, Measured)
    }
    if not pairs:
        there = sum(isinstance(entry, RoundDone) for entry in left)
        few = [w for w in told(left).works.values() if not w.enough]
        assert rounds(session) == there - sum(len(w.samples) for w in few)


def test_without_its_plan_a_run_is_judged_as_what_is_there():
    session = told([entry for entry in WHOLE if not isinstance(entry, Begun)]).session("the-run")
    assert session.run_id == "the-run"
    assert session.plan.launches == 2
    assert set(series_of(session)) == set(series_of(told(WHOLE).session()))
    assert session.find("decode[c1]", "mtp-on").judged == ["output_tokens_per_s"]


def test_an_earlier_look_sees_only_its_launches():
    session = told(whole(launches=4)).session(up_to=2)
    assert {len(s.launches) for s in session.series} == {2}


def test_a_ratio_is_of_launches_that_both_arms_have():
    entries = [begun(), *launched(1, "mtp-on", 1), *launched(2, "mtp-on", 2), *launched(3, "mtp-off", 2)]
    speedup = told(entries).session().find("speedup[c1]", "mtp-on")
    on, off = sample("mtp-on", 2, "decode[c1]", 0), sample("mtp-off", 2, "decode[c1]", 0)
    (launch,) = speedup.launches
    expected = on.rounds["output_tokens_per_s"][0] / off.rounds["output_tokens_per_s"][0]
    assert launch.rounds["mtp_speedup"][0] == pytest.approx(expected)


def test_a_workload_without_any_answer_is_no_measurement():
    silent = [
        msgspec.structs.replace(e, sample=Launch({"output_tokens_per_s": [None]}))
        if isinstance(e, RoundDone)
        else e
        for e in launched(1, "mtp-on", 1)
    ]
    found = told([begun(), *silent])
    assert not found.session().series
    assert unmeasured(found.session())["decode[c1]", "mtp-on"] == "mtp-on: no request was answered"


def test_complete_launches_are_known():
    assert told(WHOLE[: WHOLE.index(Complete("mtp-on", 1)) + 1]).complete == {
        LaunchId("mtp-off", 1),
        LaunchId("mtp-on", 1),
    }


def of_build(entries: Sequence[Entry], build: str, first: int) -> list[Entry]:
    """The same launches, of one of two builds, numbered from `first` on."""
    made: list[Entry] = []
    for entry in entries:
        changed: dict[str, object] = {}
        if (launch := getattr(entry, "launch", None)) is not None:
            changed["launch"] = launch + first - 1
        if isinstance(entry, Launching | Complete | Item):
            changed["build"] = build
        made.append(msgspec.structs.replace(entry, **changed))
    return made


def of_two() -> list[Entry]:
    """A run of two builds: each arm's two launches of both, in turn."""
    plan = msgspec.structs.replace(begun(2), builds={"reference": "0.5.20", "candidate": "0.5.23"})
    entries: list[Entry] = [plan]
    order = alternate(LaunchId(arm, n, b) for arm in ARMS for n in (1, 2) for b in BUILDS)
    for number, launch_id in enumerate(order, 1):
        entries += of_build(launched(1, launch_id.arm, launch_id.number), launch_id.build, number)
    return entries


def test_of_two_builds_each_has_its_own_series_and_none_of_the_others():
    whole = told(of_two())
    session = whole.session()
    assert session.reference is not None
    assert (session.reference.name, session.reference.candidate) == ("0.5.20", "0.5.23")
    for side in (session.series, session.reference.series):
        assert {(s.question, s.arm) for s in side} == {
            (s.question, s.arm) for s in told(WHOLE).session().series
        }
        assert {len(s.launches) for s in side} == {2}
    assert len(session.outcomes) == len(session.reference.outcomes) == 8
    assert whole.complete == {LaunchId(arm, n, b) for arm in ARMS for n in (1, 2) for b in BUILDS}
    assert all(
        whole.item(e.item) is not None for e in of_two() if isinstance(e, Item)
    )  # told again, not asked again


@given(st.integers(1, len(of_two())), st.sampled_from(BUILDS))
def test_a_comparison_cut_anywhere_pairs_launches_of_one_number(cut, build):
    half = told(of_two()[:cut]).session()
    assert half.reference is not None
    for series in half.series:
        other = half.reference.find(series.question, series.arm)
        if other is not None:
            assert len(series.launches) == len(other.launches)


def test_a_launch_that_one_build_lost_is_compared_with_nothing():
    lost = next(
        e.launch
        for e in of_two()
        if isinstance(e, Launching) and (e.build, e.arm, e.number) == ("candidate", "mtp-on", 1)
    )
    left = [e for e in of_two() if getattr(e, "launch", None) != lost or isinstance(e, Launching)]
    session = told(left).session()
    assert session.reference is not None
    mine, theirs = (side.find("decode[c1]", "mtp-on") for side in (session, session.reference))
    assert mine is not None
    assert theirs is not None
    assert len(mine.launches) == len(theirs.launches) == 1
    assert mine.launches[0].rounds == theirs.launches[0].rounds  # both are launch 2, made alike
