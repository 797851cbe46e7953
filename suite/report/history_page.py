"""Every run of a target on one page, a line for each figure: where levels changed, what was promoted, which builds. One file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from suite import redact
from suite.gate import Baseline, GateError, Key, Rules, Word, load_verdicts
from suite.gate.history import CumulativeDrift, Entry, LevelChange, judged
from suite.gate.runs import StoredVerdicts
from suite.metrics import METRICS
from suite.report import words
from suite.report.pages import BADGES, escaped
from suite.report.pictures.history import build_of, history
from suite.report.pictures.style import COLOURS
from suite.sglang import builds
from suite.terminal.figures import percent, times
from suite.whole import write_whole

STATUSES = {0: "pass", 1: "regression", 8: "inconclusive", 9: "invalid"}
"""By exit status of a run, the word whose colour it is shown in."""

STYLE = """
:root{color-scheme:light dark;%s}
@media (prefers-color-scheme:dark){:root{%s}}
body{font:15px/1.45 system-ui,sans-serif;background:var(--paper);color:var(--ink);margin:0 auto;padding:16px;max-width:1320px}
h1{font-size:1.4em}h2{font-size:1.15em;margin-top:1.6em}
a{color:var(--off)}
figure{margin:0;border:1px solid var(--rule);border-radius:8px;padding:10px;min-width:0}
figure svg{width:100%%;height:auto}
figcaption{font-weight:600;margin-bottom:4px}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%%,520px),1fr));gap:14px}
.runs{overflow-x:auto}
table{border-collapse:collapse;font-size:.93em}
td,th{padding:4px 12px 4px 0;text-align:left;border-bottom:1px solid var(--rule);vertical-align:top}
td:first-child,td:nth-child(3){white-space:nowrap}
.word{color:#fff;padding:1px 7px;border-radius:4px;white-space:nowrap}
.soft{color:var(--soft)}
"""


@dataclass(frozen=True, slots=True)
class TargetHistory:
    """What is known of a target over time.

    folders: where runs are stored, by run, of those that still are.
    """

    target: str
    entries: Sequence[Entry]
    baselines: Sequence[Baseline] = ()
    steps: Sequence[LevelChange] = ()
    drifts: Sequence[CumulativeDrift] = ()
    folders: Mapping[str, Path] = field(default_factory=dict)
    rules: Rules = field(default_factory=Rules)


def write(path: Path, known: TargetHistory) -> None:
    """Write the page.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, redact.cut(page(known, path.parent)))


def page(known: TargetHistory, beside: Path) -> str:
    """The page as HTML; links to runs are relative to the folder ``beside``.

    Raises:
        ImportError: matplotlib is not installed.
    """
    said = _said(known.folders)
    links = {run: _link(folder, beside) for run, folder in known.folders.items()}
    light, dark = (";".join(f"--{name}:{pair[i]}" for name, pair in COLOURS.items()) for i in (0, 1))
    title = escaped(f"{known.target}: {times(len(known.entries), 'run', 'runs')}")
    newest = known.entries[-1] if known.entries else None
    latest = said[newest.run_id].sentence if newest is not None and newest.run_id in said else ""
    return "".join(
        [
            "<!doctype html><html lang=en><head><meta charset=utf-8>",
            "<meta name=viewport content='width=device-width,initial-scale=1'>",
            f"<title>{title}</title><style>{STYLE % (light, dark)}</style></head><body>",
            f"<h1>{title}</h1>",
            f"<p>The newest, {escaped(newest.run_id)}: <strong>{escaped(latest)}</strong></p>"
            if newest and latest
            else "",
            _changes(known),
            f"<h2>Figures</h2><div class=figures>{''.join(_figures(known, said, links))}</div>",
            _runs(known, said, links),
            "</body></html>\n",
        ]
    )


def _said(folders: Mapping[str, Path]) -> dict[str, StoredVerdicts]:
    """What was said of each run whose verdicts can be read."""
    found = {}
    for run, folder in folders.items():
        try:
            found[run] = load_verdicts(folder)
        except GateError:
            continue
    return found


def _link(folder: Path, beside: Path) -> str:
    """To what a person reads of a run: its summary, or its folder."""
    summary = folder / "summary.md"
    shown = summary if summary.exists() else folder
    return quote(os.path.relpath(shown.resolve(), beside.resolve()))


