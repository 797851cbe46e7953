"""How an Allure report sorts what did not end well: six kinds, told by the first words of the message."""

from __future__ import annotations

from typing import Any

from suite.gate import Outcome, Word

REGRESSION, BROKEN, INVALID, UNDECIDED, MACHINE, UNJUDGED = (
    "Regression",
    "Broken promise",
    "Invalid measurement",
    "Cannot tell",
    "Infrastructure",
    "Unjudged",
)
NAMES = (BROKEN, REGRESSION, INVALID, UNDECIDED, MACHINE, UNJUDGED)

_WORDS: dict[Word, str] = {
    "broken promise": BROKEN,
    "regression": REGRESSION,
    "invalid": INVALID,
    "inconclusive": UNDECIDED,
    "unjudged": UNJUDGED,
}
_OUTCOMES = {"broken": BROKEN, "unproven": UNDECIDED, "infrastructure": MACHINE}


def of_word(word: Word) -> str:
    """The category of a verdict; empty for one that is well."""
    return _WORDS.get(word, "")


def of_outcome(outcome: Outcome) -> str:
    """The category of how an item ended; empty for one that ended well or was not to be asked."""
    return INVALID if outcome.name == "InvalidMeasurement" else _OUTCOMES.get(outcome.word, "")


def rules() -> list[dict[str, Any]]:
    """As ``categories.json`` has them, which Allure 2 reads, in Java; Allure 3, in JavaScript, takes the same as configuration."""
    return [
        {
            "name": name,
            "messageRegex": rf"^{name}:[\s\S]*",
            "matchedStatuses": ["failed", "broken", "skipped"],
        }
        for name in NAMES
    ]
