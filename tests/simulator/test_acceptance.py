"""Acceptance: what the chances come to, by kind, depth, temperature and context."""

import itertools
import math
from statistics import fmean, stdev

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.acceptance import (
    Agreement,
    Difficulty,
    ForcedAgreement,
    context_factor,
    expected_length,
    factor_for_loss,
    temperature_factor,
)
from simulator.kinds import KINDS, kind_of


def _steps(drafts, steps: int, tokens: int, factor: float = 1.0, start: int = 1) -> list[int]:
    """How many drafts each verify step accepts of an answer of so many tokens."""
    position, accepted = start, []
    while position < tokens:
        accepted.append(drafts.accepted(len(accepted), position, factor))
        assert 0 <= accepted[-1] <= steps
        position += accepted[-1] + 1
    return accepted


def _length(drafts, steps: int, tokens: int = 6000, factor: float = 1.0) -> float:
    return 1 + fmean(_steps(drafts, steps, tokens, factor))


def _drafts(
    kind, theme: int = 5, seed: int = 7, steps: int = 3, factor: float = 1.0, **build: int
) -> Agreement:
    return Agreement(Difficulty(theme, seed, **build), kind, steps, factor, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_many_answers_come_to_the_expected_length(kind, steps) -> None:
    accepted = [n for theme in range(300) for n in _steps(_drafts(kind, theme, theme, steps), steps, 600)]
    # easy prompts and passages take fewer steps and hang together: some 2 % aside from independent draws
    assert 1 + fmean(accepted) == pytest.approx(expected_length(kind, steps), rel=0.025)


@pytest.mark.parametrize(("kind", "low", "high"), [("code", 0.8, 1.15), ("prose", 1.0, 1.3)])
def test_each_step_is_a_draw_of_its_own(kind, low, high) -> None:
    """A verify step of three drafts yields some three tokens, with a standard deviation of about one."""
    accepted = _steps(_drafts(kind), 3, 30_000)
    assert low <= stdev(accepted) <= high
    neighbours = fmean((a - fmean(accepted)) * (b - fmean(accepted)) for a, b in itertools.pairwise(accepted))
    assert abs(neighbours) / stdev(accepted) ** 2 < 0.2, "what one step accepts hardly foretells the next"


@pytest.mark.parametrize(
    ("kind", "low", "high"), [("code", 0.05, 0.10), ("maths", 0.05, 0.10), ("prose", 0.07, 0.13)]
)
def test_prompts_of_a_kind_differ_as_real_ones_do(kind, low, high) -> None:
    """5 to 13 % between prompts at 96 to 256 tokens (seen), of which the shorter half is the draw of the tokens."""
    lengths = [_length(_drafts(kind, theme, theme), 3, tokens=256) for theme in range(400)]
    assert low <= stdev(lengths) / fmean(lengths) <= high


@pytest.mark.parametrize("kind", ["code", "prose"])
def test_another_build_moves_a_prompt_and_not_the_mean(kind) -> None:
    """The trajectory SD of one prompt of 256 tokens is 4 to 8 %; over many prompts nothing is better or worse."""
    moved = [
        math.log(
            _length(_drafts(kind, p, p, parts_at=1, build=2), 3, 256) / _length(_drafts(kind, p, p), 3, 256)
        )
        for p in range(600)
    ]
    assert 0.04 <= stdev(moved) / math.sqrt(2) <= 0.085
    assert abs(fmean(moved)) < 3 * stdev(moved) / math.sqrt(len(moved))


def test_an_answer_is_drafted_alike_until_it_parts() -> None:
    sound, other = _drafts("code"), _drafts("code", parts_at=100, build=3)
    before = [(p, sound.accepted(0, p, 1.0)) for p in range(1, 97)]
    assert before == [(p, other.accepted(0, p, 1.0)) for p in range(1, 97)]
    after = range(100, 400)
    assert [sound.accepted(0, p, 1.0) for p in after] != [other.accepted(0, p, 1.0) for p in after]
    third = _drafts("code", parts_at=100, build=4)
    assert [third.accepted(0, p, 1.0) for p in after] != [other.accepted(0, p, 1.0) for p in after]


@given(place=st.integers(0, 5000), factor=st.floats(0.0, 1.0))
def test_a_worse_draft_of_the_same_text_is_nowhere_better(place, factor) -> None:
    assert _drafts("prose", factor=factor).accepted(0, place, 1.0) <= _drafts("prose").accepted(0, place, 1.0)


@given(places=st.lists(st.integers(0, 3000), min_size=2, max_size=20))
def test_difficulty_does_not_depend_on_the_order_of_asking(places) -> None:
    asked = Difficulty(1, 2)
    assert [asked.at(p) for p in places] == [Difficulty(1, 2).at(p) for p in places]
    assert all(0.0 < asked.at(p) < 1.0 for p in places)


def test_three_steps_are_in_the_published_range() -> None:
    assert 3.3 <= expected_length("maths", 3) <= 3.5
    assert 3.3 <= expected_length("code", 3) <= 3.5
    assert expected_length("prose", 3) < expected_length("maths", 3)


@settings(deadline=None)
@given(kind=st.sampled_from(KINDS), steps=st.integers(1, 6), loss=st.floats(0.0, 0.6))
def test_a_loss_is_as_large_as_told(kind, steps, loss) -> None:
    factor = factor_for_loss(kind, steps, loss)
    assert 0.0 <= factor <= 1.0
    wanted = max(1.0, expected_length(kind, steps) * (1 - loss))
    assert expected_length(kind, steps, factor) == pytest.approx(wanted, rel=1e-6)


def test_a_loss_is_as_large_as_told_over_many_prompts() -> None:
    factor = factor_for_loss("code", 3, 0.05)
    pairs = [(_drafts("code", p, p), _drafts("code", p, p, factor=factor)) for p in range(400)]
    lengths = [(_length(sound, 3, 400), _length(worse, 3, 400)) for sound, worse in pairs]
    assert 1 - fmean(w for _, w in lengths) / fmean(s for s, _ in lengths) == pytest.approx(0.05, abs=0.008)


def test_warmer_and_longer_is_less_agreed() -> None:
    assert temperature_factor(0.0) == context_factor(0) == 1.0
    assert temperature_factor(0.6) < 1.0
    assert context_factor(60_000) < context_factor(4_000) < 1.0


def test_repetition_past_the_natural_end_is_easy_to_guess() -> None:
    drafts = Agreement(Difficulty(1, 1), "prose", 3, 1.0, natural_end=100)
    repeating = _steps(drafts, 3, 3000, start=200)
    assert 1 + fmean(repeating) > _length(_drafts("prose", 1, 1), 3) + 0.5


@pytest.mark.parametrize("wanted", [1.0, 2.0, 2.5, 4.0, 9.0])
def test_forced_length(wanted) -> None:
    assert _length(ForcedAgreement(3, wanted, 3), 3) == pytest.approx(min(wanted, 4.0), rel=0.02)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write a Python function that sorts a list.", "code"),
        ("Prove that the sum of two even integers is even.", "maths"),
        ("Return a JSON document that lists the planets.", "json"),
        ("Tell me a story about an old lighthouse keeper.", "prose"),
        ("Translate this letter into French and German.", "multilingual"),
        ("[1-2-3f] Tell me a story about an old lighthouse keeper.", "prose"),
        ("Erzähle ausführlich die Geschichte eines Müllers über dem Fluss.", "multilingual"),
        ("请写一个关于大海的故事。", "multilingual"),
    ],
)
def test_kinds(text, kind) -> None:
    assert kind_of(text) == kind
