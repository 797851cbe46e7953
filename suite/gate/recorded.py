"""What recording a run did, in words: which session of which generation it became, and what its sessions can tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from suite.gate.baselines import Recorded
from suite.terminal.figures import times

SESSIONS = 5
"""Recorded sessions of one build from which on another changes little; the stated error rates are those of five."""
ONE_DAY = timedelta(hours=12)
"""Sessions that all began within this saw one day of the machine."""


def told(recorded: Sequence[Recorded]) -> list[str]:
    """A sentence for all files that were dealt with alike, and what to do next."""
    alike: dict[tuple[int, int], list[Recorded]] = {}
    for one in recorded:
        alike.setdefault((one.generation, len(one.starts)), []).append(one)
    return [_sentence(number, group) for (_, number), group in sorted(alike.items())]


def _sentence(number: int, group: Sequence[Recorded]) -> str:
    generation = group[0].generation
    of = f"session {number} of {SESSIONS}" if number <= SESSIONS else f"session {number}"
    said = f"recorded {len(group)} series as {of} of generation {generation}"
    if number == 1 < generation:
        build = f" (another build: {group[0].build})" if group[0].build else ""
        said += f", which begins with it{build}: later runs are compared with this level"
    return f"{said}{_next(number, group[0].starts)}"


def _next(number: int, starts: Iterable[str]) -> str:
    span = _span(starts)
    if number > 1 and span is not None and span < ONE_DAY:
        return (
            f"; all {number} within {_length(span)}: they do not tell how far this machine moves from day to day, record "
            "on other days"
        )
    return "; record the next on another day" if number < SESSIONS else ""


def _span(starts: Iterable[str]) -> timedelta | None:
    try:
        times = [datetime.fromisoformat(start) for start in starts]
        return max(times) - min(times)
    except (ValueError, TypeError):  # imported runs tell a day only, or none
        return None


def _length(span: timedelta) -> str:
    minutes = max(1, round(span.total_seconds() / 60))
    if minutes < 90:
        return times(minutes, "minute", "minutes")
    return f"{round(minutes / 60)} hours"
