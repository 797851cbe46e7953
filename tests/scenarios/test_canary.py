"""Canary questions: right answers in every form a sound model gives them, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.questions.canary import Score, fallen, questions, score


def _of(kind: str):
    return next(question for question in questions(4) if question.kind == kind)


@pytest.mark.parametrize(
    ("kind", "answer", "right"),
    [
        ("arithmetic", "42", True),
        ("arithmetic", "17 + 25 = 42.", True),
        ("arithmetic", "The answer is **42**", True),
        ("arithmetic", "421", False),
        ("arithmetic", "42 or maybe 43", False),
        ("arithmetic", "", False),
        ("copying", "The heron waits by the third lock.", True),
        ("copying", '"The heron waits by the third lock."', True),
        ("copying", "The heron waits by the lock.", False),
        ("JSON", '{"age": 36, "name": "Ada"}', True),
        ("JSON", '```json\n{"name": "Ada", "age": 36}\n```', True),
        ("JSON", '{"name": "Ada", "age": "36"}', False),
        ("JSON", '{"name": "Ada", "age": 36', False),
        ("counting", "1, 2, 3, 4, 5, 6, 7, 8, 9", True),
        ("counting", "1,2,3,4,5,6,7,8,9.", True),
        ("counting", "1, 2, 3, 4, 5, 6, 8, 9", False),
        ("counting", "1, 2, 3, 4, 5, 6, 7, 8, 9, 10", False),
    ],
)
def test_answers(kind, answer, right):
    assert _of(kind).right(answer) is right


def test_repetitive_garbage_is_never_right():
    asked = questions(24)
    assert score(asked, [" the the the the" * 20] * len(asked)).right == 0


def test_the_same_questions_every_time_and_four_kinds_in_turn():
    assert [q.text for q in questions(24)] == [q.text for q in questions(24)]
    assert [q.kind for q in questions(5)] == ["arithmetic", "copying", "JSON", "counting", "arithmetic"]
    assert len({q.text for q in questions(24)}) == 24


def test_an_arm_that_answers_fewer_than_another_has_fallen_and_one_question_is_a_tie():
    scores = {"mtp-off": Score(24, 24), "mtp-on": Score(22, 24), "x": Score(23, 24)}
    assert fallen("mtp-on", scores).startswith(
        "answers got worse: 22 of 24 canary questions right, in mtp-off 24"
    )
    assert fallen("x", scores) is None
    assert fallen("mtp-off", scores) is None


@given(st.integers(1, 24), st.data())
def test_the_share_is_of_all_that_were_asked_also_of_those_not_answered(count, data):
    asked = questions(count)
    unanswered = data.draw(st.sets(st.integers(0, count - 1)))
    told = score(asked, [None if n in unanswered else _right_answer(q) for n, q in enumerate(asked)])
    assert told.share == pytest.approx(1 - len(unanswered) / count)
    assert len(told.wrong) == len(unanswered)


def _right_answer(question):
    """What the question asks for, worked out from its text."""
    words = question.text
    if question.kind == "arithmetic":
        a, b = words.split("What is ")[1].split("?")[0].split(" + ")
        return str(int(a) + int(b))
    if question.kind == "counting":
        first, last = words.split("Count from ")[1].split(".")[0].split(" to ")
        return ", ".join(map(str, range(int(first), int(last) + 1)))
    return words.split(": ", 1)[1]
