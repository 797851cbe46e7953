"""``results/<run>/summary.md``: the verdict of a run for a CI page, from the sentence to the way back. GitHub shows it by itself."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from suite.foreign import one_line
from suite.gate import Judgement, Key, Session, Verdict, Word
from suite.report import two_builds
from suite.report.summary import by_severity, changed_by_arms, of_cause
from suite.report.terminal import change_of, why_passes
from suite.terminal import markdown
from suite.terminal.figures import number, percent, times
from suite.terminal.markdown import escaped

NAME = "summary.md"
GITHUB = "GITHUB_STEP_SUMMARY"
"""The file that GitHub's runner shows on the page of a job, where it is one."""

MARKS = {0: "GO", 1: "NO-GO", 8: "CANNOT TELL", 9: "INFRASTRUCTURE"}
PLOT_WIDTH = 41
PASSES_FOLDED = 6
"""More passes than this are put behind a fold."""


def text(session: Session, judgement: Judgement, known_good: str = "") -> str:
    """The page: sentence, causes, what moved with a forest plot, passes folded, what changed, and what to do next.

    Args:
        known_good: how to get back to the last build that passed; empty where there is none.
    """
    told = [pair for pair in by_severity(judgement) if pair[1].word not in ("pass", "unjudged")]
    passes = [pair for pair in by_severity(judgement) if pair[1].word == "pass"]
    unjudged = [pair for pair in by_severity(judgement) if pair[1].word == "unjudged"]
    parts = [f"## {escaped(judgement.sentence) or MARKS.get(judgement.status, '')}", _subject(session)]
    parts += _causes(judgement)
    parts += [_table(told, session.against)] if told else []
    parts += [_plot(judgement)] if any(v.change is not None for v in judgement.verdicts.values()) else []
    if passes:
        table = "\n".join(
            [_table(passes, session.against), "", *why_passes([verdict for _, verdict in passes])]
        )
        folded = len(passes) > PASSES_FOLDED
        parts.append(
            f"<details><summary>{times(len(passes), 'figure passes', 'figures pass')}</summary>\n\n{table}\n\n</details>"
            if folded
            else table
        )
    if unjudged:
        parts.append(
            f"{times(len(unjudged), 'figure', 'figures')} unjudged: {escaped(unjudged[0][1].reason)}"
        )
    parts += _held(session)
    parts += _changes(judgement, session)
    parts += _next(session, judgement, known_good)
    return "\n\n".join(part for part in parts if part) + "\n"


def write(folder: Path, page: str) -> Path:
    """Keep the page beside the run, and add it to GitHub's page of the job where there is one. Raises OSError."""
    path = folder / NAME
    path.write_text(page, encoding="utf-8")
    shown = os.environ.get(GITHUB)
    if shown:
        with Path(shown).open("a", encoding="utf-8") as file:
            file.write(page)
    return path


def _subject(session: Session) -> str:
    versions = sorted({str(s.subject["sglang"]) for s in session.series if s.subject.get("sglang")})
    build = f", SGLang {', '.join(versions)}" if versions else ""
    if session.reference is not None:
        old = sorted({str(s.subject["sglang"]) for s in session.reference.series if s.subject.get("sglang")})
        build += f" in place of {', '.join(old)}" if old else ""
    return escaped(f"target {session.target}{build}, run {session.run_id}")


def _causes(judgement: Judgement) -> list[str]:
    lines = [f"- {escaped(of_cause(cause))}" for cause in judgement.causes]
    return ["\n".join(lines)] if lines else []


def _held(session: Session) -> list[str]:
    """What held on two builds, beside each other."""
    rows = two_builds.held(session)
    if not rows:
        return []
    shown = [list(map(escaped, row)) for row in rows]
    return ["\n".join(markdown.table(two_builds.HEADS, shown))]


def _table(pairs: Iterable[tuple[Key, Verdict]], against: str) -> str:
    heads = ("", "scenario", "arm", "figure", "value", against, "change (95 % CI)")
    rows = [_row(key, verdict) for key, verdict in pairs]
    return "\n".join(markdown.table(heads, rows, right=(4, 5, 6)))


def _row(key: Key, verdict: Verdict) -> list[str]:
    estimate = verdict.estimate
    return [
        f"**{verdict.word}**" if verdict.word != "pass" else "pass",
        escaped(key.question),
        escaped(key.arm),
        escaped(estimate.label),
        number(estimate.value, estimate.unit),
        number(estimate.baseline_value, estimate.unit),
        change_of(estimate),
    ]


