"""The simulator against recorded SGLang 0.5.23: every question, MTP off and on, an answer of the same shape."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .answers import Question, answer_differences, ask
from .arms import ASKED, Arms
from .questions import OLD_PATHS, questions_for
from .record import CAPTURES, read_capture
from .servers import ARMS, running, simulator_command

SGLANG = "0.5.23"


@pytest.fixture(scope="module")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arms]:
    logs = tmp_path_factory.mktemp("simulator")
    with Arms(
        lambda arm: running([*simulator_command(), *ARMS[arm]], logs / f"{arm}.log", ready_s=60)
    ) as arms:
        yield arms


@pytest.mark.parametrize(("arm", "question"), ASKED)
def test_answer_has_the_shape_of_sglangs(arm: str, question: str, simulator: Arms) -> None:
    recorded = read_capture(CAPTURES / f"{SGLANG}-{arm}.json")[question]
    if found := list(answer_differences(simulator.answers(arm)[question], recorded)):
        pytest.fail(f"{question}, MTP {arm}:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(("old", "new"), OLD_PATHS.items())
def test_old_path_answers_as_the_new_one(old: str, new: str, simulator: Arms) -> None:
    url = simulator.url("on")
    assert ask(url, Question(old, method="GET")) == ask(url, Question(new, method="GET"))


@pytest.mark.parametrize("arm", ARMS)
def test_captures_hold_an_answer_to_every_question(arm: str) -> None:
    recorded = read_capture(CAPTURES / f"{SGLANG}-{arm}.json")
    assert list(recorded) == list(questions_for(arm)), "record again: python -m tests.contract.record"
