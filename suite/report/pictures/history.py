"""One figure over all runs: its level, where that changed for good, what was promoted, and which build it was."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from suite.foreign import one_line
from suite.gate import Key, Word
from suite.gate.history import Entry, LevelChange
from suite.metrics import METRICS
from suite.report import words
from suite.report.pictures.samples import scale_of
from suite.report.pictures.style import WORDS, Picture, canvas, colour, finished
from suite.terminal.figures import number, percent, times

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED_BUILDS = 6
"""More builds than these are marked and not all named."""


def history(
    key: Key,
    entries: Sequence[Entry],
    steps: Sequence[LevelChange],
    promoted: frozenset[str],
    said: Mapping[str, Word],
    links: Mapping[str, str],
) -> Picture | None:
    """Draw one figure; None where no run has it.

    Args:
        entries: all runs of a target, oldest first.
        steps: lasting changes of this figure.
        promoted: runs that a person made the level that later ones are compared with.
        said: the gate's word on this figure, by run, where that is still known.
        links: where a run can be read, by run.
    """
    name = "/".join(key)
    runs = [entry for entry in entries if name in entry.values]
    if not runs:
        return None
    metric = METRICS.get(key.metric)
    values = [entry.values[name] for entry in runs]
    factor, unit = scale_of(values, metric.unit if metric else "")
    with canvas(2.6) as (figure, axes):
        axes.plot(range(len(runs)), [v / factor for v in values], "-", color=colour("rule"), linewidth=1.2)
        _levels(axes, runs, steps, factor)
        for place, (entry, value) in enumerate(zip(runs, values, strict=True)):
            shade, mark = WORDS[said.get(entry.run_id, "pass")]
            drawn = axes.scatter([place], [value / factor], marker=mark, s=42, color=colour(shade), zorder=3)
            drawn.set_urls([links.get(entry.run_id)])
        axes.margins(y=0.3)
        _promotions(axes, runs, promoted)
        _builds(axes, runs)
        axes.set_xlim(-0.6, max(len(runs) - 0.4, 0.6))
        axes.grid(visible=False, axis="x")
        better = {"higher": ", higher is better", "lower": ", lower is better"}.get(
            metric.better if metric else "", ""
        )
        label = metric.label if metric else key.metric
        axes.set_title(f"{label}{better}")
        axes.set_ylabel(unit)
        title = f"{words.asked(key.question)}, {key.arm}: {label}"
        told = f"{title}; {times(len(runs), 'run', 'runs')}, now {number(values[-1], metric.unit if metric else '')}"
        changes = "".join(
            f"; {'worse' if s.worse else 'better'} {percent(s.change)} from {s.run_id} on" for s in steps
        )
        return finished(figure, name, title, told + changes)


def _levels(axes: Axes, runs: Sequence[Entry], steps: Sequence[LevelChange], factor: float) -> None:
    """A line down where the level changed, with how much."""
    places = {entry.run_id: place for place, entry in enumerate(runs)}
    for step in steps:
        at = places.get(step.run_id)
        if at is None:
            continue
        name = "bad" if step.worse else "good"
        axes.axvline(at - 0.5, color=colour(name), linestyle="--", linewidth=1.3)
        axes.annotate(
            percent(step.change),
            (at - 0.5, 1.0),
            (5, 0),
            xycoords=axes.get_xaxis_transform(),
            textcoords="offset points",
            va="top",
            color=colour(name),
            fontsize=9,
            weight="bold",
        )
        axes.hlines(step.after / factor, at - 0.5, len(runs) - 0.5, color=colour(name), linewidth=1.0)


def _promotions(axes: Axes, runs: Sequence[Entry], promoted: frozenset[str]) -> None:
    at = [place for place, entry in enumerate(runs) if entry.run_id in promoted]
    if at:
        axes.plot(
            at,
            [0.05] * len(at),
            "^",
            transform=axes.get_xaxis_transform(),
            color=colour("off"),
            label="promoted: the level that later runs are compared with",
        )
        axes.legend(loc="lower left", bbox_to_anchor=(0, 0.06), fontsize=8.5)


def _builds(axes: Axes, runs: Sequence[Entry]) -> None:
    """Below: where another build begins, and its name."""
    names = [build_of(entry) for entry in runs]
    begins = [0, *(place for place, (a, b) in enumerate(itertools.pairwise(names), 1) if a != b)]
    for place in begins[1:]:
        axes.axvline(place - 0.5, color=colour("rule"), linewidth=1.0)
    shown = begins if len(begins) <= NAMED_BUILDS else begins[:: -(-len(begins) // NAMED_BUILDS)]
    axes.set_xticks(shown, [one_line(names[place], 18) for place in shown], ha="left", fontsize=8.5)
    axes.set_xlabel(f"runs from {runs[0].started_at[:10]} to {runs[-1].started_at[:10]}, by SGLang build")


def build_of(entry: Entry) -> str:
    """A build's name for people; a commit where nothing else is known."""
    return entry.sglang or (entry.commit or "")[:8] or "unknown"
