"""Long contexts of a chosen token length: documents made from parts, one per prompt, counted by the server, not guessed."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cache
from importlib import resources
from random import Random
from typing import Any

from suite.load import making
from suite.load.endpoint import Endpoint, Sampling
from suite.load.play import play
from suite.load.records import LoadError
from suite.load.shapes import ClosedLoop
from suite.load.workloads import Prompt, Workload

MONTHS = [
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
]  # fmt: skip
PARAGRAPH = 6
"""Sentences of an entry; after three entries all sentences of a document have been there."""
EVERY = 3
_COUNTING = 500_000
"""From this number on are documents that are only counted, so that none that is played is in a prefix cache by then."""


def of_tokens(
    endpoint: Endpoint, tokens: int, prompts: int = 8, tolerance: float = 0.01, seed: int = 0
) -> Workload:
    """`prompts` different prompts of `tokens` prompt tokens each, as `endpoint` itself counts.

    Every size tried is asked of the server with one output token, and `usage.prompt_tokens` is believed; the size found
    is within `tolerance`. One document is counted: all have as many characters, so that their tokens differ by one or
    two per cent. Each is another document from its first words on, the same for every server. Raises LoadError if the
    server refuses (context too short) or cannot be hit.
    """
    chars = _fitting(endpoint, tokens, tolerance, seed * 1_000_003)
    made = tuple(_prompt(chars, seed * 1_000_003 + number) for number in range(prompts))
    return Workload(f"long-{tokens}", made)


@dataclass(frozen=True, slots=True)
class Chars:
    """How many characters of a document make a prompt of so many tokens, as one server counts them."""

    per_token: float
    before: float
    """Tokens of the chat template and of whatever else stands around the text."""

    def __call__(self, tokens: int) -> int:
        return max(1, round((tokens - self.before) * self.per_token))


def chars_for(endpoint: Endpoint, context_length: int | None = None) -> Chars:
    """Count a short and a longer document on `endpoint`, both within its context; LoadError if the server counts no tokens."""
    longer = 4000 if context_length is None else min(4000, max(800, context_length // 2))
    short, long = ((chars, _count(endpoint, _plain(chars, _COUNTING + chars))) for chars in (400, longer))
    per_token = (long[0] - short[0]) / max(1, long[1] - short[1])
    return Chars(per_token, max(0.0, short[1] - short[0] / per_token))


def _plain(chars: int, seed: int) -> Prompt:
    return Prompt(f"count-{seed}", "long", ({"role": "user", "content": text(chars, seed)},))


def text(chars: int, seed: int) -> str:
    """The first `chars` characters of document number `seed`; two documents differ from their title on."""
    parts, length = [], 0
    for part in _document(seed):
        parts.append(part)
        length += len(part)
        if length >= chars:
            break
    return "".join(parts)[:chars]


def _document(seed: int) -> Iterator[str]:
    """A document without end: its title, then dated entries; no sentence comes again before all others of its kind did."""
    chance, kind = Random(seed), _kind(seed)
    parts: dict[str, list[str]] = _parts()["parts"]
    day = date(1901, 1, 1) + timedelta(days=chance.randrange(365))
    known = {"home": chance.choice(parts["town"])}

    def filled(template: str) -> str:
        return making.filled(template, lambda slot: known.get(slot) or chance.choice(parts[slot]))

    yield f"No. {_shelf(seed):06d}. {filled(kind['title'])}"
    for count in itertools.count(1):
        if count % EVERY == 1:
            left = chance.sample(kind["sentences"], len(kind["sentences"]))
        known |= {"count": str(count), "day": str(day.day), "month": MONTHS[day.month - 1]}
        taken, left = left[:PARAGRAPH], left[PARAGRAPH:]
        yield f"\n\n{filled(kind['heading'])} {' '.join(map(filled, taken))}"
        day += timedelta(days=kind.get("days") or chance.randint(1, 3))


def _shelf(seed: int) -> int:
    """Six digits, in no order that shows: neighbours differ from the first one on, and no two of 10^6 are alike."""
    return seed * 654_321 % 1_000_000


@cache
def _parts() -> dict[str, Any]:
    return tomllib.loads(
        resources.files("suite.load").joinpath("prompts", "contexts.toml").read_text(encoding="utf-8")
    )


def _kind(seed: int) -> dict[str, Any]:
    documents: list[dict[str, Any]] = _parts()["document"]
    return documents[seed % len(documents)]


def _fitting(endpoint: Endpoint, tokens: int, tolerance: float, seed: int) -> int:
    """The characters of a document that makes a prompt of the wanted length, found by scaling to what the server counted."""
    chars = (
        tokens  # no tokenizer needs more tokens than characters of English: the first count fits any context
    )
    for number in range(8):
        counted = _count(endpoint, _prompt(chars, seed + _COUNTING + 6 * number))
        if abs(counted - tokens) <= max(1, tolerance * tokens):
            return chars
        chars = max(1, chars + round((tokens - counted) * chars / counted))
    raise LoadError(
        f"no prompt of {tokens} tokens could be made: the nearest has {counted}; the chat template and the question "
        "alone take some hundred tokens"
    )


def _prompt(chars: int, seed: int) -> Prompt:
    message = {"role": "user", "content": text(chars, seed) + _kind(seed)["question"]}
    return Prompt(f"long-{seed}", "long", (message,))


def _count(endpoint: Endpoint, prompt: Prompt) -> int:
    round_ = play(endpoint, Workload("count", (prompt,)), ClosedLoop(1, 1), sampling=Sampling(max_tokens=1))
    record = round_.requests[0]
    if record.fault is not None:
        raise LoadError(
            f"the server would not take a prompt of about {len(prompt.text)} characters: {record.fault}"
        )
    if not record.prompt_tokens:
        raise LoadError(
            "the server reports no usage.prompt_tokens: a context of chosen length cannot be counted"
        )
    return record.prompt_tokens
