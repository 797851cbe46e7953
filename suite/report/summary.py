"""The end of a run in the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from suite.gate import Estimate, Judgement, Key, Outcome, Series, Session, Verdict
from suite.gate.attribution import is_unmeasured
from suite.gate.floor import NoiseFloor
from suite.gate.verdicts import SEVERITY
from suite.report.terminal import Row, table
from suite.session.judging import Judge, sentences
from suite.session.run import Run
from suite.terminal.figures import columns, number, percent, signed, times

TOLD = ("broken promise", "regression", "invalid", "inconclusive", "improvement")
"""Words that call for something: said in sentences under the table."""


def of_run(run: Run, judge: Judge, notes: list[str]) -> list[str]:
    """The run's sentence, the table of verdicts, what needs a person, their count, and where the files are."""
    judgement, session = judge.judgement(), judge.judged
    unmeasured = [verdict for verdict in judgement.verdicts.values() if is_unmeasured(verdict)]
    gated = [pair for pair in by_severity(judgement) if pair[1] not in unmeasured]
    lines = table([_row(key, verdict, session) for key, verdict in gated]) if gated else []
    for word in TOLD:
        lines.extend(_told(word, [verdict for _, verdict in gated if verdict.word == word]))
    lines.extend(_unmeasured(unmeasured))
    lines.extend(_unjudged([verdict for _, verdict in gated if verdict.word == "unjudged"]))
    counted: Counter[str] = Counter(verdict.word for verdict in judgement.verdicts.values())
    words = ", ".join(f"{counted[word]} {word}" for word in SEVERITY if counted[word]) or "nothing judged"
    return [
        judgement.sentence,
        *([""] if lines else []),
        *lines,
        *_broken(session.outcomes),
        "",
        f"{words}; {times(len(run.told.launches), 'launch', 'launches')}",
        *(event.text for event in session.events),
        *judgement.notes,
        *notes,
    ]


def by_severity(judgement: Judgement) -> list[tuple[Key, Verdict]]:
    """The verdicts, the gravest first."""
    return sorted(judgement.verdicts.items(), key=lambda pair: (SEVERITY.index(pair[1].word), pair[0]))


def of_two(judgement: Judgement, session: Session) -> list[str]:
    """The table of a run beside another one: what was compared, the gravest first."""
    rows = [
        _row(key, verdict, session) for key, verdict in by_severity(judgement) if verdict.change is not None
    ]
    return table(rows) if rows else []


def _broken(outcomes: Sequence[Outcome]) -> list[str]:
    """Promises that broke and what stood in the way, a line each: their items are far above by now."""
    told: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.word in ("broken", "infrastructure", "unproven") and outcome.name != "ArmUnavailable":
            key = (
                "broken promise" if outcome.word == "broken" else outcome.word,
                outcome.short or outcome.text,
            )
            told.setdefault(key, []).append(f"{outcome.item} {outcome.arm}")
    lines = [f"{word}, {', '.join(dict.fromkeys(items))}: {said}" for (word, said), items in told.items()]
    return ["", *lines] if lines else []


def _told(word: str, verdicts: list[Verdict]) -> list[str]:
    """An empty line, then one sentence for each thing to be said, with the series it is about."""
    lines: list[str] = []
    for where in dict.fromkeys((verdict.question, verdict.arm) for verdict in verdicts):
        of_series = [verdict for verdict in verdicts if (verdict.question, verdict.arm) == where]
        lines.extend(f"{word}, {where[0]} {where[1]}: {sentence}" for sentence in sentences(of_series))
    return ["", *lines] if lines else []


def _unmeasured(verdicts: list[Verdict]) -> list[str]:
    """What was asked and not measured, once for all that share the reason."""
    shared = Counter(verdict.reason for verdict in verdicts)
    lines = [f"{count} figure{'s' if count > 1 else ''} {reason}" for reason, count in shared.items()]
    return ["", *lines] if lines else []


def _unjudged(verdicts: list[Verdict]) -> list[str]:
    """Why there is no verdict and what to do, once for all that share the reason."""
    shared = Counter((verdict.reason, verdict.needs) for verdict in verdicts)
    lines = [f"unjudged, {count} of them: {reason}; {needs}" for (reason, needs), count in shared.items()]
    return ["", *lines] if lines else []


def _row(key: Key, verdict: Verdict, session: Session) -> Row:
    estimate = verdict.estimate
    return Row(
        question=key.question,
        arm=key.arm,
        metric=estimate.label,
        value=number(estimate.value, estimate.unit),
        spread=_spread(session.find(key.question, key.arm), key.metric),
        baseline=number(estimate.baseline_value, estimate.unit),
        change=change_of(estimate),
        verdict=verdict.word,
    )


def _spread(series: Series | None, metric: str) -> str:
    """Half the range of all rounds of all launches, relative to their mean."""
    launches = series.launches if series else []
    values = [value for launch in launches for value in launch.rounds.get(metric, []) if value is not None]
    if len(values) < 2 or not (middle := fmean(values)):
        return "-"
    return f"±{100 * (max(values) - min(values)) / 2 / middle:.1f} %"


def change_of(estimate: Estimate) -> str:
    """The change with its 95 % interval, in percent; ``-`` where nothing was compared."""
    if estimate.change is None:
        return "-"
    if estimate.ci_low is None or estimate.ci_high is None:
        return percent(estimate.change)
    return f"{percent(estimate.change)} ({signed(100 * estimate.ci_low)}..{signed(100 * estimate.ci_high)})"


def of_noise(floors: Sequence[NoiseFloor]) -> list[str]:
    """The A/A noise of an arm, and the minimum detectable effects of this budget here."""
    if not floors:
        return ["too little was measured to say"]
    head = (
        "scenario",
        "arm",
        "metric",
        "value",
        "SD of rounds",
        "of launches",
        "MDE, 1 session",
        "5 sessions",
    )
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
    return [*columns([head, *rows], right=range(3, len(head))), legend]


def _sd(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"
