"""How many drafted tokens are accepted: by position in the draft, and on the whole, by what is written about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from suite.foreign import one_line
from suite.gate import Verdict
from suite.report import words
from suite.report.pictures.style import LINES, WORDS, Picture, canvas, colour, finished
from suite.terminal.figures import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Lines = Mapping[str, Sequence[float]]


def acceptance(
    verdicts: Sequence[Verdict],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    against: str = "baseline",
) -> Picture | None:
    """Acceptance by position in the draft, and acceptance length beside that of ``against``; None where neither was measured."""
    lengths = [v for v in verdicts if v.metric == "acceptance_length" and v.value is not None]
    positions = by_position(tables)
    heights = ([2.7] if positions else []) + ([0.55 + 0.42 * len(lengths)] if lengths else [])
    if not heights:
        return None
    with canvas(sum(heights) + 0.3, rows=len(heights), squeeze=False, height_ratios=heights) as (
        figure,
        grid,
    ):
        if positions:
            _positions(grid[0, 0], positions)
        if lengths:
            _lengths(grid[-1, 0], sorted(lengths, key=lambda v: v.key), against)
        said = "; ".join(f"{words.asked(v.question)}: {v.value:.3g} tokens per step" for v in lengths)
        return finished(
            figure, "acceptance", "What of the drafts is accepted", said or "acceptance by position"
        )


def by_position(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[float]]:
    """Shares accepted at the first, second ... position, by what was asked: rows of tables with such columns."""
    found: dict[str, list[float]] = {}
    for rows in tables.values():
        for row in rows:
            shares = [v for i in range(1, 65) if isinstance(v := row.get(f"position_{i}"), int | float)]
            if shares:
                found[_name(row)] = [float(share) for share in shares]
    return found


def _name(row: Mapping[str, Any]) -> str:
    parts = [
        str(row["content"]) if "content" in row else "",
        f"{row['context']:,} tokens" if isinstance(row.get("context"), int) else "",
        f"t {row['temperature']:g}"
        if isinstance(row.get("temperature"), float) and row["temperature"]
        else "",
    ]
    return one_line(", ".join(filter(None, parts)) or "drafts", 30)


def _positions(axes: Axes, positions: Lines) -> None:
    shown = sorted(positions.items(), key=lambda pair: -pair[1][0])
    for place, (name, shares) in enumerate(shown):
        line, mark, dashes = LINES[place % len(LINES)]
        first = range(1, len(shares) + 1)
        axes.plot(first, shares, marker=mark, linestyle=dashes, color=colour(line), label=name)
    most = max(len(shares) for shares in positions.values())
    axes.set_xticks(range(1, most + 1))
    axes.set_xlim(0.8, most + 0.2)
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
    axes.set_xlabel("position in the draft")
    axes.set_title("how often the draft is right, by position")
    axes.legend(loc="best", ncols=2)


def _lengths(axes: Axes, lengths: Sequence[Verdict], against: str) -> None:
    for place, verdict in enumerate(lengths):
        name, mark = WORDS[verdict.word]
        level = verdict.baseline_value
        if level is not None:
            axes.plot(
                [level],
                [-place],
                "|",
                color=colour("off"),
                markersize=16,
                label=None if place else against,
            )
        value = verdict.value or 0.0
        axes.plot([value], [-place], mark, color=colour(name), label=None if place else "this run")
        axes.annotate(
            percent(verdict.change),
            (value, -place),
            (0, 8),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
        )
    axes.set_yticks(
        [-place for place in range(len(lengths))],
        [one_line(_asked(v.question), 34) for v in lengths],
    )
    axes.set_ylim(-len(lengths) + 0.4, 0.7)
    axes.set_xlim(left=1)
    axes.set_xlabel("acceptance length, tokens a verify step")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, fontsize=8.5)


def _asked(question: str) -> str:
    return (
        str(words.asked(question)).removeprefix("acceptance length, ").removeprefix("acceptance by context, ")
    )
