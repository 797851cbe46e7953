"""Acceptance: what the chances come to, by kind, depth, temperature and context."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.acceptance import (
    Agreement,
    ForcedAgreement,
    context_factor,
    expected_length,
    factor_for_loss,
    temperature_factor,
)
from simulator.kinds import KINDS, kind_of


def _length(drafts, steps: int, tokens: int = 6000, factor: float = 1.0) -> float:
    position, verified, correct = 1, 0, 0
    while position < tokens:
        accepted = drafts.accepted(verified, position, factor)
        assert 0 <= accepted <= steps
        verified, correct, position = verified + 1, correct + accepted, position + accepted + 1
    return 1 + correct / verified


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_long_answers_come_to_the_expected_length(kind, steps) -> None:
    drawn = _length(Agreement(5, kind, steps, 1.0, None), steps)
    assert drawn == pytest.approx(expected_length(kind, steps), rel=0.005)


def test_three_steps_are_in_the_published_range() -> None:
    assert 3.3 <= expected_length("maths", 3) <= 3.5
    assert 3.3 <= expected_length("code", 3) <= 3.5
    assert expected_length("prose", 3) < expected_length("maths", 3)


def test_short_answers_are_close_too() -> None:
    lengths = [_length(Agreement(seed, "code", 3, 1.0, None), 3, tokens=256) for seed in range(50)]
    assert max(abs(length / expected_length("code", 3) - 1) for length in lengths) < 0.025


@settings(deadline=None)
@given(kind=st.sampled_from(KINDS), steps=st.integers(1, 6), loss=st.floats(0.0, 0.6))
def test_a_loss_is_as_large_as_told(kind, steps, loss) -> None:
    factor = factor_for_loss(kind, steps, loss)
    assert 0.0 <= factor <= 1.0
    wanted = max(1.0, expected_length(kind, steps) * (1 - loss))
    assert expected_length(kind, steps, factor) == pytest.approx(wanted, rel=1e-6)


def test_warmer_and_longer_is_less_agreed() -> None:
    assert temperature_factor(0.0) == context_factor(0) == 1.0
    assert temperature_factor(0.6) < 1.0
    assert context_factor(60_000) < context_factor(4_000) < 1.0


def test_repetition_past_the_natural_end_is_easy_to_guess() -> None:
    drafts = Agreement(1, "prose", 3, 1.0, natural_end=100)
    before = _length(Agreement(1, "prose", 3, 1.0, None), 3)
    position, verified, correct = 200, 0, 0
    while position < 3000:
        accepted = drafts.accepted(verified, position, 1.0)
        verified, correct, position = verified + 1, correct + accepted, position + accepted + 1
    assert 1 + correct / verified > before + 0.5


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
