"""What the end of a run says in the terminal: the table of verdicts, what is behind it, how many, and where the files are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from suite.foreign import one_line
from suite.gate import Judgement, Key, Outcome, Session, Verdict
from suite.gate.attribution import is_unmeasured
from suite.gate.floor import NoiseFloor
from suite.gate.sentence import SHOWN_CAUSES, SHOWN_TEXT, UNSETTLED
from suite.gate.verdicts import SEVERITY, Cause
from suite.report import terminal, two_builds
from suite.session.run_store import EndedRun
from suite.terminal import table
from suite.terminal.figures import number, times
from suite.terminal.looks import Looks

ALONE = ("promise", "launch", "infrastructure")
"""Kinds of cause that the lines on broken promises tell."""
EVIDENCE_CHARS = 400
"""How much of what a server or a file said is shown in one line."""


def of_run(ended: EndedRun, notes: Sequence[str], looks: Looks) -> list[str]:
    """The table of verdicts, what is behind it, their count, and where the files are."""
    judgement, session = ended.judgement, ended.session
    unmeasured = [verdict for verdict in judgement.verdicts.values() if is_unmeasured(verdict)]
    gated = [pair for pair in by_severity(judgement) if pair[1] not in unmeasured]
    parts = [
        terminal.of_verdicts(gated, looks, session.against),
        _held(session, looks),
        *(
            looks.wrapped(lines)
            for lines in (
                _causes(judgement.causes),
                _changes(judgement, session) if judgement.status or session.reference else [],
                _promotion([verdict for _, verdict in gated if verdict.word == "improvement"]),
                _unmeasured(unmeasured),
                _unjudged([verdict for _, verdict in gated if verdict.word == "unjudged"]),
                _broken(session.outcomes),
                [
                    f"{_counted(judgement, session.outcomes)}; {times(ended.launches, 'launch', 'launches')}",
                    *(event.text for event in session.events),
                    *judgement.notes,
                    *notes,
                ],
            )
        ),
    ]
    lines = [line for part in parts if part for line in (*part, "")]
    return lines[:-1]


def by_severity(judgement: Judgement) -> list[tuple[Key, Verdict]]:
    """The verdicts, the gravest first; of a word by question, its sizes in order of number."""
    return sorted(
        judgement.verdicts.items(),
        key=lambda pair: (SEVERITY.index(pair[1].word), _by_number(pair[0].question), pair[0]),
    )


def _by_number(question: str) -> list[tuple[int, str]]:
    """`decode_throughput[c8]` before `decode_throughput[c32]`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", question)]


def of_two(judgement: Judgement, looks: Looks) -> list[str]:
    """The table of a run beside another one: what was compared, the gravest first."""
    return terminal.of_verdicts(
        [pair for pair in by_severity(judgement) if pair[1].change is not None], looks
    )


def changed_by_arms(changes: Mapping[tuple[str, str], str], session: Session) -> dict[str, list[str]]:
    """What changed since the baseline, once for all series that share it, with their arms; ratios repeat what their arms say."""
    shared: dict[str, set[str]] = {}
    for (question, arm), change in changes.items():
        series = session.find(question, arm)
        if series is None or not series.derived_from:
            shared.setdefault(change, set()).add(arm)
    return {change: sorted(arms) for change, arms in shared.items()}


def _counted(judgement: Judgement, outcomes: Sequence[Outcome]) -> str:
    """How many verdicts of each word, promises that broke outside of any figure among them."""
    counted: Counter[str] = Counter(verdict.word for verdict in judgement.verdicts.values())
    counted["broken promise"] += len({(o.item, o.arm) for o in outcomes if o.word == "broken"})
    if said := ", ".join(f"{counted[word]} {word}" for word in SEVERITY if counted[word]):
        return said
    checks = len({(o.item, o.arm) for o in outcomes if o.word == "kept"})
    return f"no figures to judge, {times(checks, 'check', 'checks')} passed" if checks else "nothing judged"


