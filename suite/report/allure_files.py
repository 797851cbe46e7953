"""What an Allure report shows beside pytest's outcome: labels, the server's life, samples, verdicts, and one page on top.

Written for Allure 3 and read by Allure 2 as well. What Allure makes of these files was tried with 3.18.
"""

from __future__ import annotations

import html
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import allure
import pytest

from suite import redact
from suite.gate import Event, Judgement, Key, Verdict
from suite.gate.verdicts import SEVERITY
from suite.metrics import METRICS
from suite.report.clean import clean
from suite.session.recording import WorkloadResult
from suite.session.run import Run
from suite.session.running_arm import RunningArm
from suite.terminal.figures import number, percent

LOG_TAIL_LINES = 400
"""A whole log can be megabytes, which the report's page would hold in its text: only the end is attached."""

KINDS = (
    "activation",
    "spellings",
    "canary",
    "lossless",
    "decode",
    "prefill",
    "acceptance",
    "speedup",
    "depth",
    "steadiness",
    "backends",
    "startup",
    "steptime",
    "log",
    "configuration",
)
"""Markers of the kinds of scenario: the features of the report."""

COLOURS = {
    "broken promise": "#c62828",
    "regression": "#c62828",
    "invalid": "#8e24aa",
    "inconclusive": "#ef6c00",
    "improvement": "#2e7d32",
}


def label(item: pytest.Item) -> None:
    """Feature: the kind of question; story: the question itself, from the scenario's docstring."""
    kind = next((kind for kind in KINDS if item.get_closest_marker(kind)), "other")
    allure.dynamic.feature(kind)  # type: ignore[no-untyped-call]
    documented = getattr(item, "function", None)
    if documented is not None and documented.__doc__:
        allure.dynamic.story(documented.__doc__.strip().splitlines()[0])  # type: ignore[no-untyped-call]


def attach_server(served: RunningArm) -> None:
    """The command line, what it resolved to, and the end of the server's log."""
    lines = [" ".join(served.server.command), *(f"{k}={v}" for k, v in sorted(served.server.env.items()))]
    attach_text("command line", "\n".join(lines))
    attach_json("resolved configuration", {"version": served.info.version, **served.info.resolved})
    attach_text("server log (end)", "\n".join(served.server.log_tail(LOG_TAIL_LINES)))


def attach_played(played: WorkloadResult) -> None:
    """Every round's metrics, why any are missing, and what makes the samples comparable."""
    rounds = [{name: value.value for name, value in values.items()} for values in played.values]
    reasons = {
        name: value.reason for values in played.values for name, value in values.items() if value.reason
    }
    attach_json(
        "samples",
        {
            "rounds": rounds,
            "missing": reasons,
            "invalid": [f"{reason.name}: {reason.evidence}" for reason in played.launch().invalid],
            "identity": played.identity,
        },
    )


def attach_verdicts(verdicts: Sequence[Verdict]) -> None:
    """The verdicts of one series as a table on the item's own page."""
    if verdicts:
        allure.dynamic.description_html(_table(verdicts))  # type: ignore[no-untyped-call]
        attach_text("verdicts", "\n".join(f"{verdict.word}: {verdict.headline}" for verdict in verdicts))


def attach_text(name: str, text: str) -> None:
    """A text attachment of the current item."""
    allure.attach(clean(text), name=name, attachment_type=allure.attachment_type.TEXT)


def attach_json(name: str, value: Any) -> None:
    """A JSON attachment of the current item, indented, because the report shows it as it is."""
    text = redact.cut(json.dumps(redact.masked(value), indent=2, default=str))
    allure.attach(text, name=name, attachment_type=allure.attachment_type.JSON)


