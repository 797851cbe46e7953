"""The forest plot: every change of a run with its interval, the gravest on top, worse to the left and better to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from suite.foreign import one_line
from suite.gate import Verdict, Word
from suite.metrics import METRICS
from suite.report import words
from suite.report.pictures.style import WORDS, Picture, canvas, colour, finished
from suite.terminal.figures import percent, times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = 40
ROW_IN, HEAD_ROWS, FURTHEST = 0.37, 0.75, 0.5
"""Height of a row, that of a word above its rows in rows, and the largest change that the scale reaches: what is beyond has an arrow."""


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
    places, heads, height = _places(rows)
    with canvas(0.65 + ROW_IN * height, edges_in=(0.2, 0.2, 0.5, 0.02)) as (figure, axes):
        axes.axvline(0, color=colour("ink"), linewidth=1.0)
        for place, verdict in zip(places, rows, strict=True):
            _row(axes, -place, verdict, reach)
        for place, word in heads:
            _text(axes, -reach, 0.1 - place, word, weight="bold", color=colour(WORDS[word][0]))
        axes.set_xlim(-reach * 1.04, reach * 1.04)
        axes.set_ylim(0.1 - height, 0.65)
        axes.set_yticks([])
        axes.spines["left"].set_visible(False)
        axes.locator_params(axis="x", nbins=6)
        axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:+g} %" if x else "0")
        axes.set_xlabel("← worse · change, 95 % interval; band: margin · better →")
        counted = times(len(compared), "change", "changes")
        title += f", the first {SHOWN} of them," if len(compared) > SHOWN else ""
        said = f"{counted} against the {against}; " + "; ".join(_in_words(v) for v in rows[:5])
        return finished(figure, "forest", f"{title} against the {against}", said)


def _places(rows: Sequence[Verdict]) -> tuple[list[float], list[tuple[float, Word]], float]:
    """How far down each row stands, each word above its rows, and how high all are: in rows."""
    places: list[float] = []
    heads: list[tuple[float, Word]] = []
    at = 0.0
    for place, verdict in enumerate(rows):
        if not place or verdict.word != rows[place - 1].word:
            heads.append((at, verdict.word))
            at += HEAD_ROWS
        places.append(at)
        at += 1
    return places, heads, at


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
    axes.barh(y - 0.16, 2 * verdict.margin, left=-verdict.margin, height=0.36, color=colour("band"))
    axes.plot([max(low, -reach), min(high, reach)], [y - 0.16] * 2, color=colour(name), solid_capstyle="butt")
    for end, beyond, arrow in ((low, low < -reach, "<"), (high, high > reach, ">")):
        if beyond:
            axes.plot([max(-reach, min(reach, end))], [y - 0.16], arrow, color=colour(name))
    axes.plot([max(-reach, min(reach, change))], [y - 0.16], mark, color=colour(name), markersize=7)
    asked = words.asked(verdict.question)
    where = f"{asked}, {verdict.arm}"
    where += f": {estimate.label}" if not where.lower().startswith(estimate.label.lower()[:8]) else ""
    weight = "bold" if grave else "normal"
    _text(axes, -reach, y + 0.13, one_line(where, 58))
    told = percent(estimate.change)
    _text(axes, reach, y + 0.13, told, ha="right", weight=weight, color=colour(name))


def _text(axes: Axes, x: float, y: float, text: str, **how: Any) -> None:
    behind = {"facecolor": colour("paper"), "edgecolor": "none", "pad": 0.6}
    axes.text(x, y, text, va="bottom", fontsize=9, bbox=behind, **how)


def towards_better(verdict: Verdict) -> tuple[float, float, float]:
    """Change and interval with a gain above zero, whether more is better of the metric or less."""
    estimate, metric = verdict.estimate, METRICS.get(verdict.metric)
    change, low, high = estimate.change or 0.0, estimate.ci_low or 0.0, estimate.ci_high or 0.0
    return (-change, -high, -low) if metric is not None and metric.better == "lower" else (change, low, high)


def _in_words(verdict: Verdict) -> str:
    return f"{verdict.word}: {words.asked(verdict.question)}, {verdict.arm}, {verdict.estimate.label} {percent(verdict.change)}"