def _causes(causes: Sequence[Cause]) -> list[str]:
    """Causes with what follows from them, where the sentence could not hold all; a promise alone has its own line."""
    if len(causes) <= SHOWN_CAUSES and all(len(cause.text) <= SHOWN_TEXT for cause in causes):
        return []
    told = [cause for cause in causes if cause.figures or cause.others or cause.kind not in ALONE]
    return ["causes:", *(f"  {of_cause(cause)}" for cause in told)] if told else []


def of_cause(cause: Cause) -> str:
    """A cause in one line, with what it is the cause of."""
    follows = len(cause.figures) + len(cause.others)
    said = one_line(cause.text, EVIDENCE_CHARS)
    if cause.kind in UNSETTLED and follows:
        what = cause.figures[0] if follows == 1 else times(follows, "figure", "figures")
        return f"{UNSETTLED[cause.kind]}, {what}: {said}"
    return f"{said} ({times(follows, 'result', 'results')})" if follows > 1 else said


def _changes(judgement: Judgement, session: Session) -> list[str]:
    changes = changed_by_arms(judgement.changes, session)
    return [
        f"changed since the {session.against}, {', '.join(arms)}: {one_line(c)}"
        for c, arms in changes.items()
    ]


def _held(session: Session, looks: Looks) -> list[str]:
    """What held on two builds, beside each other."""
    rows = two_builds.held(session)
    return table.lines(two_builds.HEADS, rows, width=looks.width) if rows else []


def _promotion(better: Sequence[Verdict]) -> list[str]:
    """What to do about an improvement, once."""
    return list(dict.fromkeys(verdict.needs for verdict in better if verdict.needs))


def _broken(outcomes: Sequence[Outcome]) -> list[str]:
    """Promises that broke and what stood in the way, a line each: their items are far above by now."""
    told: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.word in ("broken", "infrastructure", "unproven") and outcome.name != "ArmUnavailable":
            word = "broken promise" if outcome.word == "broken" else outcome.word
            said = one_line(outcome.short or outcome.text, EVIDENCE_CHARS)
            told.setdefault((word, said), []).append(f"{outcome.item} {outcome.arm}".strip())
    return [f"{word}, {', '.join(dict.fromkeys(items))}: {said}" for (word, said), items in told.items()]


def _unmeasured(verdicts: Sequence[Verdict]) -> list[str]:
    """What was asked and not measured, once for all that share the reason."""
    shared = Counter(one_line(verdict.reason, EVIDENCE_CHARS) for verdict in verdicts)
    return [f"{times(count, 'figure', 'figures')} {reason}" for reason, count in shared.items()]


def _unjudged(verdicts: Sequence[Verdict]) -> list[str]:
    """Why there is no verdict and what to do, once for all that share the reason."""
    shared = Counter((verdict.reason, verdict.needs) for verdict in verdicts)
    return [f"unjudged, {count} of them: {reason}; {needs}" for (reason, needs), count in shared.items()]


def of_noise(floors: Sequence[NoiseFloor], looks: Looks) -> list[str]:
    """The A/A noise of an arm, and the minimum detectable effects of this budget here."""
    if not floors:
        return ["too little was measured to say"]
    head = (
        "scenario", "arm", "metric", "value", "SD of rounds", "of launches", "MDE, 1 session", "5 sessions",
    )  # fmt: skip
    rows = [
        (
            *floor.key,
            number(floor.value, floor.unit),
            _sd(floor.round_cv),
            _sd(floor.launch_sd),
            f"{100 * floor.sdc_one_session:.1f} %",
            # one launch tells nothing of how launches differ, and so nothing of sessions that differ as they do
            "-" if floor.launch_sd is None else f"{100 * floor.sdc_five_sessions:.1f} %",
        )
        for floor in floors
    ]
    legend = (
        "SD: standard deviation between the rounds of a launch, and between launches. MDE: minimum detectable effect at "
        "90 % power, by recorded baseline sessions (for five sessions at least two launches are needed: --launches 2)."
    )
    return [*table.lines(head, rows, right=range(3, len(head)), width=looks.width), *looks.wrapped([legend])]


def _sd(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"
