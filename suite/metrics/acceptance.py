"""Accepted drafts over many requests, as a ratio of sums: never a mean of ratios, never a stand-in for an unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from suite.load.records import RequestRecord, Round

NOT_REPORTED = "not reported in these answers (sglext.spec_tokens_details absent)"
REPLICAS = (
    "more than one server answers here, as behind a router, and not all of them speculate; "
    "give the address of a single one"
)


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Accepted drafts over many requests, as a ratio of sums.

    `length` = 1 + correct_drafts / verify_steps, None with a `reason` if it is not known. `per_position[i]` is the
    share of verify steps in which draft token i was right; positions count from 0.
    """

    length: float | None
    correct_drafts: int
    verify_steps: int
    proposed_drafts: int
    per_position: tuple[float, ...]
    requests: int
    reason: str | None = None


def acceptance(round_: Round, kind: str | None = None) -> Acceptance:
    """Acceptance over a round's good requests (of one kind of content, if given).

    Requests whose counters contradict themselves have the fault `acceptance_identity` and are not among them.
    """
    records = [r for r in round_.ok if kind is None or r.kind == kind]
    told = [r.spec for r in records if r.spec is not None]
    steps = sum(s.verify_steps for s in told)
    correct = sum(s.correct_drafts for s in told)
    proposed = sum(s.proposed_drafts for s in told)
    counts = [sum(of_each) for of_each in zip_longest(*(s.histogram for s in told), fillvalue=0)]
    positions = tuple(sum(counts[i:]) / steps for i in range(1, len(counts))) if steps else ()
    reason = _unknown(round_, records, len(told), steps)
    length = None if reason else 1 + correct / steps
    return Acceptance(length, correct, steps, proposed, positions, len(told), reason)


def yield_of(answers: Sequence[RequestRecord], verify_steps: float) -> float | None:
    """Tokens a verify step, where only the steps of all answers together are known: (tokens - answers) / steps.

    The first token of an answer is prefill's. A last step that the end cut short makes it a little too small; the
    exact figure is 1 + correct drafts / verify steps, see :func:`acceptance`. None without steps.
    """
    tokens = sum(count - 1 for answer in answers if (count := answer.completion_tokens))
    return tokens / verify_steps if verify_steps > 0 and tokens > 0 else None


def _unknown(round_: Round, records: Sequence[RequestRecord], told: int, steps: int) -> str | None:
    if not records:
        return "no request succeeded"
    if not round_.acceptance_meaningful:
        return "random tokens: their acceptance means nothing"
    if told == 0:
        return NOT_REPORTED
    if told < len(records):
        return f"only {told} of {len(records)} answers carried sglext.spec_tokens_details"
    if steps == 0:
        return "no verify step in any answer"
    return None
