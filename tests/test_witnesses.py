"""Four witnesses on one question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.session.witnesses import Witness, from_answers, from_counter, from_resolved, require

words = st.sampled_from([True, False, None])


@given(st.lists(words, min_size=1, max_size=5), st.booleans())
def test_only_unanimous_and_heard_witnesses_pass(says, on):
    witnesses = [Witness(f"w{i}", word, "seen") for i, word in enumerate(says)]
    told = [word for word in says if word is not None]
    if told and all(word is on for word in told):
        require(witnesses, on=on, asked="x")
        return
    with pytest.raises(AssertionError) as caught:
        require(witnesses, on=on, asked="x")
    for witness in witnesses:
        assert str(witness) in str(caught.value)


def test_the_first_line_names_the_promise_that_broke():
    witnesses = [from_resolved("EAGLE", absent=False), from_answers(9, 24, 2, 2)]
    with pytest.raises(AssertionError, match=r"^MTP is on although --x was not given"):
        require(witnesses, on=False, asked="--x was not given")


def test_disagreement_names_the_dissenter():
    witnesses = [from_resolved("EAGLE", absent=False), from_answers(None, 24, 0, 2)]
    with pytest.raises(AssertionError, match="disagree: answers says off"):
        require(witnesses, on=True, asked="--x was given")


@pytest.mark.parametrize(
    ("witness", "on"),
    [
        (from_resolved(None, absent=False), False),
        (from_resolved(None, absent=True), None),
        (from_resolved("EAGLE", absent=False), True),
        (from_answers(None, 10, 0, 3), False),
        (from_answers(0, 10, 3, 3), False),
        (from_answers(4, 10, 3, 3), True),
        (from_answers(4, 10, 2, 3), None),
        (from_answers(None, 0, 0, 0), None),
        (from_counter(None, None, counters_shown=False), None),
        (from_counter(None, None, counters_shown=True), False),
        (from_counter(5.0, 5.0, counters_shown=True), False),
        (from_counter(None, 5.0, counters_shown=True), True),
    ],
)
def test_absent_is_never_read_as_a_number(witness, on):
    assert witness.on is on


@pytest.mark.parametrize(
    ("witness", "on"),
    [
        (from_answers(None, 10, 0, 3, silence="too old"), None),
        (from_answers(4, 10, 3, 3, silence="too old"), True),
        (from_counter(None, None, counters_shown=True, silence="too old"), None),
        (from_counter(None, None, counters_shown=True, silence="too old", last_window=3.1), True),
        (from_counter(None, None, counters_shown=True, last_window=3.1), True),
        (from_counter(None, 5.0, counters_shown=True, silence="too old"), True),
        (from_counter(5.0, 5.0, counters_shown=True, silence="too old"), False),
    ],
)
def test_a_release_that_cannot_tell_is_never_off(witness, on):
    assert witness.on is on


def test_witnesses_of_several_servers_are_told_first():
    witnesses = [from_resolved("EAGLE", absent=False), from_answers(9, 24, 1, 2)]
    with pytest.raises(AssertionError, match="more than one server answers here"):
        require(witnesses, on=True, asked="--x was given")
