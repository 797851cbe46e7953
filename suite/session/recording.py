"""What was measured, from played rounds to the session that the gate judges and ``run.json`` holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from suite import metrics
from suite.gate import Counts, Invalid, Launch, Series, speedup
from suite.load import Round
from suite.session.collection import Ratio, SeriesId

STORED = tuple(metric.name for metric in metrics.METRICS.values() if metric.stored)
"""The metrics that are kept of each round."""

Facts = dict[str, Any]


@dataclass(slots=True)
class Played:
    """The rounds of one workload in one launch, with what makes them comparable and fit to be judged."""

    rounds: list[Round] = field(default_factory=list)
    values: list[Mapping[str, metrics.Value]] = field(default_factory=list)
    invalid: list[Invalid] = field(default_factory=list)
    identity: Facts = field(default_factory=dict)
    subject: Facts = field(default_factory=dict)

    def median(self, metric: str) -> float | None:
        """The median over the rounds; ``None`` if no round has it."""
        known = [value for value in self._of(metric) if value is not None]
        return median(known) if known else None

    def spread(self, metric: str) -> float | None:
        """Half the range over the rounds, relative to their median."""
        known = [value for value in self._of(metric) if value is not None]
        middle = self.median(metric)
        return (max(known) - min(known)) / 2 / middle if middle else None

    def reason(self, metric: str) -> str | None:
        """Why a metric is missing, where it is."""
        return next((v[metric].reason for v in self.values if metric in v and v[metric].reason), None)

    def _of(self, metric: str) -> list[float | None]:
        return [values[metric].value if metric in values else None for values in self.values]

    def launch(self) -> Launch:
        """As the gate keeps it."""
        return Launch(
            rounds={name: self._of(name) for name in STORED if any(name in values for values in self.values)},
            counts=self._counts(),
            missing={name: reason for name in STORED if (reason := self.reason(name))},
            invalid=list(self.invalid),
        )

    def _counts(self) -> dict[str, list[Counts]]:
        rounds = [[r.spec for r in round_.ok if r.spec is not None] for round_ in self.rounds]
        if not any(rounds):
            return {}
        return {
            "acceptance_length": [
                Counts([spec.correct_drafts for spec in specs], [spec.verify_steps for spec in specs])
                for specs in rounds
            ]
        }


class Recording:
    """Every series measured in a run, launch by launch."""

    def __init__(self) -> None:
        self._played: dict[SeriesId, dict[int, Played]] = {}

    @property
    def empty(self) -> bool:
        """Was nothing measured at all?"""
        return not self._played

    def add(self, series: SeriesId, launch: int, played: Played) -> None:
        """Keep what was played for a series in one of its launches."""
        self._played.setdefault(series, {})[launch] = played

    def played(self, series: SeriesId, launch: int) -> Played | None:
        """What was played for a series in one of its launches, if anything was."""
        return self._played.get(series, {}).get(launch)

    def series(self) -> list[Series]:
        """All series as the gate judges them: measured ones, and the ratios of two arms in place of their parts."""
        measured = {name: self._series(name) for name in self._played}
        ratios = {name.ratio_of(): name.ratio for name in measured if name.ratio is not None}
        plain = [series for name, series in measured.items() if name.ratio is None]
        return [*plain, *(made for name, ratio in ratios.items() if (made := _ratio(name, ratio, measured)))]

    def _series(self, name: SeriesId) -> Series:
        launches = [played for _, played in sorted(self._played[name].items())]
        return Series(
            question=name.question,
            arm=name.arm,
            identity=launches[0].identity,
            subject=launches[0].subject,
            launches=[played.launch() for played in launches],
            judged=list(name.metrics),
        )


def _ratio(name: SeriesId, ratio: Ratio, measured: Mapping[SeriesId, Series]) -> Series | None:
    """The ratio of two arms that were both measured, launch by launch."""
    above = measured.get(SeriesId(name.question, ratio.numerator))
    below = measured.get(SeriesId(name.question, ratio.denominator))
    if above is None or below is None:
        return None
    return speedup(name.question, above, below, metric=ratio.metric, name=name.metrics[0])
