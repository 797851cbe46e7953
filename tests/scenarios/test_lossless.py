"""How often answers part, and when that is more than near ties explain."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.questions.lossless import GreedyAnswer, GreedyAnswers, compare
from suite.session.outcomes import BrokenPromise


def _answers(*texts: str) -> dict[str, GreedyAnswer]:
    return {f"p{n}": GreedyAnswer(text, max(1, len(text) // 4)) for n, text in enumerate(texts)}


def test_equal_answers_do_not_part():
    same = _answers("one answer", "and another one")
    found = compare(same, same)
    assert (found.partings, found.per_token) == (0, 0.0)
    assert str(found).startswith("all 2 answers are equal")


def test_a_late_tie_is_rare_in_a_token_and_an_early_one_is_not():
    off = {"p": GreedyAnswer("a" * 400, 100)}
    late = compare(off, {"p": GreedyAnswer("a" * 396 + "bbbb", 100)})
    early = compare(off, {"p": GreedyAnswer("b" * 400, 100)})
    assert late.per_token == pytest.approx(1 / 99)
    assert early.per_token == 1.0
    assert "after 0 tokens" in early.earliest
    assert str(late) == "1 of 1 answers part, once in 99 tokens"


def test_answers_that_part_in_their_first_tokens_part_at_once():
    broken = compare(_answers("aaaa", "bbbb"), _answers("cccc", "dddd"))
    assert broken.per_token >= 1
    assert str(broken) == "2 of 2 answers part, at once"


def test_an_answer_that_stops_short_has_parted():
    assert compare(_answers("a longer answer"), _answers("a longer")).partings == 1


def test_only_prompts_that_both_answered_are_compared():
    off, on = _answers("x", "y"), _answers("x")
    assert compare(off, on).prompts == 1


@given(st.lists(st.tuples(st.text(max_size=40), st.text(max_size=40)), max_size=8))
def test_partings_are_the_unequal_pairs_and_tokens_never_exceed_the_answers(pairs):
    off = _answers(*(a for a, _ in pairs))
    on = _answers(*(b for _, b in pairs))
    found = compare(off, on)
    assert found.partings == sum(a != b for a, b in pairs)
    assert 0 <= found.tokens <= sum(answer.tokens for answer in off.values())


def _agree(off: dict[str, GreedyAnswer], on: dict[str, GreedyAnswer]) -> None:
    """Hold MTP's answers to those without, at once in fifty tokens at the most."""
    served = SimpleNamespace(launch_id=SimpleNamespace(arm="mtp-on"))
    noted = {"mtp-off": off, "mtp-on": on}
    GreedyAnswers(served, noted, 4, 64).must_agree_with("mtp-off", 0.02)  # type: ignore[arg-type]


def test_one_parting_is_a_near_tie_however_early_and_two_that_come_too_often_are_not():
    off = _answers("aaaa" * 8, "bbbb" * 8, "cccc" * 8)
    _agree(off, _answers("x" * 32, "bbbb" * 8, "cccc" * 8))
    with pytest.raises(
        BrokenPromise, match=r"MTP changes the answers: 2 of 3 answers part, .* and may be 0\.02"
    ):
        _agree(off, _answers("x" * 32, "y" * 32, "cccc" * 8))
    rare = _answers("a" * 400, "b" * 400)
    _agree(rare, _answers("a" * 396 + "xxxx", "b" * 396 + "yyyy"))
