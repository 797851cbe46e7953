"""The samples of one series, round by round and launch by launch, against the level and the margin they are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from suite.gate import Launch, Series, Verdict
from suite.report import words
from suite.report.pictures.style import WORDS, Picture, canvas, colour, finished
from suite.terminal.figures import SCALES, number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_IN = 2.1


def samples(
    series: Series, verdicts: Sequence[Verdict], against: str = "baseline", before: Series | None = None
) -> Picture | None:
    """A panel for each judged metric that has values; None if none has.

    Args:
        against: what the verdicts compare with, in a word.
        before: the same series of the other build, where two took turns.
    """
    shown = [v for v in verdicts if any(_known(launch, v.metric) for launch in series.launches)]
    if not shown:
        return None
    with canvas(
        0.35 + PANEL_IN * len(shown), rows=len(shown), edges_in=(0.75, 0.1, 0.5, 0.3), squeeze=False
    ) as (figure, grid):
        for axes, verdict in zip(grid[:, 0], shown, strict=True):
            _panel(axes, series.launches, before.launches if before else [], verdict, against)
        grid[-1, 0].set_xlabel("rounds as they were played, by launch")
        said = "; ".join(
            f"{v.estimate.label} {number(v.value, v.estimate.unit)}, {percent(v.change)} against the {against}: {v.word}"
            for v in shown
        )
        title = f"{words.asked(series.question)}, {series.arm}: every round"
        return finished(figure, "samples", title, said)


def _known(launch: Launch, metric: str) -> list[float]:
    return [value for value in launch.rounds.get(metric, []) if value is not None]


def scale_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """What to divide by, and the unit that is then right: times in ms or µs where they are short."""
    if unit != "s":
        return 1.0, unit
    largest = max(map(abs, values), default=1.0)
    name, factor = next(((n, f) for n, f in SCALES if largest >= f), SCALES[-1])
    return factor, name.replace("us", "µs")


def _panel(
    axes: Axes, launches: Sequence[Launch], before: Sequence[Launch], verdict: Verdict, against: str
) -> None:
    estimate = verdict.estimate
    level = estimate.baseline_value
    values = [value for launch in (*launches, *before) for value in _known(launch, verdict.metric)]
    factor, unit = scale_of([*values, *([level] if level is not None else [])], estimate.unit)
    if level is not None:
        level /= factor
        axes.axhspan(level * (1 - verdict.margin), level * (1 + verdict.margin), color=colour("band"))
        axes.axhline(level, color=colour("off"), linestyle="--", label=f"{against}, band: margin")
    at, middles = 0, []
    for count, (launch, other) in enumerate(zip_longest(launches, before), 1):
        rounds = [
            len(side.rounds.get(verdict.metric, [])) if side is not None else 0 for side in (launch, other)
        ]
        if other is not None:
            _rounds(axes, other, verdict.metric, at, factor, f"a round of the {against}")
        if launch is not None:
            _rounds(axes, launch, verdict.metric, at, factor, "a round")
        middles.append((at + (max(rounds) - 1) / 2, f"launch {count}"))
        at += max(rounds) + 1
        if count < max(len(launches), len(before)):
            axes.axvline(at - 1, color=colour("rule"))
    axes.set_xlim(-1, max(at - 1, 1))
    axes.set_xticks([place for place, _ in middles], [name for _, name in middles])
    axes.grid(visible=False, axis="x")
    name, _ = WORDS[verdict.word]
    told = f"{estimate.label}: {verdict.word}" + (f", {percent(verdict.change)}" if level is not None else "")
    axes.set_title(told, color=colour(name))
    axes.set_ylabel(unit)
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(once.values(), once.keys(), loc="best", fontsize=8.5)


def _rounds(axes: Axes, launch: Launch, metric: str, at: int, factor: float, label: str) -> None:
    """The rounds of one launch from place ``at`` on: what is not to be trusted as a cross, those of another build hollow."""
    distrusted = {reason.round for reason in launch.invalid}
    own = label == "a round"
    for place, value in enumerate(launch.rounds.get(metric, [])):
        if value is None:
            continue
        bad = place in distrusted or None in distrusted
        axes.plot(
            [at + place],
            [value / factor],
            "x" if bad else "o",
            color=colour("invalid" if bad else "on" if own else "off"),
            markerfacecolor=None if own else "none",
            label="not to be trusted" if bad else label,
        )