def _plot(judgement: Judgement) -> str:
    """Every change with its interval as text, on one scale; the margin is where the colons stand."""
    shown = [
        (key, v.estimate, v.margin)
        for key, v in by_severity(judgement)
        if v.estimate.change is not None and v.estimate.ci_low is not None and v.estimate.ci_high is not None
    ]
    if not shown:
        return ""
    ends = [abs(end) for _, e, margin in shown for end in (e.ci_low or 0.0, e.ci_high or 0.0, 2 * margin)]
    reach = min(max(ends), 0.5)
    names = [f"{key.question} {key.arm} {estimate.label}" for key, estimate, _ in shown]
    width = min(max(map(len, names)), 60)
    lines = [
        f"{one_line(name)[:width]:<{width}} {bar(e.change or 0.0, e.ci_low or 0.0, e.ci_high or 0.0, margin, reach)} {percent(e.change)}"
        for name, (_, e, margin) in zip(names, shown, strict=True)
    ]
    scale = f"{'':<{width}} {percent(-reach):<{PLOT_WIDTH // 2}}0{percent(reach):>{PLOT_WIDTH // 2}}"
    return "```\n" + "\n".join([*lines, scale]) + "\n```"


def bar(change: float, low: float, high: float, margin: float, reach: float) -> str:
    """One row of the plot: ``|`` no change, ``:`` the margin, ``-`` the interval, ``o`` the change; ``<`` ``>`` beyond the scale."""
    half = PLOT_WIDTH // 2

    def place(x: float) -> int:
        return half + max(-half, min(half, round(x / reach * half))) if reach else half

    row = [" "] * PLOT_WIDTH
    for at in (place(-margin), place(margin)):
        row[at] = ":"
    row[half] = "|"
    for at in range(place(low), place(high) + 1):
        row[at] = "-"
    row[place(change)] = "o"
    if low < -reach:
        row[0] = "<"
    if high > reach:
        row[-1] = ">"
    return "".join(row)


def _changes(judgement: Judgement, session: Session) -> list[str]:
    """What changed since the baseline, once for all series that share it."""
    lines = [
        f"- {escaped(', '.join(arms))}: {escaped(change)}"
        for change, arms in changed_by_arms(judgement.changes, session).items()
    ]
    return [f"Changed since the {session.against}:\n\n" + "\n".join(lines)] if lines else []


def _next(session: Session, judgement: Judgement, known_good: str) -> list[str]:
    words = {verdict.word for verdict in judgement.verdicts.values()}
    lines = next_steps(session, judgement.status, words, known_good)
    return ["### What to do", "\n".join(f"- {line}" for line in lines)]


def next_steps(session: Session, status: int, words: Collection[Word], known_good: str) -> list[str]:
    """What to do now, as commands in markdown: promote, go back, take a loss on purpose, or ask again.

    Args:
        words: that the run's verdicts have.
    """
    suite = "python -m suite"
    lines = []
    if status == 0:
        promote = f"{suite} baseline promote {session.run_id}"
        if session.reference is not None or "improvement" in words:
            lines.append(f"To make it the level that later runs are compared with: `{promote}`.")
        else:
            lines.append(f"Nothing to do. To add this run to the baselines: `{promote} --add`.")
    if status == 1:
        lines.append(_back(session, known_good))
        if "regression" in words and session.reference is None:
            taken = f"pytest -m perf --target {session.target} --record-baseline --accept-regression REASON"
            lines.append(f"If the loss is meant to stay: `{taken}` records it as the new level.")
    if status == 8:
        lines.append(
            "Run it once more with the same options. If the answer is the same, look at it yourself."
        )
    if status == 9:
        told = "The host, its driver, a key or a disk failed; nothing is known of the build."
        lines.append(f"{told} `{suite} doctor --target {session.target}` checks the machine.")
    lines.append(f"The same verdict from the files alone: `{suite} judge {session.run_id}`.")
    return lines


def _back(session: Session, known_good: str) -> str:
    if session.reference is not None:
        return "Stay with the reference."
    if not known_good:
        return "No build has passed on this target yet: there is none to go back to."
    command = f"python -m suite known-good --target {session.target}"
    return f"Back to the last build that passed, {escaped(known_good)}: `{command}`."
