"""What the readers of result formats give, and the fields they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from suite.gate.records import Facts

MS = 1e-3


@dataclass(frozen=True)
class ImportedRound:
    """One measured round of a result file: metric values in SI units, and what is known beside them."""

    workload: str
    values: Mapping[str, float | None]
    identity: Facts = field(default_factory=dict)
    subject: Facts = field(default_factory=dict)
    started_at: str | None = None
    invalid: tuple[str, str] | None = None
    rounds: Mapping[str, list[float | None]] = field(default_factory=dict)
    """Where an entry itself holds several rounds: all values of a metric."""


def number(value: Any, factor: float = 1.0) -> float | None:
    """A JSON number times a factor; None for anything else (booleans are no numbers)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) * factor


def picked(source: Mapping[str, Any], names: Mapping[str, str]) -> Facts:
    """The scalars of `source` under the names that this suite uses for them ({theirs: ours})."""
    found = {ours: source[theirs] for theirs, ours in names.items() if source.get(theirs) is not None}
    return {k: v for k, v in found.items() if isinstance(v, str | int | float | bool)}


def table(value: Any) -> Mapping[str, Any]:
    """`value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, Mapping) else {}
