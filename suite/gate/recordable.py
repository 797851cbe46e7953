"""What of a run may become a baseline: nothing of an arm that broke a promise, was not measured well, or got worse."""

from __future__ import annotations

import msgspec

from suite.gate.records import Session
from suite.gate.values import untrusted
from suite.gate.verdicts import Judgement


def refused(session: Session, judged: Judgement) -> dict[str, str]:
    """By arm, why nothing of it is recorded; empty if all of it may be."""
    why: dict[str, str] = {}
    for outcome in session.outcomes:
        if outcome.word in ("broken", "unproven", "infrastructure"):
            why.setdefault(outcome.arm, f"{outcome.item}: {outcome.short or outcome.text}")
    for verdict in judged.verdicts.values():
        worse = verdict.word == "regression" and not session.plan.accepted
        if worse or verdict.word in ("broken promise", "invalid"):
            hint = "; --accept-regression REASON records it as the new level" if worse else ""
            why.setdefault(verdict.arm, f"{verdict.question}: {verdict.headline}{hint}")
    for series in session.series:
        if (reason := untrusted(series)) is not None:
            why.setdefault(series.arm, f"{series.question}: {reason}")
    return why


def recordable(session: Session, judged: Judgement) -> Session:
    """The run without the series of arms that are refused, and without ratios that such an arm is part of."""
    bad = set(refused(session, judged))
    kept = [s for s in session.series if not bad & {s.arm, *s.derived_from}]
    return msgspec.structs.replace(session, series=kept)
