"""What is behind figures that got worse: a promise that broke first, then the factor that moved, by pattern.

Regressions are effects. A dead draft slows every figure of its arm; a slower prefill shows in TTFT and, through it, in
tokens/s of short answers. Each effect goes to one cause, the first that explains it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from suite.gate.factors import factor_causes, loss, machine
from suite.gate.records import Key, Outcome, Session
from suite.gate.verdicts import Cause, Judgement, Verdict

EXPLAINS = ("launch", "activation", "canary", "log")
"""Kinds of promise that, once broken, explain every other fault of the arm; the first of them is the cause."""

NO_START = "does not start: "
ONE_PLACE = re.compile(r"^not measured: |^launch \d+: |\d+ of \d+ rounds, first |[\w.-]+ was not asked; ")
ASKED = re.compile(r"^(MTP is (?:on|off)) although .*")
SPELLED = re.compile(r" \([^()]*\)$")
DISTURBANCE = re.compile(r"(?P<name>\w+) \((?P<evidence>.*)\)", re.DOTALL)
"""A reason not to trust a figure, and what was seen: in each round something else of the same."""


def causes(session: Session, judged: Judgement) -> list[Cause]:
    """Every cause with what follows from it, the gravest first; empty if all is well."""
    left = {key: verdict for key, verdict in judged.verdicts.items() if _is_bad(verdict)}
    found = _promises(session, judged, left)
    elsewhere = _infrastructure(session, left)
    unmeasured = [left.pop(key) for key in list(left) if is_unmeasured(left[key])]
    explained = {arm for cause in found if cause.figures for arm in cause.arms}
    found += machine(judged, left, explained, same_machine=session.reference is not None)
    found += factor_causes(session, judged, left)
    untrusted = [v for v in judged.verdicts.values() if v.word == "invalid" and not is_unmeasured(v)]
    undecided = [v for v in judged.verdicts.values() if v.word == "inconclusive"]
    return [
        *found,
        *elsewhere,
        *_by_reason("invalid", untrusted),
        *_by_reason("unmeasured", unmeasured),
        *_by_reason("undecided", undecided),
    ]


def _is_bad(verdict: Verdict) -> bool:
    return verdict.word in ("regression", "broken promise") or is_unmeasured(verdict)


def is_unmeasured(verdict: Verdict) -> bool:
    """Whether this figure was asked for and never measured."""
    return verdict.word == "invalid" and verdict.reason.startswith("not measured: ")


def _promises(session: Session, judged: Judgement, left: dict[Key, Verdict]) -> list[Cause]:
    """Broken promises, each once, with the figures that they explain taken out of `left`."""
    broken = [o for o in session.outcomes if o.word == "broken"]
    doubtful = {v.key: v for v in judged.verdicts.values() if v.word == "inconclusive" and loss(v) > v.margin}
    first = {arm: min((o for o in broken if o.arm == arm), key=_rank) for arm in {o.arm for o in broken}}
    grouped: dict[str, list[Outcome]] = {}
    followers: dict[str, list[Outcome]] = {}
    for outcome in sorted(broken, key=_rank):
        head = first[outcome.arm]
        if outcome is not head and head.kind in EXPLAINS:
            followers.setdefault(_same(head), []).append(outcome)
        else:
            grouped.setdefault(_same(outcome), []).append(outcome)
    found = []
    for same, outcomes in grouped.items():
        arms = list(dict.fromkeys(o.arm for o in outcomes))
        explains = [arm for arm in arms if first[arm].kind in EXPLAINS and _same(first[arm]) == same]
        figures = [key for key in (*left, *doubtful) if set(_arms_of(session, key)) & set(explains)]
        for key in figures:
            left.pop(key, None)
            doubtful.pop(key, None)
        figures += _own_figures(outcomes, left)
        others = [o for o in followers.get(same, []) if not _has_figure(o, figures)]
        kind = "launch" if outcomes[0].kind == "launch" else "promise"
        found.append(Cause(kind, _named(outcomes, arms), arms, [k.said for k in figures], _items(others)))
    return found


def _rank(outcome: Outcome) -> tuple[int, bool]:
    place = EXPLAINS.index(outcome.kind) if outcome.kind in EXPLAINS else len(EXPLAINS)
    return place, outcome.name == "ArmNotInEffect"  # it repeats what activation says of the same server


def _same(outcome: Outcome) -> str:
    """Two arms with one fault say it with other figures in brackets, or with the flags that each was given."""
    return ASKED.sub(r"\1", SPELLED.sub("", outcome.short or outcome.text.split("\n", 1)[0]))


def _named(outcomes: Sequence[Outcome], arms: Sequence[str]) -> str:
    text, *others = dict.fromkeys(o.short or o.text.split("\n", 1)[0] for o in outcomes)
    if others and ASKED.match(text):
        return f"{text} ({listed(arms)})"
    if text.startswith(NO_START):
        return f"{listed(arms)} {'does' if len(arms) == 1 else 'do'} not start: {text.removeprefix(NO_START)}"
    if "MTP" in text or any(arm in text for arm in arms):
        return text
    return f"{listed(arms)}: {text}"


def listed(arms: Sequence[str]) -> str:
    """`mtp-off`, `mtp-off and mtp-on`; of more than three the first two and how many more."""
    if len(arms) > 3:
        return f"{', '.join(arms[:2])} and {len(arms) - 2} more arms"
    *others, last = arms
    return f"{', '.join(others)} and {last}" if others else last


def _own_figures(outcomes: Sequence[Outcome], left: dict[Key, Verdict]) -> list[Key]:
    """The figures of the very items that broke: an acceptance below its floor regressed too."""
    own = [key for key in left if any((o.item, o.arm) == (key.question, key.arm) for o in outcomes)]
    for key in own:
        del left[key]
    return own


def _has_figure(outcome: Outcome, figures: Iterable[Key]) -> bool:
    return any((outcome.item, outcome.arm) == (key.question, key.arm) for key in figures)


def _arms_of(session: Session, key: Key) -> list[str]:
    """The arms that a figure is made of."""
    series = session.find(key.question, key.arm)
    if series is not None and series.derived_from:
        return series.derived_from
    asked = next((a for a in session.asked if (a.question, a.arm) == (key.question, key.arm)), None)
    return asked.parts if asked is not None and asked.parts else [key.arm]


def _infrastructure(session: Session, left: dict[Key, Verdict]) -> list[Cause]:
    """What the server cannot be blamed for: each thing once, with the items that it cost."""
    grouped: dict[str, list[Outcome]] = {}
    for outcome in session.outcomes:
        if outcome.word == "infrastructure":
            grouped.setdefault(outcome.short or outcome.text, []).append(outcome)
    found = []
    for text, outcomes in grouped.items():
        lost = [o for o in session.outcomes if o.name == "ArmUnavailable" and o.short == text]
        arms = list(dict.fromkeys(o.arm for o in (*outcomes, *lost)))
        figures = [k for k in left if is_unmeasured(left[k]) and set(_arms_of(session, k)) & set(arms)]
        for key in figures:
            del left[key]
        others = [o for o in (*outcomes, *lost) if not _has_figure(o, figures)]
        found.append(Cause("infrastructure", text, arms, [key.said for key in figures], _items(others)))
    return found


def _by_reason(kind: str, verdicts: Iterable[Verdict]) -> list[Cause]:
    """One cause for all figures that share a reason, the launch and round it was seen in left out."""
    grouped: dict[str, dict[str, list[Verdict]]] = {}
    for verdict in verdicts:
        said = (verdict.needs or verdict.reason) if kind == "undecided" else verdict.reason
        said = ONE_PLACE.sub("", said)
        disturbed = DISTURBANCE.fullmatch(said) if kind == "invalid" else None
        grouped.setdefault(disturbed["name"] if disturbed else said, {}).setdefault(said, []).append(verdict)
    return [_of_one_reason(kind, alike) for alike in grouped.values()]


def _of_one_reason(kind: str, alike: Mapping[str, Sequence[Verdict]]) -> Cause:
    """`alike`: the figures by what was said of them; where that differs, the first stands for all."""
    text, *others = alike
    if others and (disturbed := DISTURBANCE.fullmatch(text)):
        text = f"{disturbed['name']} (first: {disturbed['evidence']})"
    group = [verdict for verdicts in alike.values() for verdict in verdicts]
    return Cause(kind, text, sorted({v.arm for v in group}), [v.key.said for v in group])


def _items(outcomes: Iterable[Outcome]) -> list[str]:
    return list(dict.fromkeys(f"{o.item}, {o.arm}" for o in outcomes))
