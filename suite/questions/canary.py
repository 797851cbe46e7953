"""Questions with checkable answers: a server that answers garbage at full speed is broken, however fast it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

from suite.load import ClosedLoop, Prompt, RequestRecord, Sampling, Workload, play
from suite.questions.text_completions import TextCompletions
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.running_arm import RunningArm

MAX_TOKENS = 96
CLIENTS = 2
SHOWN = 3
NEAR_TIE = 1
TEXTS = 8
TEXT_TOKENS = 6
SHORT_TEXTS = "short text completions"
"""Scored against the other arms alone: not every checkpoint continues a bare text as one expects."""


@dataclass(frozen=True, slots=True)
class CanaryQuestion:
    """Something to ask, of a kind, and whether an answer is right."""

    kind: str
    text: str
    right: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Score:
    """How many questions were answered rightly, and the wrong answers as (question, answer)."""

    right: int
    asked: int
    wrong: tuple[tuple[CanaryQuestion, str], ...] = ()

    @property
    def share(self) -> float:
        """Right answers, as a share of all."""
        return self.right / self.asked

    def by_kind(self) -> str:
        """The wrong ones counted by kind: ``arithmetic 6, copying 6``."""
        kinds = [question.kind for question, _ in self.wrong]
        return ", ".join(f"{kind} {kinds.count(kind)}" for kind in dict.fromkeys(kinds))


def questions(count: int) -> list[CanaryQuestion]:
    """The first ``count`` questions, the four kinds in turn; always the same ones."""
    makers = (_arithmetic, _copying, _json, _counting)
    return [makers[number % len(makers)](number // len(makers)) for number in range(count)]


def score(asked: Sequence[CanaryQuestion], answers: Sequence[str | None]) -> Score:
    """Compare answers with what is right; an answer that did not come is wrong."""
    wrong = tuple(
        (question, answer or "")
        for question, answer in zip(asked, answers, strict=True)
        if answer is None or not question.right(answer)
    )
    return Score(len(asked) - len(wrong), len(asked), wrong)


def continued(count: int) -> list[CanaryQuestion]:
    """Texts of a few tokens that go on in one way: sums and numbers in a row, in turn; always the same ones."""
    found = []
    for number in range(count):
        if number % 2:
            first, step = 1 + number, 1 + number // 4
            shown = ", ".join(str(first + step * place) for place in range(4))
            found.append(CanaryQuestion("a row", f"{shown},", _starts_with(first + 4 * step)))
        else:
            a, b = 2 + number, 3 + 2 * number
            found.append(CanaryQuestion("a sum", f"{a} + {b} =", _starts_with(a + b)))
    return found


def _starts_with(value: int) -> Callable[[str], bool]:
    return lambda answer: re.findall(r"\d+", answer)[:1] == [str(value)]


def _arithmetic(number: int) -> CanaryQuestion:
    a, b = 17 + 23 * number, 25 + 9 * number
    return CanaryQuestion(
        "arithmetic", f"What is {a} + {b}? Answer with the number alone.", _has_number(a + b)
    )


_SENTENCES = (
    "The heron waits by the third lock.",
    "Seven blue kites over the harbour at noon.",
    "Order 4471 leaves for Bergen on Tuesday.",
    "No engine, no sail, only the tide.",
    "Copper rusts green and iron rusts red.",
    "Paper lanterns drift past the old mill.",
)


def _copying(number: int) -> CanaryQuestion:
    sentence = _SENTENCES[number % len(_SENTENCES)]
    return CanaryQuestion("copying", f"Repeat exactly: {sentence}", lambda answer: sentence in answer)


_RECORDS = (("Ada", 36), ("Grace", 85), ("Alan", 41), ("Edsger", 72), ("Barbara", 68), ("Donald", 59))


def _json(number: int) -> CanaryQuestion:
    name, age = _RECORDS[number % len(_RECORDS)]
    wanted = {"name": name, "age": age}
    text = f"Answer with a JSON object alone, without a code fence: {json.dumps(wanted)}"
    return CanaryQuestion("JSON", text, lambda answer: _object_in(answer) == wanted)


def _counting(number: int) -> CanaryQuestion:
    first, last = 1 + number, 9 + 2 * number
    counted = [str(n) for n in range(first, last + 1)]
    text = f"Count from {first} to {last}. Write only the numbers, with commas between them."
    return CanaryQuestion(
        "counting", text, lambda answer: re.findall(r"\d+", answer)[-len(counted) :] == counted
    )


def _has_number(value: int) -> Callable[[str], bool]:
    return lambda answer: re.findall(r"\d+", answer.replace(",", ""))[-1:] == [str(value)]


def _object_in(answer: str) -> object:
    """The JSON object in an answer, a code fence or words around it allowed; ``None`` if there is none."""
    start, end = answer.find("{"), answer.rfind("}")
    try:
        return json.loads(answer[start : end + 1]) if 0 <= start < end else None
    except ValueError:
        return None


class Canary:
    """Puts the questions to a server.

    Args:
        count: how many questions.
        noted: scores by arm, kept for the whole run.
    """

    def __init__(self, served: RunningArm, count: int, noted: MutableMapping[str, Score]) -> None:
        self._served = served
        self._count = count
        self._noted = noted

    def ask(self) -> Score:
        """Ask all questions, greedily and without thinking, and score the answers.

        Raises:
            InvalidMeasurement: not one request was answered.
        """
        asked = questions(self._count)
        prompts = tuple(
            Prompt(f"canary-{number}", question.kind, ({"role": "user", "content": question.text},))
            for number, question in enumerate(asked)
        )
        limits = self._served.target.timeouts
        answers = play(
            self._served.endpoint,
            Workload("canary", prompts, requests=len(prompts)),
            ClosedLoop(CLIENTS, len(prompts)),
            sampling=Sampling(MAX_TOKENS, temperature=0.0, chat_template_kwargs={"enable_thinking": False}),
            timeout_s=limits.request_s,
            stall_s=limits.stall_s,
            keep_text=True,
        )
        self._served.check()
        if not answers.ok:
            raise InvalidMeasurement(
                f"no canary question was answered; the first: {answers.requests[0].fault}"
            )
        return score(asked, [_text(record) for record in sorted(answers.requests, key=lambda r: r.index)])

    def ask_texts(self) -> Score:
        """Have short texts continued that go on in one way only, as text completions, and score them.

        Raises:
            InvalidMeasurement: not one request was answered.
        """
        asked = continued(TEXTS)
        texts = [question.text for question in asked]
        return score(asked, TextCompletions(self._served).ask(texts, TEXT_TOKENS))

    def must_be_right(self, floor: float) -> Score:
        """Assert that at least ``floor`` of the answers are right, and as many as in the other arms of this run.

        Raises:
            BrokenPromise: fewer are; the text shows some of the wrong answers.
        """
        found = self._noted[self._served.launch_id.arm] = self.ask()
        if found.share < floor:
            shown = "\n".join(f"  asked: {q.text}\n  answer: {a[:120]!r}" for q, a in found.wrong[:SHOWN])
            raise BrokenPromise(
                f"wrong answers: {found.right} of {found.asked} canary questions right, at least {floor:.0%} must be "
                f"(wrong: {found.by_kind()}). Speed and acceptance of such a server mean nothing\n{shown}",
                short=f"wrong answers ({found.right} of {found.asked} canary questions right)",
            )
        texts = f"{self._served.launch_id.arm}, {SHORT_TEXTS}"
        self._noted[texts] = self.ask_texts()
        for asked in (self._served.launch_id.arm, texts):
            if worse := fallen(asked, self._noted):
                raise BrokenPromise(worse)
        return found


def fallen(arm: str, scores: Mapping[str, Score]) -> str | None:
    """How an arm answers fewer questions than another, in words; one question more or less is a near tie."""
    mine = scores[arm]
    alike = {name: s for name, s in scores.items() if name.endswith(SHORT_TEXTS) is arm.endswith(SHORT_TEXTS)}
    better = {name: score for name, score in alike.items() if score.right > mine.right + NEAR_TIE}
    if not better:
        return None
    best = max(better, key=lambda name: better[name].right)
    what = SHORT_TEXTS if arm.endswith(SHORT_TEXTS) else "canary questions"
    return (
        f"answers got worse: {mine.right} of {mine.asked} {what} right, in {best} {better[best].right} "
        f"(wrong: {mine.by_kind()})"
    )


def _text(record: RequestRecord) -> str | None:
    return record.text if record.ok else None
