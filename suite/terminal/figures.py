"""Figures as people read them: values with units, changes in percent with their intervals, counts with their nouns."""

from __future__ import annotations

from collections.abc import Iterable

SCALES = (("s", 1.0), ("ms", 1e-3), ("us", 1e-6))


def number(value: float | None, unit: str) -> str:
    """A value with its unit, to four significant digits; times in the unit that suits their size."""
    (digits,), unit = in_one_unit([value], unit)
    return digits if value is None else f"{digits} {unit}".strip()


def in_one_unit(values: Iterable[float | None], unit: str) -> tuple[list[str], str]:
    """Values as digits beside each other, and the one unit of all: for times the one that suits the largest."""
    given = list(values)
    factor = 1.0
    if unit == "s":
        largest = max((abs(value) for value in given if value is not None), default=1.0)
        unit, factor = next(((name, f) for name, f in SCALES if largest >= f), SCALES[-1])
    return [_digits(value, factor) for value in given], unit


def _digits(value: float | None, factor: float) -> str:
    if value is None:
        return "-"
    value /= factor
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def percent(change: float | None, digits: int = 1) -> str:
    """A relative change with its sign: 0.0123 is ``+1.2 %``."""
    return "-" if change is None else f"{signed(100 * change, digits)} %"


def interval(low: float, high: float) -> str:
    """The ends of an interval of relative changes, in percent: ``-6.2..-3.5``."""
    return f"{signed(100 * low)}..{signed(100 * high)}"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; what rounds to nothing is +0, never -0."""
    return f"{round(value, digits) + 0.0:+.{digits}f}"


def duration(seconds: float) -> str:
    """A length of time as one says it: `45 s`, `24 min`, `2 h 5 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def times(count: int, one: str, many: str) -> str:
    """A count with its noun: `1 launch`, `3 launches`."""
    return f"{count} {one if count == 1 else many}"
