"""The table at the end of a run: scenario, arm, value, spread, baseline, change and verdict."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """One judged metric, already in words."""

    question: str
    arm: str
    metric: str
    value: str
    spread: str
    baseline: str
    change: str
    verdict: str

    HEAD = ("scenario", "arm", "metric", "value", "spread", "baseline", "change", "verdict")

    def cells(self) -> tuple[str, ...]:
        return (
            self.question,
            self.arm,
            self.metric,
            self.value,
            self.spread,
            self.baseline,
            self.change,
            self.verdict,
        )


RIGHT = frozenset({"value", "spread", "baseline", "change"})

SCALES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def number(value: float | None, unit: str) -> str:
    """A value with its unit, to four significant digits; times in the unit that suits their size."""
    if value is None:
        return "-"
    if unit == "s":
        unit, factor = next(((name, f) for name, f in SCALES if abs(value) >= f), SCALES[-1])
        value /= factor
    digits = f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return f"{digits} {unit}".strip()


def percent(change: float | None) -> str:
    """A relative change with its sign: 0.0123 is ``+1.2 %``."""
    return "-" if change is None else f"{100 * change:+.1f} %"


def table(rows: Sequence[Row]) -> list[str]:
    """The rows under their heads, columns as wide as they need to be."""
    cells = [Row.HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(Row.HEAD))]
    return [_line(line, widths) for line in cells]


def _line(cells: Iterable[str], widths: Sequence[int]) -> str:
    padded = (
        text.rjust(width) if head in RIGHT else text.ljust(width)
        for text, width, head in zip(cells, widths, Row.HEAD, strict=True)
    )
    return "  ".join(padded).rstrip()
