"""Real SGLang, started here without a GPU, answers as it was recorded; so what holds for one holds for both.

Runs when asked for: install with `python tests/sglang_cpu/install.py`, then set SGLANG_CPU_CONTRACT=1.
"""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sglang_cpu import install

from .answers import Question, answer_differences, ask
from .arms import ASKED, Arms
from .questions import DETAILS, OLD_PATHS
from .record import CAPTURES, read_capture
from .servers import ARMS, NEXTN, running, sglang_command, sglang_environment

pytestmark = [
    pytest.mark.skipif(
        os.environ.get("SGLANG_CPU_CONTRACT") != "1",
        reason="starts real SGLang four times (two minutes): set SGLANG_CPU_CONTRACT=1 to run",
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


def spoken(url: str, prompt: str) -> tuple[str, dict[str, int]]:
    """A greedy answer of 128 tokens and what it says of speculation (empty when off)."""
    messages = [{"role": "user", "content": prompt}]
    body = {"model": "tiny", "temperature": 0, "max_tokens": 128, "messages": messages, **DETAILS}
    request = urllib.request.Request(
        f"{url}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        answer = json.load(response)
    return answer["choices"][0]["message"]["content"], answer.get("sglext", {}).get("spec_tokens_details", {})


def test_mtp_changes_the_steps_and_not_the_answer(sglang: Arms) -> None:
    """The checkpoint's own promise, on real verification: lossless, and about three tokens per step."""
    correct = steps = 0
    for prompt in ("abc", "Write a function that adds.", "Tell me of the sea."):
        text_off, details_off = spoken(sglang.url("off"), prompt)
        text_on, details = spoken(sglang.url("on"), prompt)
        assert text_on == text_off
        assert not details_off
        correct += details["spec_num_correct_drafts"]
        steps += details["spec_verify_ct"]
    assert 2.5 < 1 + correct / steps < 3.6


def test_a_random_mtp_head_is_a_dead_draft(tmp_path: Path) -> None:
    command = [*sglang_command(checkpoint="qwen3_5_moe_vl-dead-draft"), *NEXTN]
    with running(command, tmp_path / "log", sglang_environment()) as url:
        _, details = spoken(url, "abc")
    assert 1 + details["spec_num_correct_drafts"] / details["spec_verify_ct"] < 1.1