def write_run(directory: Path, run: Run, judgement: Judgement | None, facts: Mapping[str, Any]) -> None:
    """What belongs to the run as a whole, into the directory of Allure results.

    ``environment.properties``; a result ``00 Verdict`` that stands on top and says in its name how the run
    ended; and the judged metrics in the form that Allure 3 draws over time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    shown = {"target": run.target.name, "budget": run.budget, "run": run.run_id, **facts}
    _write(
        directory / "environment.properties",
        "".join(f"{_property(name)}={_property(str(value))}\n" for name, value in shown.items()),
    )
    if judgement is not None:
        _write(directory / f"{uuid.uuid4()}-result.json", json.dumps(_overall(run, judgement)))
        _write(directory / f"{uuid.uuid4()}-perf.json", json.dumps(_metrics(run, judgement), allow_nan=False))


def _overall(run: Run, judgement: Judgement) -> dict[str, Any]:
    """One result for the run: its name tells in ten seconds what a person came to see."""
    verdicts = _sorted(judgement)
    start = int(run.started.timestamp() * 1000)
    words = {word: sum(verdict.word == word for verdict in verdicts) for word in SEVERITY}
    counted = ", ".join(f"{count} {word}" for word, count in words.items() if count)
    return {
        "uuid": str(uuid.uuid4()),
        "historyId": f"verdict-{run.target.name}",
        "testCaseId": f"verdict-{run.target.name}",
        "fullName": f"verdict.{run.target.name}",
        "name": judgement.sentence,
        "status": {0: "passed", 1: "failed"}.get(judgement.status, "broken"),
        "statusDetails": {"message": f"{run.target.name}: {counted or 'nothing judged'}"},
        "start": start,
        "stop": start + 1,
        "descriptionHtml": _table(verdicts) + _events(run.told.events),
        "labels": [
            {"name": "feature", "value": "00 Verdict"},
            {"name": "parentSuite", "value": "00 Verdict"},
            {"name": "severity", "value": "blocker"},
        ],
    }


def _events(events: Sequence[Event]) -> str:
    """What happened beside the measurements and bears on trust, as a list under the table."""
    lines = "".join(f"<li>{html.escape(event.text)}</li>" for event in events)
    return f"<p>What else happened:</p><ul>{lines}</ul>" if lines else ""


def _metrics(run: Run, judgement: Judgement) -> list[dict[str, Any]]:
    start = int(run.started.timestamp() * 1000)
    return [
        {
            "id": str(uuid.uuid4()),
            "key": ".".join((run.target.name, *key)),
            "value": verdict.value,
            "start": start,
            "stop": start + 1,
            "title": f"{key.question} {key.arm} {verdict.estimate.label}",
            "unit": verdict.estimate.unit,
            "group": run.target.name,
            "better": METRICS[key.metric].better,
        }
        for key, verdict in judgement.verdicts.items()
        if verdict.value is not None
    ]


def _sorted(judgement: Judgement) -> list[Verdict]:
    """Worst word first, and within a word the largest change."""
    pairs = sorted(
        judgement.verdicts.items(),
        key=lambda pair: (SEVERITY.index(pair[1].word), -abs(pair[1].change or 0.0), Key(*pair[0])),
    )
    return [verdict for _, verdict in pairs]


def _table(verdicts: Sequence[Verdict]) -> str:
    """An HTML table with a bar for each change; colours only where they are readable on light and dark pages."""
    heads = ("verdict", "change", "scenario, arm", "metric", "value", "baseline", "95 % CI")
    lines = ["<table><tr>", *(f"<th align='left'>{head}</th>" for head in heads), "</tr>"]
    for verdict in verdicts:
        estimate = verdict.estimate
        interval = (
            f"{100 * estimate.ci_low:+.1f} .. {100 * estimate.ci_high:+.1f}"
            if estimate.ci_low is not None and estimate.ci_high is not None
            else ""
        )
        cells = (
            _bar(verdict) + percent(estimate.change),
            html.escape(f"{verdict.question}, {verdict.arm}"),
            html.escape(estimate.label),
            number(estimate.value, estimate.unit),
            number(estimate.baseline_value, ""),
            interval,
        )
        colour = COLOURS.get(verdict.word)
        style = f" style='background:{colour};color:white;padding:0 6px;border-radius:4px'" if colour else ""
        lines.append(f"<tr><td><span{style}>{verdict.word}</span></td>")
        lines.extend(f"<td>{cell}</td>" for cell in cells)
        lines.append("</tr>")
    return "".join([*lines, "</table>"])


def _bar(verdict: Verdict) -> str:
    """A bar as long as the change, full at 20 %."""
    if verdict.change is None:
        return ""
    width = min(60, round(abs(verdict.change) / 0.2 * 60))
    colour = COLOURS.get(verdict.word, "#78909c")
    return f"<span style='display:inline-block;width:{width}px;height:9px;background:{colour};margin-right:6px'></span>"


def _write(path: Path, text: str) -> None:
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(redact.cut(text), encoding="utf-8")
    os.replace(part, path)


def _property(text: str) -> str:
    """As a Java properties file wants it: one line, no bare separators in a name."""
    return text.replace("\\", "\\\\").replace("\n", " ").replace("=", "\\=").replace(":", "\\:")
