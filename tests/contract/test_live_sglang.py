"""Real SGLang, started here without a GPU, answers as it was recorded; so what holds for one holds for both.

Runs when asked for: install with `python tests/sglang_cpu/install.py`, then set SGLANG_CPU_CONTRACT=1.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.sglang_cpu import install

from .answers import Question, answer_differences, ask
from .arms import ASKED, Arms
from .questions import OLD_PATHS
from .record import CAPTURES, read_capture
from .servers import ARMS, running, sglang_command, sglang_environment

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SGLANG_CPU_CONTRACT") != "1",
        reason="starts real SGLang three times (a minute or two): set SGLANG_CPU_CONTRACT=1 to run",
    ),
    pytest.mark.skipif(
        not (install.home() / f"venv-{install.DEFAULT_VERSION}").exists(),
        reason="real SGLang is not installed: python tests/sglang_cpu/install.py",
    ),
]


@pytest.fixture(scope="module")
def sglang(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arms]:
    logs, environment = tmp_path_factory.mktemp("sglang"), sglang_environment()
    with Arms(lambda arm: running([*sglang_command(), *ARMS[arm]], logs / f"{arm}.log", environment)) as arms:
        yield arms


@pytest.mark.parametrize(("arm", "question"), ASKED)
def test_sglang_answers_as_recorded(arm: str, question: str, sglang: Arms) -> None:
    recorded = read_capture(CAPTURES / f"{install.DEFAULT_VERSION}-{arm}.json")[question]
    if found := list(answer_differences(recorded, sglang.answers(arm)[question], ("recorded", "live"))):
        pytest.fail(f"{question}, MTP {arm}:\n" + "\n".join(found), pytrace=False)


@pytest.mark.parametrize(("old", "new"), OLD_PATHS.items())
def test_old_path_answers_as_the_new_one(old: str, new: str, sglang: Arms) -> None:
    url = sglang.url("on")
    assert ask(url, Question(old, method="GET")) == ask(url, Question(new, method="GET"))
