"""The table at the end of a run: figures by severity, the passes of a scenario in one line, and why they pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from suite.gate import Estimate, Key, Verdict
from suite.gate.explain import excluded
from suite.gate.verdicts import SEVERITY
from suite.terminal import table
from suite.terminal.figures import in_one_unit, interval, percent, times
from suite.terminal.looks import Looks

HEADS = ("scenario", "arm", "figure", "value", "baseline", "change (95 % CI)", "")
RIGHT = (3, 4, 5)
COLOURS = {
    "broken promise": "red",
    "regression": "red",
    "invalid": "magenta",
    "inconclusive": "yellow",
    "unjudged": "yellow",
    "improvement": "green",
    "pass": "green",
}
SPELT = ("", "x", "tokens/step")
"""Units that a figure's name says by itself."""

TELLING = 0.0005
"""A change of acceptance that makes steps another thing than the whole: what rounds to 0.1 % and more."""

Pair = tuple[Key, Verdict]


def of_verdicts(pairs: Sequence[Pair], looks: Looks, against: str = "baseline") -> list[str]:
    """The figures under their words, the gravest word first, with numbered notes below; ``against`` heads a column.

    Unfolded, a pass has a line as every other figure; else the passes of a scenario share one.
    """
    notes: dict[str, int] = {}
    rows: list[Sequence[str]] = []
    for word in SEVERITY:
        of_word = [pair for pair in pairs if pair[1].word == word]
        if not of_word:
            continue
        rows.append((word, *[""] * (len(HEADS) - 1)))
        if word == "pass" and not looks.unfolded:
            rows += _folded(of_word)
        else:
            rows += [_row(key, verdict, notes) for key, verdict in of_word]
    if not rows:
        return []
    named = tuple(against if head == "baseline" else head for head in HEADS)
    heads, right = (named, RIGHT) if notes else (named[:-1], RIGHT)
    shown = [row[: len(heads)] for row in rows]
    colours = COLOURS if looks.colours else None
    lines = table.lines(heads, shown, right=right, width=looks.width, colours=colours)
    told = [f"({number}) {text}" for text, number in notes.items()]
    passes = [] if looks.unfolded else why_passes([verdict for _, verdict in pairs])
    return [*lines, *looks.wrapped([*told, *passes])]


def _row(key: Key, verdict: Verdict, notes: dict[str, int]) -> Sequence[str]:
    estimate = verdict.estimate
    (value, baseline), unit = in_one_unit([estimate.value, estimate.baseline_value], estimate.unit)
    said = _beside(verdict)
    mark = f"({notes.setdefault(said, len(notes) + 1)})" if said else ""
    return (f"  {key.question}", key.arm, figure(estimate, unit), value, baseline, change_of(estimate), mark)


def figure(estimate: Estimate, unit: str) -> str:
    """A figure's name with its unit: ``output tokens/s``, ``TPOT, ms``."""
    told = unit in SPELT or estimate.label.endswith(unit)
    return estimate.label if told else f"{estimate.label}, {unit}"


def change_of(estimate: Estimate) -> str:
    """The change with its 95 % interval, in percent; ``-`` where nothing was compared."""
    if estimate.change is None or estimate.ci_low is None or estimate.ci_high is None:
        return percent(estimate.change)
    return f"{percent(estimate.change)} ({interval(estimate.ci_low, estimate.ci_high)})"


def _folded(passes: Iterable[Pair]) -> list[Sequence[str]]:
    """A line for each scenario, all sizes and arms together."""
    scenarios: dict[str, list[Pair]] = {}
    for key, verdict in passes:
        scenarios.setdefault(key.question.partition("[")[0], []).append((key, verdict))
    rows: list[Sequence[str]] = []
    for scenario, pairs in scenarios.items():
        arms = list(dict.fromkeys(key.arm for key, _ in pairs))
        changes = [percent(v.change) for _, v in sorted(pairs, key=_change) if v.change is not None]
        ends = list(dict.fromkeys([changes[0], changes[-1]])) if changes else ["-"]
        who = arms[0] if len(arms) == 1 else f"{len(arms)} arms"
        count = times(len(pairs), "figure", "figures")
        rows.append((f"  {scenario}", who, count, "", "", " to ".join(ends), ""))
    return rows


def _change(pair: Pair) -> float:
    return pair[1].change or 0.0


def _beside(verdict: Verdict) -> str:
    """What must be known to read a row: what the change is relative to, what it is made of, why this is a pass."""
    estimate, said = verdict.estimate, []
    if verdict.word == "pass":
        return _although(verdict) if reaches_beyond(verdict) else ""
    if estimate.relative:
        said.append(f"relative to the other arms; the value itself moved {percent(estimate.raw_change)}")
    if verdict.word in ("regression", "improvement"):
        head = verdict.headline.partition(f"{estimate.label} ")[0]
        said += [head.rstrip(": ")] if head else []
        said += [_ground(verdict)] if _holds_nothing(estimate) and not estimate.relative else []
    parts = [f"{f.name} {percent(f.change)}" for f in estimate.factors if f.change is not None]
    if any(abs(f.change or 0.0) >= TELLING for f in estimate.factors if f.name == "acceptance"):
        said.append(f"over all prompts: {' and '.join(parts)}")
    return "; ".join(said)


def _holds_nothing(estimate: Estimate) -> bool:
    """Whether the interval holds no change at all."""
    return (estimate.ci_low or 0.0) <= 0 <= (estimate.ci_high or 0.0)


def _ground(verdict: Verdict) -> str:
    """What a word rests on: the first thing that its reason says."""
    return verdict.reason.partition("; ")[0]


def reaches_beyond(verdict: Verdict) -> bool:
    """Whether the interval that is printed of a pass reaches beyond the margin."""
    ends = (verdict.estimate.ci_low or 0.0, verdict.estimate.ci_high or 0.0)
    return verdict.word == "pass" and max(map(abs, ends)) > verdict.margin


def _although(verdict: Verdict) -> str:
    margin = f"the margin of {100 * verdict.margin:g} %"
    return f"passes although its interval reaches beyond {margin}: {_because(verdict)}"


def _because(verdict: Verdict) -> str:
    return excluded(verdict.margin, stated=verdict.stated)


def why_passes(verdicts: Iterable[Verdict]) -> list[str]:
    """What the passes of a run claim, once for all that share it: what is printed is what was judged."""
    shared: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.word == "pass" and verdict.change is not None:
            shared.setdefault(_because(verdict), []).append(verdict)
    return [
        f"{times(len(alike), 'pass', 'passes')}: {because}"
        + (
            f"; {wide} {'has' if wide == 1 else 'have'} an interval that reaches beyond the margin of {100 * alike[0].margin:g} %"
            if wide
            else ""
        )
        for because, alike in shared.items()
        for wide in [sum(map(reaches_beyond, alike))]
    ]
