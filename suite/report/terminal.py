"""The table at the end of a run: scenario, arm, value, spread, baseline, change and verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from suite.terminal.figures import columns


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


def table(rows: Sequence[Row]) -> list[str]:
    """The rows under their heads."""
    right = [place for place, head in enumerate(Row.HEAD) if head in RIGHT]
    return columns([Row.HEAD, *(row.cells() for row in rows)], right)
