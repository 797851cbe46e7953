"""What a stored session cannot hold: levels of nothing and less, one run at two times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from suite.gate.records import Launch
from suite.gate.rules import DEFAULT_RULES

_GATED = frozenset(rule.name for rule in DEFAULT_RULES if rule.gated)

MOST = 1e12
"""No metric here has a value near it, whatever its unit."""


def impossible(launches: Sequence[Launch]) -> str | None:
    """Which value of these launches no measurement gives, in words, or None. Gated metrics are compared as ratios."""
    for number, launch in enumerate(launches, 1):
        for metric, values in launch.rounds.items():
            for value in values if metric in _GATED else ():
                if value is not None and not (math.isfinite(value) and 0 < value < MOST):
                    return f"{metric} of launch {number} is {value:g}, which nothing measured can be"
    return None


def twice(runs: Iterable[tuple[str, str]]) -> str | None:
    """Which run is told with two times (or twice in one file), in words, or None."""
    known: dict[str, str] = {}
    for run_id, started_at in runs:
        if run_id in known:
            other = known[run_id]
            at = f"at {other} and at {started_at}" if other != started_at else "twice"
            return f"run {run_id} is there {at}"
        known[run_id] = started_at
    return None


def dated_twice(runs: Mapping[str, set[str]]) -> str | None:
    """Of runs with all the times that a target's files tell of them: which has two, in words, or None."""
    for run_id, times in sorted(runs.items()):
        if len(times) > 1:
            return f"run {run_id} is told with two times, {' and '.join(sorted(times))}"
    return None
