"""Real SGLang, started here without a GPU, still answers as it was recorded; so what holds for one holds for both.

Runs when asked for: install with `python tests/sglang_cpu/install.py`, then set SGLANG_CPU_CONTRACT=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from tests.sglang_cpu import install

from .answers import AnswerShape, Question, answer_differences, ask
from .questions import OLD_PATHS, QUESTIONS
from .record import CAPTURES, ask_all, read_capture
from .servers import ARMS, running, sglang_command, sglang_environment

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SGLANG_CPU_CONTRACT") != "1",
        reason="starts real SGLang twice (a minute): set SGLANG_CPU_CONTRACT=1 to run",
    ),
    pytest.mark.skipif(
        not (install.home() / f"venv-{install.DEFAULT_VERSION}").exists(),
        reason="real SGLang is not installed: python tests/sglang_cpu/install.py",
    ),
]


@pytest.fixture(scope="module", params=ARMS)
def arm(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def url(arm: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Real SGLang in one arm."""
    log = tmp_path_factory.mktemp("sglang") / f"{arm}.log"
    with running([*sglang_command(), *ARMS[arm]], log, sglang_environment()) as url:
        yield url


@pytest.fixture(scope="module")
def answers(url: str) -> Mapping[str, AnswerShape]:
    """All of real SGLang's answers in one arm."""
    return ask_all(url)


@pytest.mark.parametrize("question", QUESTIONS)
def test_sglang_answers_as_recorded(question: str, arm: str, answers: Mapping[str, AnswerShape]) -> None:
    recorded = read_capture(CAPTURES / f"{install.DEFAULT_VERSION}-{arm}.json")[question]
    if found := list(answer_differences(recorded, answers[question], ("recorded", "live"))):
        pytest.fail(f"{question}, MTP {arm}:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(("old", "new"), OLD_PATHS.items())
def test_old_path_answers_as_the_new_one(old: str, new: str, url: str) -> None:
    assert ask(url, Question(old, method="GET")) == ask(url, Question(new, method="GET"))
