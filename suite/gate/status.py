"""The exit status that a judged run calls for: the first that applies of 1, 9, 8; else 0."""

from __future__ import annotations

from collections.abc import Iterable

from suite.gate.recordable import refused
from suite.gate.records import Outcome, Session
from suite.gate.verdicts import Judgement, Verdict

GOOD, BROKEN, UNDECIDED, INFRASTRUCTURE = 0, 1, 8, 9
"""0 all good; 1 a regression or a broken promise of the server; 8 nothing regressed, but something asked for could not
be judged; 9 infrastructure: host, driver, key, disk."""


def exit_status(session: Session, judged: Judgement) -> int:
    """What `pytest -m perf` and `python -m suite judge` end with."""
    verdicts, outcomes = judged.verdicts.values(), session.outcomes
    words = {verdict.word for verdict in verdicts} | {outcome.word for outcome in outcomes}
    plan = session.plan
    if words & {"broken promise", "broken"} or ("regression" in words and not plan.accepted):
        return BROKEN
    if plan.require_baseline and "unjudged" in words:
        return BROKEN
    if plan.recording and session.series and refused(session, judged):
        return BROKEN  # what was asked for was a baseline, and part of it is not fit to be one
    if "infrastructure" in words:
        return INFRASTRUCTURE
    if session.reference is not None and all(v.word in ("unjudged", "invalid") for v in verdicts):
        return UNDECIDED  # promises may hold, but nothing was compared
    asked = bool(session.asked or outcomes)  # an imported run was asked nothing
    if asked and nothing_judged(verdicts, outcomes) and not (plan.recording and verdicts):
        return BROKEN if plan.require_baseline else UNDECIDED
    if words & {"invalid", "unproven"} or ("inconclusive" in words and not plan.recording):
        return UNDECIDED
    return GOOD


def nothing_judged(verdicts: Iterable[Verdict], outcomes: Iterable[Outcome]) -> bool:
    """Whether no figure was judged and no promise was seen to hold: such a run says nothing of the server."""
    return all(v.word in ("unjudged", "invalid") for v in verdicts) and not any(
        outcome.word in ("kept", "broken") and outcome.kind not in MEASURING for outcome in outcomes
    )


MEASURING = frozenset(
    {"decode", "prefill", "acceptance", "speedup", "steptime", "depth", "backends", "traffic"}
)
"""Kinds of scenario whose items measure: that they ended well says nothing until their figures are judged."""
