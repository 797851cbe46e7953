"""The forest plot: every change of a run with its interval, the gravest on top, worse to the left and better to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from suite.foreign import one_line
from suite.gate import Verdict
from suite.metrics import METRICS
from suite.report import words
from suite.report.pictures.style import WORDS, Picture, canvas, colour, finished
from suite.terminal.figures import percent, times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 40
ROW_IN, FURTHEST = 0.37, 0.5
"""Height of a row, and the largest change that the scale reaches: what is beyond has an arrow."""


def forest(
    verdicts: Sequence[Verdict], against: str = "baseline", title: str = "All changes"
) -> Picture | None:
    """Draw verdicts, in their order; None where none was compared with anything. against: what with, in a word.

    A loss is to the left whatever the metric: of a latency that rose it stands there too, and its own change is told
    beside it. The band behind each row is its margin.
    """
    compared = [v for v in verdicts if v.change is not None and v.estimate.ci_low is not None]
    rows = compared[:SHOWN]
    if not rows:
        return None
    reach = _reach(rows)
    with canvas(0.75 + ROW_IN * len(rows), edges_in=(0.1, 0.1, 0.5, 0.05)) as (figure, axes):
        for place, verdict in enumerate(rows):
            _row(axes, -place, verdict, reach)
        axes.axvline(0, color=colour("ink"), linewidth=1.0)
        axes.set_xlim(-reach * 1.04, reach * 1.04)
        axes.set_ylim(-len(rows) + 0.35, 0.85)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:+g} %" if x else "0")
        left = f"; {len(compared) - SHOWN} smaller ones are in the table" if len(compared) > SHOWN else ""
        axes.set_xlabel(f"← worse      change, 95 % interval; band: margin{left}      better →")
        counted = times(len(compared), "change", "changes")
        said = f"{counted} against the {against}; " + "; ".join(_in_words(v) for v in rows[:5])
        return finished(figure, "forest", f"{title} against the {against}", said)


def _reach(rows: Sequence[Verdict]) -> float:
    ends = [
        abs(x) for v in rows for x in (v.estimate.ci_low, v.estimate.ci_high, 1.5 * v.margin) if x is not None
    ]
    return min(max(ends), FURTHEST)


def _row(axes: Axes, y: float, verdict: Verdict, reach: float) -> None:
    estimate = verdict.estimate
    change, low, high = towards_better(verdict)
    name, mark = WORDS[verdict.word]
    grave = verdict.word not in ("pass", "unjudged")
    axes.barh(y - 0.12, 2 * verdict.margin, left=-verdict.margin, height=0.42, color=colour("band"))
    axes.plot([max(low, -reach), min(high, reach)], [y - 0.12] * 2, color=colour(name), solid_capstyle="butt")
    for end, beyond, arrow in ((low, low < -reach, "<"), (high, high > reach, ">")):
        if beyond:
            axes.plot([max(-reach, min(reach, end))], [y - 0.12], arrow, color=colour(name))
    axes.plot([max(-reach, min(reach, change))], [y - 0.12], mark, color=colour(name), markersize=7)
    weight = "bold" if grave else "normal"
    asked = words.asked(verdict.question)
    where = f"{asked}, {verdict.arm}" + (f": {estimate.label}" if estimate.label != asked.title else "")
    behind = {"facecolor": colour("paper"), "edgecolor": "none", "pad": 0.8}
    axes.text(
        -reach,
        y + 0.2,
        one_line(where, 58 if grave else 70),
        va="bottom",
        fontsize=9,
        weight=weight,
        bbox=behind,
    )
    told = f"{verdict.word}  {percent(estimate.change)}" if grave else percent(estimate.change)
    axes.text(reach, y + 0.2, told, va="bottom", ha="right", fontsize=9, weight=weight, color=colour(name))


def towards_better(verdict: Verdict) -> tuple[float, float, float]:
    """Change and interval with a gain above zero, whether more is better of the metric or less."""
    estimate, metric = verdict.estimate, METRICS.get(verdict.metric)
    change, low, high = estimate.change or 0.0, estimate.ci_low or 0.0, estimate.ci_high or 0.0
    return (-change, -high, -low) if metric is not None and metric.better == "lower" else (change, low, high)


def _in_words(verdict: Verdict) -> str:
    return f"{verdict.word}: {words.asked(verdict.question)}, {verdict.arm}, {verdict.estimate.label} {percent(verdict.change)}"
