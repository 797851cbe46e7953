"""The pages of a report in HTML: one for the run, one for each series that was judged. All that comes from outside is escaped.

Written for Allure's frames: no script, no style sheet, colours that stand out on light pages and on dark ones.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

from suite.foreign import printable
from suite.gate import Key, Verdict
from suite.gate.attribution import is_unmeasured
from suite.report import two_builds, words
from suite.report.ci_summary import next_steps
from suite.report.pictures import Picture
from suite.report.summary import changed_by_arms, of_cause
from suite.report.terminal import change_of, figure
from suite.report.told import ToldRun
from suite.terminal.figures import in_one_unit, times

BADGES = {
    "broken promise": "#b3261e",
    "regression": "#b3261e",
    "invalid": "#7b3a99",
    "inconclusive": "#9a5b00",
    "improvement": "#0b6e4f",
    "pass": "#59636e",
    "unjudged": "#59636e",
}
"""Behind white words."""

CELL = "padding:3px 10px 3px 0;border-bottom:1px solid rgba(128,128,128,.35);vertical-align:top"
NUMBER_CHARS = 30
"""The longest number of a table, with its interval, as HTML."""
TABLE = "border-collapse:collapse;display:table;width:100%;font-size:.88em"
SHOWN = 60
"""Rows of a table; the rest is counted."""


def of_run(run: ToldRun, drawn: Sequence[Picture], known_good: str) -> str:
    """The page of the run, below its sentence: the forest plot, what is behind it, what to do, every figure, and the other pictures."""
    said = run.said
    first, others = list(drawn[:1]), list(drawn[1:])
    told = [v for v in run.verdicts if v.word not in ("pass", "unjudged")]
    passed = [v for v in run.verdicts if v.word == "pass"]
    unjudged = [v for v in run.verdicts if v.word == "unjudged"]
    steps = next_steps(run.session, said.status, {v.word for v in said.verdicts}, known_good)
    needs = [v.needs for v in told if v.needs and v.word in ("inconclusive", "invalid")]
    return "".join(
        [
            *map(_figure, first),
            _list("Causes", map(of_cause, said.causes)),
            _list("What to do", dict.fromkeys([*steps, *needs[:3]]), commands=True),
            _table(told, run),
            _held(run),
            _fold(f"{times(len(passed), 'figure passes', 'figures pass')}", _table(passed, run)),
            _fold(
                f"{times(len(unjudged), 'figure', 'figures')} without a verdict: {_why(unjudged)}",
                _table(unjudged, run),
            ),
            _list(f"Changed since the {run.session.against}", _changes(run)),
            *map(_figure, others),
            _list("What else happened", (event.text for event in run.session.events)),
            _list("Notes", said.notes),
        ]
    )


def of_series(run: ToldRun, key: Key, drawn: Sequence[Picture]) -> str:
    """The page of one series: its verdicts with value, baseline, change and interval, why, what to do, and its pictures."""
    verdicts = run.of(key.question, key.arm)
    change = run.said.changes.get(f"{key.question}, {key.arm}", "")
    function = words.asked(key.question).name
    again = f"pytest -m perf --target {run.session.target} --budget {run.session.plan.budget} -k {function}"
    return "".join(
        [
            *(f"<p>{_badge(v)} {escaped(v.headline)}<br>{escaped(v.reason)}</p>" for v in verdicts),
            _list("What to do", _steps(run, verdicts), commands=True),
            _table(verdicts, run, places=False),
            *map(_figure, drawn),
            _list(f"Changed since the {run.session.against}", [change] if change else []),
            f"<p>To ask this alone again: <code>{escaped(again)}</code></p>",
        ]
    )


def _steps(run: ToldRun, verdicts: Sequence[Verdict]) -> list[str]:
    """What each verdict needs; and of a loss, where its cause is told and how to find the build that brought it."""
    needs = list(dict.fromkeys(v.needs for v in verdicts if v.needs))
    lost = [v for v in verdicts if v.word == "regression"]
    if lost and run.session.reference is None:
        needs.append(f"Causes and the way back are on the run's page: {run.said.sentence}")
        found = lost[0]
        where = f"--metric {found.metric} --arm {found.arm} --question '{found.question}'"
        needs.append(
            f"Find the build that brought it: `python -m suite bisect --target {run.session.target} {where}`"
        )
    return needs


def title_of(run: ToldRun, key: Key) -> str:
    """`decode throughput, 4 clients, mtp-on: regression, output tokens/s -6.1 % (-6.9..-5.2)`; the gravest of its verdicts."""
    asked = words.aligned(key.question, (series.question for series in run.session.series))
    where = f"{asked}, {key.arm}"
    verdicts = run.of(key.question, key.arm)
    if not verdicts:
        return f"{where}: not judged"
    worst = verdicts[0]
    if worst.change is None:
        return f"{where}: {worst.word}"
    return f"{where}: {worst.word}, {worst.estimate.label} {change_of(worst.estimate)}"


def escaped(text: str) -> str:
    """Foreign text as HTML: no markup, no controls."""
    return html.escape(printable(text), quote=True)


def _why(verdicts: Sequence[Verdict]) -> str:
    return escaped("; ".join(dict.fromkeys(v.reason for v in verdicts)))


def _changes(run: ToldRun) -> list[str]:
    """What differs in the subject, once for all series that share it."""
    changes = {
        (q, arm): text for where, text in run.said.changes.items() for q, _, arm in [where.rpartition(", ")]
    }
    return [f"{', '.join(arms)}: {change}" for change, arms in changed_by_arms(changes, run.session).items()]


def _badge(verdict: Verdict) -> str:
    style = (
        f"background:{BADGES[verdict.word]};color:#fff;padding:1px 7px;border-radius:4px;white-space:nowrap"
    )
    return f"<span style='{style}'>{escaped(verdict.word)}</span>"


def _held(run: ToldRun) -> str:
    """Of two builds: what held on both, beside each other."""
    rows = two_builds.held(run.session)
    return f"<h3>What held on both builds</h3>{_cells(two_builds.HEADS, rows)}" if rows else ""


def _table(verdicts: Sequence[Verdict], run: ToldRun, places: bool = True) -> str:
    """A row for each verdict; ``places``: with the question and the arm."""
    if not verdicts:
        return ""
    heads = ("", "figure", "change (95 % CI)", "value", run.session.against, "margin")
    rows = []
    for verdict in verdicts[:SHOWN]:
        estimate = verdict.estimate
        where = f"{words.asked(verdict.question)}, {verdict.arm}" if places else ""
        word = "not measured" if is_unmeasured(verdict) else _badge(verdict)
        values, unit = in_one_unit([estimate.value, estimate.baseline_value], estimate.unit)
        name = (
            f"{escaped(where)}<br>{escaped(figure(estimate, unit))}"
            if where
            else escaped(figure(estimate, unit))
        )
        change = change_of(estimate).replace(" (", "<br>(")
        rows.append((word, name, change, *values, f"{100 * verdict.margin:g} %"))
    left = len(verdicts) - SHOWN
    more = f"<p>and {left} more</p>" if left > 0 else ""
    return f"{_rows(heads, rows)}{more}"


def _cells(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of foreign text."""
    return _rows(heads, [tuple(map(escaped, row)) for row in rows])


