"""The run in one sentence, made from causes: the same words in terminal, summary, report and offline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from suite.gate.records import Session
from suite.gate.status import BROKEN, INFRASTRUCTURE, MEASURING, UNDECIDED, nothing_judged
from suite.gate.verdicts import Cause, Judgement, Verdict

SHOWN_CAUSES, SHOWN_TEXT = 2, 160
SETTLES = " would settle it"
"""How advice ends that says what an undecided figure needs."""
UNSETTLED = {"invalid": "not to be trusted", "unmeasured": "not measured", "undecided": "undecided"}
"""Kinds of cause that leave a figure without a verdict, in words."""
PROVEN = ("promise", "launch", "machine", "acceptance", "steps", "prefill", "figure")
"""Kinds of cause that the server answers for."""


def sentence(session: Session, judged: Judgement) -> str:
    """`NO-GO: MTP drafts are dead (0 of 570 accepted): 14 figures follow from it`, or GO, or CANNOT TELL.

    Of two builds it says which they are: `GO for sglang==0.5.23 in place of 0.5.20: 14 figures within 2 %`.
    """
    said = _sentence(session, judged)
    if session.reference is None:
        return said
    word, _, rest = said.partition(": ")
    word = word.replace("CANNOT TELL", "CANNOT TELL YET")
    return f"{word} for {session.reference.candidate} in place of {session.reference.name}: {rest}"


def _sentence(session: Session, judged: Judgement) -> str:
    if judged.status == BROKEN:
        return f"NO-GO: {_no_go(session, judged)}"
    if judged.status == INFRASTRUCTURE:
        causes = [c for c in judged.causes if c.kind == "infrastructure"]
        return f"NOT MEASURED, infrastructure: {_listed(causes)}"
    if judged.status == UNDECIDED:
        return f"CANNOT TELL: {_cannot_tell(session, judged)}"
    return _good(session, judged)


def _no_go(session: Session, judged: Judgement) -> str:
    causes = [c for c in judged.causes if c.kind in PROVEN]
    if causes:
        return _listed(causes)
    unjudged = [v for v in judged.verdicts.values() if v.word == "unjudged"]
    if unjudged:
        return f"{_figures(len(unjudged))} without a baseline, and one is required: {unjudged[0].reason}; {unjudged[0].needs}"
    return f"{_nothing(session)}, and a baseline is required to be met"


def _cannot_tell(session: Session, judged: Judgement) -> str:
    verdicts = list(judged.verdicts.values())
    if nothing_judged(verdicts, session.outcomes) and not any(v.word == "invalid" for v in verdicts):
        unjudged = [v for v in verdicts if v.word == "unjudged"]
        if unjudged:
            return f"nothing was judged: {unjudged[0].reason}; {unjudged[0].needs}"
        return _nothing(session)
    parts: list[str] = []
    for kind, said in UNSETTLED.items():
        causes = [c for c in judged.causes if c.kind == kind]
        count = sum(len(c.figures) for c in causes)
        if count and parts:  # the first kind says why; the others are told below it
            parts.append(f"{count} more {said}")
        elif count:
            parts.append(f"{count} of {_figures(len(verdicts))} {said}: {_texts(causes)}")
    unjudged = [v for v in verdicts if v.word == "unjudged"]
    if not parts and session.reference is not None and unjudged:
        return f"nothing was compared: {unjudged[0].reason}"
    if not parts:
        unproven = [o for o in session.outcomes if o.word == "unproven"]
        parts = [f"{o.item}, {o.arm}: {o.short or o.text}" for o in unproven[:SHOWN_CAUSES]]
    return "; ".join(parts) or _nothing(session)


def _nothing(session: Session) -> str:
    """That nothing was measured, and why."""
    skipped = [o for o in session.outcomes if o.word == "skipped"]
    others = [o for o in session.outcomes if o.word in ("unproven", "infrastructure")]
    reasons = list(dict.fromkeys(o.short or o.text for o in [*others, *skipped]))
    return "nothing was measured" + (f": {'; '.join(reasons[:SHOWN_CAUSES])}" if reasons else "")


def _good(session: Session, judged: Judgement) -> str:
    verdicts = list(judged.verdicts.values())
    kept = sum(o.word == "kept" and o.kind not in MEASURING for o in session.outcomes)
    of_word = {word: [v for v in verdicts if v.word == word] for word in {v.word for v in verdicts}}
    passed, better = of_word.get("pass", []), of_word.get("improvement", [])
    unjudged, open_ = of_word.get("unjudged", []), of_word.get("inconclusive", [])
    parts = []
    if passed:
        margins = Counter(v.margin for v in passed)
        (margin, count), *others = sorted(margins.items())
        parts.append(f"{_figures(count)} within {100 * margin:g} %")
        parts += [f"{more} within {100 * wider:g} %" for wider, more in others]
    if better:
        parts.append(f"{len(better)} better than the {session.against}")
    if judged.status == 0 and (regressed := of_word.get("regression")):
        parts.append(f"{len(regressed)} worse, accepted: {session.plan.accepted}")
    if open_:
        parts.append(f"{len(open_)} undecided, which a recording run may leave")
    if gain := _gain(verdicts):
        parts.append(gain)
    if unjudged:
        reason, needs = unjudged[0].reason, unjudged[0].needs
        parts.append(
            f"{_figures(len(unjudged))} not judged, {reason}" + (f" ({needs})" if not passed else "")
        )
    if kept and not passed and not better:
        parts.append(f"{kept} check{'s' if kept > 1 else ''} passed")
    compared = any(v.word not in ("unjudged", "invalid") for v in verdicts)
    return f"{'GO' if compared or not unjudged else 'NOT JUDGED'}: {', '.join(parts)}"


def _gain(verdicts: Iterable[Verdict]) -> str:
    """What MTP gains, at the fewest clients and at the most that were measured."""
    told = [
        (int(m[1]), v.value)
        for v in verdicts
        if (m := re.search(r"\[c(\d+)\]$", v.question)) and v.metric == "mtp_speedup"
    ]
    known = sorted((clients, value) for clients, value in told if value is not None)
    if not known:
        return ""
    ends = [known[0], known[-1]] if len(known) > 1 else known
    return "MTP on " + ", ".join(
        f"{'gains' if value >= 1 else 'costs'} {100 * abs(value - 1):.0f} % at {clients} client{'s' if clients > 1 else ''}"
        for clients, value in ends
    )


def _listed(causes: Sequence[Cause]) -> str:
    shown = [_with_effects(cause) for cause in causes[:SHOWN_CAUSES]]
    more = len(causes) - SHOWN_CAUSES
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _with_effects(cause: Cause) -> str:
    counted = [(len(cause.figures), "figure"), (len(cause.others), "other check")]
    if len(cause.figures) + len(cause.others) < 2 and cause.kind != "promise":
        return cause.text
    told = " and ".join(f"{n} {what}{'s' if n > 1 else ''}" for n, what in counted if n)
    verb = "follows" if sum(n for n, _ in counted) == 1 else "follow"
    if cause.kind == "infrastructure":
        return f"{cause.text} ({told.replace('other ', '')} without an answer)"
    return f"{cause.text}: {told} {verb} from it" if told else cause.text


def _texts(causes: Sequence[Cause]) -> str:
    more = len(causes) - SHOWN_CAUSES
    shown = [_cut(c.text) for c in causes[:SHOWN_CAUSES]]
    if len(shown) == 2 and not more > 0 and all(text.endswith(SETTLES) for text in shown):
        first, second = (text.removesuffix(SETTLES) for text in shown)
        return f"{first}{SETTLES.removesuffix(' it')} some of them, {second} the others"
    return "; ".join(shown) + (f"; and {more} more" if more > 0 else "")


def _cut(text: str) -> str:
    """Evidence is told in full with its figure."""
    return text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT].rsplit(" ", 1)[0].rstrip(",;:(") + " ..."


def _figures(count: int) -> str:
    return f"{count} figure{'s' if count != 1 else ''}"
