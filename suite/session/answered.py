"""What each prompt was answered with, as the gate keeps it: verify steps, correct drafts, length and a hash of the text."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from suite.gate import Answers
from suite.load import RequestRecord, Round

T = TypeVar("T")
HASH_DIGITS = 12
"""Hexadecimal digits kept of a text's SHA-256: two of 10^4 different texts agree with a chance of 2 in 10^7."""


def answers_of(round_: Round) -> Answers | None:
    """The answers of one round's good requests, in the order of asking; None if no prompt was answered.

    A prompt that was asked more than once in the round (fewer prompts than requests) is ``name#2`` the second time.
    Steps and drafts are left out unless every answer reports them, texts unless every text was kept.
    """
    records = round_.ok
    if not records:
        return None
    specs = [record.spec for record in records if record.spec is not None]
    told = len(specs) == len(records)
    return Answers(
        prompts=_named(records),
        steps=[spec.verify_steps for spec in specs] if told else [],
        drafts=[spec.correct_drafts for spec in specs] if told else [],
        tokens=[record.completion_tokens or 0 for record in records],
        texts=[_hash(r) for r in records] if all(r.text is not None for r in records) else [],
    )


def joined(rounds: Sequence[Answers | None]) -> Answers | None:
    """The answers of a launch: those of its rounds, whose prompts from the second round on are ``name@2`` and so on.

    Steps, drafts, tokens and texts are left out unless every round that has answers has them.
    """
    there = [(number, answers) for number, answers in enumerate(rounds, 1) if answers is not None]
    if not there:
        return None
    return Answers(
        prompts=[
            name if number == 1 else f"{name}@{number}"
            for number, answers in there
            for name in answers.prompts
        ],
        steps=_column([answers.steps for _, answers in there]),
        drafts=_column([answers.drafts for _, answers in there]),
        tokens=_column([answers.tokens for _, answers in there]),
        texts=_column([answers.texts for _, answers in there]),
    )


def _column(columns: list[list[T]]) -> list[T]:
    return [value for column in columns for value in column] if all(columns) else []


def _named(records: Iterable[RequestRecord]) -> list[str]:
    asked: Counter[str] = Counter()
    names = []
    for record in records:
        asked[record.prompt] += 1
        names.append(
            record.prompt if asked[record.prompt] == 1 else f"{record.prompt}#{asked[record.prompt]}"
        )
    return names


def _hash(record: RequestRecord) -> str:
    whole = f"{record.reasoning or ''}\0{record.text or ''}"
    return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_DIGITS]
