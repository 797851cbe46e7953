"""The simulator against recorded SGLang 0.5.23: every question, MTP off and on, an answer of the same shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from .answers import AnswerShape, Question, answer_differences, ask
from .questions import OLD_PATHS, QUESTIONS
from .record import CAPTURES, ask_all, read_capture
from .servers import ARMS, running, simulator_command

SGLANG = "0.5.23"


@pytest.fixture(scope="module", params=ARMS)
def arm(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def url(arm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The simulator in one arm."""
    log = tmp_path_factory.mktemp("simulator") / f"{arm}.log"
    with running([*simulator_command(), *ARMS[arm]], log, ready_s=60) as url:
        yield url


@pytest.fixture(scope="module")
def answers(url: str) -> Mapping[str, AnswerShape]:
    """All of the simulator's answers in one arm."""
    return ask_all(url)


@pytest.fixture(scope="module")
def recorded(arm: str) -> Mapping[str, AnswerShape]:
    """What real SGLang answered in the same arm."""
    return read_capture(CAPTURES / f"{SGLANG}-{arm}.json")


@pytest.mark.parametrize("question", QUESTIONS)
def test_answer_has_the_shape_of_sglangs(
    question: str, arm: str, answers: Mapping[str, AnswerShape], recorded: Mapping[str, AnswerShape]
) -> None:
    if found := list(answer_differences(answers[question], recorded[question])):
        pytest.fail(f"{question}, MTP {arm}:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(("old", "new"), OLD_PATHS.items())
def test_old_path_answers_as_the_new_one(old: str, new: str, url: str) -> None:
    assert ask(url, Question(old, method="GET")) == ask(url, Question(new, method="GET"))


def test_captures_hold_an_answer_to_every_question(recorded: Mapping[str, AnswerShape]) -> None:
    assert list(recorded) == list(QUESTIONS), "record again: python -m tests.contract.record URL FILE"