def _rows(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells in HTML; one that is too wide for the page scrolls by itself."""
    head = "".join(f"<th align='left' style='{CELL}'>{name}</th>" for name in heads)
    body = ("".join(_cell(cell) for cell in row) for row in rows)
    lines = "".join(f"<tr>{line}</tr>" for line in (head, *body))
    return f"<div style='overflow-x:auto'><table style='{TABLE}'>{lines}</table></div>"


def _cell(text: str) -> str:
    """Names wrap where there is little room; a number stays whole."""
    wrapping = "normal" if len(text) > NUMBER_CHARS else "nowrap"
    return f"<td style='{CELL};white-space:{wrapping}'>{text}</td>"


def _fold(summary: str, inner: str) -> str:
    return f"<details><summary>{summary}</summary>{inner}</details>" if inner else ""


def _list(head: str, lines: Iterable[str], commands: bool = False) -> str:
    """A heading and a point for each line; ``commands``: what stands between backticks is one."""
    shown = (escaped(line) for line in lines if line)
    items = "".join(f"<li>{_with_commands(line) if commands else line}</li>" for line in shown)
    return f"<h3>{head}</h3><ul>{items}</ul>" if items else ""


def _with_commands(line: str) -> str:
    """Markdown of the summary's own, already escaped as HTML, with its commands as code."""
    plain = re.sub(r"\\([\\*_|\[\]#~])", r"\1", line)
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", plain)


def _figure(picture: Picture) -> str:
    return f"<h3>{escaped(picture.title)}</h3>{picture.img()}"
