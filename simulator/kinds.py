"""What kind of content a prompt asks for, from simple features of its text."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["code", "maths", "json", "prose", "multilingual"]
KINDS: tuple[Kind, ...] = ("code", "maths", "json", "prose", "multilingual")

_JSON = re.compile(r"\bjson\b|\{\s*\"", re.IGNORECASE)
_CODE = re.compile(
    r"```|\bdef \w+\(|\bc(?:\+\+|#)|\b(?:python|javascript|typescript|rust|java|kotlin|golang|ruby|sql|bash|code|function|class|method|"
    r"implement|refactor|unit tests?|algorithm|compiler|program|script|api)\b",
    re.IGNORECASE,
)
_MATHS = re.compile(
    r"\b(?:prove|proof|theorem|lemma|equation|integral|derivative|matrix|polynomial|algebra|geometry|calculus|"
    r"probability|arithmetic|maths?|mathematics|sum|solve|integers?|primes?|fractions?|calculate)\b|\d ?[+*/=^] ?\d|\d - \d",
    re.IGNORECASE,
)
_LANGUAGES = re.compile(
    r"\b(?:translate|translation|french|german|spanish|italian|portuguese|chinese|japanese|korean|russian|arabic|hindi|"
    r"turkish|polish|dutch|vietnamese|languages?)\b",
    re.IGNORECASE,
)

_FOREIGN = re.compile(
    r"\b(?:und|eine|einen|nicht|het|een|voor|les|une|dans|los|una|para|che|della|uma|dos)\b", re.IGNORECASE
)


_TAG = re.compile(r"^\s*\[[^\]]*\]\s*")
FOREIGN_SHARE = 0.01
FOREIGN_WORDS = 4
"""So many small words of other languages make a text foreign that has hardly any letters of its own."""


def without_tag(text: str) -> str:
    """The text without a tag in brackets in front, which makes prompts unique and changes nothing else."""
    return _TAG.sub("", text)


def kind_of(text: str) -> Kind:
    """The kind of answer a prompt asks for: the one most of whose features are there, prose if none is."""
    text = without_tag(text)[-4000:]
    foreign = sum(character.isalpha() and not character.isascii() for character in text)
    if foreign > FOREIGN_SHARE * max(1, len(text)) or len(_FOREIGN.findall(text)) >= FOREIGN_WORDS:
        return "multilingual"
    score: dict[Kind, int] = {
        "json": 2 * len(_JSON.findall(text)),
        "code": len(_CODE.findall(text)),
        "maths": len(_MATHS.findall(text)),
        "multilingual": len(_LANGUAGES.findall(text)),
        "prose": 0,
    }
    best = max(score, key=lambda kind: score[kind])
    return best if score[best] else "prose"
