"""Of a run of two builds: what held on both, beside each other; for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence

from suite.foreign import one_line
from suite.gate import Outcome, Session
from suite.gate.status import MEASURING

WORDS = {
    "kept": "holds",
    "broken": "BROKEN",
    "unproven": "not shown",
    "infrastructure": "not asked",
    "skipped": "-",
}
SAID = 80
"""Characters of what a broken promise said."""

Row = tuple[str, str, str, str]
HEADS: Row = ("check", "arm", "reference", "candidate")


def held(session: Session) -> list[Row]:
    """Every check that is no measurement, with how it ended on either build; empty of a run of one build."""
    if session.reference is None:
        return []
    sides = [_checks(session.reference.outcomes), _checks(session.outcomes)]
    places = dict.fromkeys([*sides[0], *sides[1]])
    return [(*place, _word(sides[0].get(place)), _word(sides[1].get(place))) for place in sorted(places)]


def _checks(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Outcome]:
    return {(o.item, o.arm): o for o in outcomes if o.kind not in MEASURING or o.word == "broken"}


def _word(outcome: Outcome | None) -> str:
    if outcome is None:
        return "-"
    word = WORDS[outcome.word]
    return f"{word}: {one_line(outcome.short or outcome.text, SAID)}" if outcome.word == "broken" else word
