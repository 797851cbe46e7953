"""Figures and columns as people read them: values with units, changes in percent, aligned cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    return "-" if change is None else f"{signed(100 * change)} %"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; what rounds to nothing is +0, never -0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def columns(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Lines of cells as text, each column as wide as it needs to be; those in ``right`` are aligned to the right."""
    flush_right = frozenset(right)
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return [
        "  ".join(
            cell.rjust(width) if place in flush_right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def times(count: int, one: str, many: str) -> str:
    """A count with its noun: `1 launch`, `3 launches`."""
    return f"{count} {one if count == 1 else many}"
