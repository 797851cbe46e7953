"""The search: right with a judge that is right, never a guess with one that cannot tell, and it goes on where it stopped."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.bisect.search import PATIENCE, Ask, SearchResult, Step, Word, following, is_good, search

LOSS = 0.04


def said(ask: Ask, word: Word, loss: float = 0.0, half: float = 0.01) -> Step:
    return Step(ask.reference, ask.candidate, word, loss, loss - half, loss + half)


def knowing(first_bad: int, dead: frozenset[int] = frozenset()) -> Callable[[Ask], Step]:
    """A judge that is always right: builds from `first_bad` on lost 4 %."""

    def judge(ask: Ask) -> Step:
        if ask.candidate in dead:
            return Step(ask.reference, ask.candidate, "cannot start", why="exit 2")
        lost = ask.reference < first_bad <= ask.candidate
        return said(ask, "no-go", LOSS) if lost else said(ask, "go")

    return judge


@given(builds=st.integers(2, 40), data=st.data())
def test_a_judge_that_is_right_leads_to_the_culprit(builds: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, builds - 1))
    outcome, steps = search(builds, knowing(first_bad))
    assert outcome == SearchResult("found", first_bad, first_bad)
    assert len(steps) <= 2 + (builds - 2).bit_length() + 1


@given(builds=st.integers(2, 20), data=st.data())
def test_builds_that_cannot_start_widen_the_answer_and_never_spoil_it(
    builds: int, data: st.DataObject
) -> None:
    first_bad = data.draw(st.integers(1, builds - 1))
    dead = data.draw(st.frozensets(st.integers(1, max(builds - 2, 1)))) - {builds - 1}
    outcome, steps = search(builds, knowing(first_bad, dead))
    assert outcome.ending in ("found", "range")
    assert outcome.first is not None
    assert outcome.last is not None
    named = set(range(outcome.first, outcome.last + 1))
    assert first_bad in named
    assert named - {outcome.last} <= dead, (
        "only what could not start is between the last good and the first bad"
    )
    assert len({s.candidate for s in steps if s.word == "cannot start"}) == sum(
        s.word == "cannot start" for s in steps
    ), "what cannot start is tried once"


@given(builds=st.integers(2, 12), data=st.data())
def test_a_search_goes_on_where_it_was_interrupted(builds: int, data: st.DataObject) -> None:
    first_bad = data.draw(st.integers(1, builds - 1))
    outcome, steps = search(builds, knowing(first_bad))
    kept = steps[: data.draw(st.integers(0, len(steps)))]
    again, whole = search(builds, knowing(first_bad), kept)
    assert (again, whole) == (outcome, steps)


def test_what_cannot_be_told_is_measured_again_and_never_guessed() -> None:
    """A judge that can tell the ends apart and nothing between: the answer is all that is between."""

    def judge(ask: Ask) -> Step:
        return said(ask, "no-go", LOSS) if ask.candidate == 5 else said(ask, "inconclusive", 0.02, 0.05)

    outcome, steps = search(6, judge)
    assert outcome == SearchResult("range", 1, 5)
    assert [sum(s.candidate == place for s in steps) for place in range(1, 5)] == [PATIENCE] * 4


def test_a_noisy_session_is_repeated_until_it_tells() -> None:
    words: list[Word] = ["invalid", "inconclusive", "go"]

    def judge(ask: Ask) -> Step:
        if (ask.reference, ask.candidate) == (0, 1):
            return said(ask, words[ask.attempt])
        return knowing(2)(ask)

    outcome, steps = search(3, judge)
    assert outcome == SearchResult("found", 2, 2)
    assert [s.word for s in steps if (s.reference, s.candidate) == (0, 1)] == words


@pytest.mark.parametrize(
    ("word", "ending"),
    [
        ("go", "no loss"),
        ("better", "no loss"),
        ("inconclusive", "undecided"),
        ("cannot start", "cannot start"),
    ],
)
def test_without_a_loss_between_the_ends_nothing_is_searched(word: Word, ending: str) -> None:
    outcome, steps = search(6, lambda ask: said(ask, word))
    assert outcome.ending == ending
    assert {(s.reference, s.candidate) for s in steps} == {(0, 5)}


def test_a_go_that_may_hide_the_whole_loss_is_no_proof_of_health() -> None:
    ask = Ask(0, 3)
    whole = said(Ask(0, 5), "no-go", 0.03, 0.005)
    assert is_good([said(ask, "go", 0.0, 0.02)], whole)
    assert not is_good([said(ask, "go", 0.01, 0.02)], whole)
    assert not is_good([said(ask, "inconclusive", -0.01, 0.001)], whole)


def test_sessions_of_one_build_are_weighed_together() -> None:
    ask = Ask(0, 3)
    whole = said(Ask(0, 5), "no-go", 0.03, 0.005)
    assert is_good([said(ask, "go", 0.01, 0.02)] * 2, whole), "0.01 +/- 0.014"
    spoiled = [said(ask, "invalid", 0.0, 0.001), said(ask, "go", 0.01, 0.02)]
    assert not is_good(spoiled, whole), "what a disturbed machine said does not count"


def test_two_neighbours_that_are_alike_are_no_culprit() -> None:
    """The build before was called good, the one after bad, and side by side they are alike: one session misled."""

    def judge(ask: Ask) -> Step:
        return said(ask, "go") if ask.reference == 1 else knowing(2)(ask)

    assert search(3, judge)[0] == SearchResult("contradiction", 1, 2)


def test_one_build_is_no_row() -> None:
    with pytest.raises(ValueError, match="two builds"):
        following(1, [])
