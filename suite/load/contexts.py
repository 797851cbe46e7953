"""Long contexts of a chosen token length, built from the suite's own text and counted by the server, not guessed."""

from __future__ import annotations

import random
import secrets

from suite.load.endpoint import Endpoint, Sampling
from suite.load.play import play
from suite.load.records import LoadError
from suite.load.shapes import ClosedLoop
from suite.load.workloads import Prompt, Workload

_WHO = (
    "the harbour master",
    "a young surveyor",
    "our cook",
    "the schoolteacher",
    "a visiting botanist",
    "the ferryman",
)
_DID = (
    "measured",
    "sketched",
    "repaired",
    "described",
    "counted",
    "weighed",
    "forgot",
    "found again",
    "compared",
)
_WHAT = (
    "the lower bridge",
    "seven kinds of moss",
    "a cracked bell",
    "the rain gauge",
    "an unsigned letter",
    "two crates of lamps",
    "the northern path",
    "a flock of geese",
    "the old water clock",
    "last year's figures",
)
_WHERE = (
    "by the mill",
    "above the tree line",
    "in the archive",
    "near the ford",
    "behind the chapel",
    "at the quay",
)
_WHEN = (
    "before dawn",
    "at noon",
    "in heavy rain",
    "after the market",
    "on the third day",
    "when the wind turned",
)
_ASK = (
    "\n\nThe above are the field notes of one season. Write a long, detailed account of the season in your own words, "
    "month by month, naming people and places, and end with what remains unexplained."
)


def of_tokens(
    endpoint: Endpoint, tokens: int, prompts: int = 8, tolerance: float = 0.01, seed: int = 0
) -> Workload:
    """`prompts` different prompts of `tokens` prompt tokens each, within `tolerance`, as `endpoint` itself counts.

    Every size tried is asked of the server with one output token, and `usage.prompt_tokens` is believed. The prompts
    differ from their first words on, from one another and from those that were counted: none is in a prefix cache. Raises LoadError if the server refuses (context too short) or cannot be hit.
    """
    made = []
    chars = (
        tokens  # no tokenizer needs more tokens than characters of English: the first count fits any context
    )
    for number in range(prompts):
        prompt, chars = _fit(endpoint, tokens, chars, tolerance, seed * 1_000_003 + number)
        made.append(prompt)
    return Workload(f"long-{tokens}", tuple(made))


def text(chars: int, seed: int, notebook: int) -> str:
    """`chars` characters of field notes, the same for the same seed; `notebook` (six digits) makes the start differ."""
    chance = random.Random(seed)
    parts, length = [f"{notebook:06d} is the notebook."], 23
    while length < chars:
        who, did, what = chance.choice(_WHO), chance.choice(_DID), chance.choice(_WHAT)
        sentence = f" Entry {chance.randrange(1000)}: {chance.choice(_WHEN)} {who} {did} {what} {chance.choice(_WHERE)}."
        parts.append(sentence)
        length += len(sentence)
    return "".join(parts)[:chars]


def _fit(endpoint: Endpoint, tokens: int, chars: int, tolerance: float, seed: int) -> tuple[Prompt, int]:
    """A prompt of the wanted length and its characters, found by scaling to what the server counted."""
    for _ in range(8):
        counted = _count(endpoint, _prompt(chars, seed, secrets.randbelow(500_000)))
        if abs(counted - tokens) <= max(1, tolerance * tokens):
            return _prompt(chars, seed, 500_000 + seed % 500_000), chars
        chars = max(1, chars + round((tokens - counted) * chars / counted))
    raise LoadError(
        f"no prompt of {tokens} tokens could be made: the nearest has {counted}; the chat template and the question "
        "alone take some hundred tokens"
    )


def _prompt(chars: int, seed: int, notebook: int) -> Prompt:
    message = {"role": "user", "content": text(chars, seed, notebook) + _ASK}
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