def _changes(known: TargetHistory) -> str:
    """What changed for good, the newest first, with the commits between the builds."""
    lines = []
    for step in reversed(known.steps):
        place = next((i for i, e in enumerate(known.entries) if e.run_id == step.run_id), 0)
        before, after = known.entries[max(place - 1, 0)], known.entries[place]
        lines.append(
            f"{_word('worse' if step.worse else 'better', 'regression' if step.worse else 'improvement')} "
            f"{escaped(_name(step.key))} <strong>{percent(step.change)}</strong> from {escaped(step.run_id)} on"
            f"{_commits(before, after)}"
        )
    for drift in known.drifts:
        lines.append(
            f"{_word('cumulative drift', 'regression')} {escaped(_name(drift.key))} <strong>{percent(drift.change)}</strong> "
            f"since the best promoted level, of {escaped(drift.best_date)}"
        )
    items = "".join(f"<li>{line}</li>" for line in lines)
    return f"<h2>Lasting changes</h2><ul>{items}</ul>" if items else "<p>No lasting change of any figure.</p>"


def _figures(known: TargetHistory, said: Mapping[str, StoredVerdicts], links: Mapping[str, str]) -> list[str]:
    """A drawing for each gated figure, those that changed for the worse first."""
    steps = known.steps
    worse = {step.key for step in steps if step.worse}
    keys = sorted(
        (key for key, _ in judged(known.entries, known.rules)), key=lambda key: (key not in worse, key)
    )
    shown = []
    for key in keys:
        spoken = {run: word for run, told in said.items() if (word := _spoken(told, key)) is not None}
        picture = history(
            key,
            known.entries,
            [s for s in steps if s.key == key],
            _promoted(known.baselines, key),
            spoken,
            links,
        )
        if picture is not None:
            shown.append(f"<figure><figcaption>{escaped(picture.title)}</figcaption>{picture.svg}</figure>")
    return shown


def _spoken(told: StoredVerdicts, key: Key) -> Word | None:
    return next((verdict.word for verdict in told.verdicts if verdict.key == key), None)


def _promoted(baselines: Sequence[Baseline], key: Key) -> frozenset[str]:
    """The first run of each level: what came after it was compared with it."""
    found = set()
    for baseline in baselines:
        if (baseline.question, baseline.arm) == (key.question, key.arm):
            first = {session.generation: session.run_id for session in reversed(baseline.sessions)}
            found |= set(first.values())
    return frozenset(found)


def _runs(known: TargetHistory, said: Mapping[str, StoredVerdicts], links: Mapping[str, str]) -> str:
    rows = []
    for place in reversed(range(len(known.entries))):
        entry = known.entries[place]
        name = escaped(entry.run_id)
        link = links.get(entry.run_id)
        told = said.get(entry.run_id)
        verdict = ""
        if told is not None:
            word, _, rest = told.sentence.partition(": ")
            verdict = f"{_word(word, STATUSES.get(told.status, 'invalid'))} {escaped(rest)}"
        before = known.entries[place - 1] if place else entry
        rows.append(
            f"<tr><td>{escaped(entry.started_at[:16].replace('T', ' '))}</td>"
            f"<td>{f'<a href={chr(34)}{link}{chr(34)}>{name}</a>' if link else name}</td>"
            f"<td>{escaped(build_of(entry))}{_commits(before, entry)}</td><td>{verdict}</td></tr>"
        )
    heads = "<tr><th>started</th><th>run</th><th>SGLang</th><th>verdict</th></tr>"
    return f"<h2>Runs</h2><div class=runs><table>{heads}{''.join(rows)}</table></div>"


def _commits(before: Entry, after: Entry) -> str:
    """A link to the commits between two builds, where both are known and differ."""
    url = builds.compared((before.sglang, before.commit), (after.sglang, after.commit))
    if url is None:
        return ""
    return f' (<a href="{escaped(url)}">commits since {escaped(build_of(before))}</a>)'


def _word(text: str, word: str) -> str:
    return f"<span class=word style='background:{BADGES[word]}'>{escaped(text)}</span>"


def _name(key: Key) -> str:
    metric = METRICS.get(key.metric)
    return f"{words.asked(key.question)}, {key.arm}, {metric.label if metric else key.metric}"
