"""From figures judged to a run judged: floors, what was asked and not measured, causes, the sentence, the status."""

from __future__ import annotations

import msgspec

from suite.gate.attribution import causes
from suite.gate.records import Asked, Key, Outcome, Session
from suite.gate.rules import Rules
from suite.gate.sentence import sentence
from suite.gate.status import exit_status
from suite.gate.verdicts import Estimate, Judgement, Verdict


def conclude(session: Session, judged: Judgement, book: Rules) -> Judgement:
    """The whole verdict, from the figures' verdicts and everything else that the session holds.

    Holds floors that apply whatever the baseline says, gives every figure that was asked for and not measured a
    verdict that says why, and finds causes, sentence and exit status. Pure: the same session gives the same words.
    """
    verdicts = dict(judged.verdicts)
    for asked in session.asked:
        if not_asked_after_all(session, asked):
            continue
        verdicts |= _unmeasured(session, asked, verdicts, book)
        verdicts |= _below_floor(asked, verdicts, judged.informational)
    judged = msgspec.structs.replace(judged, verdicts=dict(sorted(verdicts.items())))
    judged = msgspec.structs.replace(
        judged, causes=causes(session, judged), status=exit_status(session, judged)
    )
    return msgspec.structs.replace(judged, sentence=sentence(session, judged))


def not_asked_after_all(session: Session, asked: Asked) -> bool:
    """Whether an item of this series was skipped: the running server is no such arm, its context is too short."""
    if session.find(asked.question, asked.arm) is not None:
        return False
    return any(outcome.word == "skipped" for outcome in _items_of(session, asked))


def _items_of(session: Session, asked: Asked) -> list[Outcome]:
    arms = asked.parts or [asked.arm]
    return [o for o in session.outcomes if o.item == asked.question and o.arm in arms]


def _unmeasured(
    session: Session, asked: Asked, verdicts: dict[Key, Verdict], book: Rules
) -> dict[Key, Verdict]:
    found = {}
    for metric in asked.metrics:
        key = Key(asked.question, asked.arm, metric)
        rule = book.of(metric, asked.arm)
        if key in verdicts or rule is None or book.switched_off(metric, asked.arm):
            continue
        why = _why_unmeasured(session, asked, metric)
        found[key] = Verdict(
            *key,
            word="invalid",
            headline=f"{rule.label}: not measured, {why}",
            reason=f"not measured: {why}",
            estimate=Estimate(rule.label, rule.unit, None),
            margin=rule.margin,
        )
    return found


def _why_unmeasured(session: Session, asked: Asked, metric: str) -> str:
    if asked.unmeasured:
        return asked.unmeasured
    bad = [o for o in _items_of(session, asked) if o.word in ("broken", "infrastructure", "unproven")]
    if bad:
        return bad[0].short or bad[0].text
    series = session.find(asked.question, asked.arm)
    told = (
        [launch.missing[metric] for launch in series.launches if metric in launch.missing] if series else []
    )
    return told[0] if told else "the run ended before it was its turn"


def _below_floor(
    asked: Asked, verdicts: dict[Key, Verdict], informational: dict[Key, Estimate]
) -> dict[Key, Verdict]:
    """A measurement that is invalid breaks no claim; any other must reach the floor."""
    found = {}
    for claim in asked.claims:
        key = Key(asked.question, asked.arm, claim.metric)
        verdict = verdicts.get(key)
        estimate = verdict.estimate if verdict else informational.get(key)
        if estimate is None or estimate.value is None or estimate.value >= claim.floor:
            continue
        if verdict is not None and verdict.word == "invalid":
            continue
        said = (
            f"{estimate.label} {estimate.value:.3f} is below the floor of {claim.floor:g}: {claim.otherwise}"
        )
        margin = verdict.margin if verdict else 0.0
        beside = f"{verdict.word} beside the baseline: {verdict.headline}" if verdict else "not judged"
        found[key] = Verdict(*key, "broken promise", said, beside, estimate, margin)
    return found
