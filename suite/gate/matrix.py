"""A run and its baselines as the arrays that the rule works on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from suite.gate.baselines import Baseline
from suite.gate.decide import Decision, decide
from suite.gate.deltas import RoundNoise
from suite.gate.layout import Column, Layout
from suite.gate.paired import AcceptanceColumns
from suite.gate.records import Key, Series
from suite.gate.robust import Array, mean
from suite.gate.rules import MetricRule
from suite.gate.sides import Side, acceptance_of


@dataclass(frozen=True)
class Matrix:
    """Signed logs of launch values (+ = worse): `base` (1, S, B, G), `new` (1, L, G); columns in order of `keys`.

    Of a column in `acceptance.borne` they are those of its steps; `raw` ones are as measured. played: rounds of a
    launch of the run, by column.
    """

    keys: tuple[Key, ...]
    layout: Layout
    base: Array
    new: Array
    generation: NDArray[np.intp]
    rounds: RoundNoise
    raw_base: Array
    raw_new: Array
    acceptance: AcceptanceColumns
    played: NDArray[np.intp]

    def first(self, launches: int) -> Matrix:
        """The same run when it had only the first so many launches."""
        return replace(
            self,
            new=self.new[:, :launches],
            rounds=RoundNoise(self.rounds.base, self.rounds.new[:, :launches]),
            raw_new=self.raw_new[:, :launches],
            acceptance=self.acceptance.first(launches),
        )

    def raw_change(self, g: int) -> float:
        """The change of what column `g` measured, signed log: mean of the launches minus the level of the baseline."""
        compared = self.raw_base[0, :, : self.raw_new.shape[1], g]
        sessions = mean(compared, 1)[self.generation[:, g] == self.generation[:, g].max()]
        return float(mean(self.raw_new[0, :, g], 0) - mean(sessions, 0))

    def decide(self, share: float = 1.0) -> Decision:
        """What the rule says, with part of the error rate."""
        return decide(
            self.base,
            self.new,
            self.layout,
            share=share,
            rounds=self.rounds,
            generation=self.generation,
            acceptance=self.acceptance,
        )


def build(
    rules: Mapping[Key, MetricRule],
    series: Mapping[tuple[str, str], Series],
    baselines: Mapping[tuple[str, str], Baseline],
) -> Matrix:
    """Arrays for the metrics in `rules`. Sessions are aligned over the series by the run they came from."""
    keys = tuple(sorted(rules))
    sides = [Side(key, rules[key], series[key[:2]], baselines[key[:2]]) for key in keys]
    recorded = {(s.started_at, s.run_id) for side in sides for s in side.baseline.sessions}
    runs = {run_id: i for i, (_, run_id) in enumerate(sorted(recorded))}
    depth = max((len(s.launches) for side in sides for s in side.baseline.sessions), default=1)
    length = max((len(side.series.launches) for side in sides), default=1)
    base = np.full((1, len(runs), max(depth, 1), len(keys)), math.nan)
    new = np.full((1, max(length, 1), len(keys)), math.nan)
    raw_base, raw_new = base.copy(), new.copy()
    generation = np.zeros((len(runs), len(keys)), dtype=np.intp)
    noise = RoundNoise(np.full((1, len(keys)), math.nan), np.full_like(new, math.nan))
    acceptance = acceptance_of(sides)
    for g, side in enumerate(sides):
        generation[:, g] = side.baseline.generation
        borne = acceptance.borne.get(g)
        read = side.raw if borne is None else side.steps(borne.share)
        for s in side.baseline.sessions:
            generation[runs[s.run_id], g] = s.generation
            base[0, runs[s.run_id], : len(s.launches), g] = read.logs(s.launches)
            raw_base[0, runs[s.run_id], : len(s.launches), g] = side.raw.logs(s.launches)
        launches = side.series.launches
        new[0, : len(launches), g] = read.logs(launches)
        raw_new[0, : len(launches), g] = side.raw.logs(launches)
        noise.new[0, : len(launches), g] = [read.variance(launch) for launch in launches]
        noise.base[0, g] = read.usual_variance(side.baseline.sessions)
    columns = tuple(
        Column(source, k.arm, rules[k].kind, rules[k].gated, rules[k].margin)
        for k, source in zip(keys, _sources(keys, raw_new), strict=True)
    )
    return Matrix(
        keys, Layout(columns), base, new, generation, noise, raw_base, raw_new, acceptance, _played(sides)
    )


def _played(sides: list[Side]) -> NDArray[np.intp]:
    counts = [[len(x.rounds.get(side.key.metric, [])) for x in side.series.launches] for side in sides]
    return np.array([max(max(count, default=1), 1) for count in counts], dtype=np.intp)


def _sources(keys: tuple[Key, ...], new: Array) -> list[str]:
    """The question that each column was measured for: rounds played once and used for two questions are one."""
    first: dict[tuple[str, str, bytes], str] = {}
    return [
        first.setdefault((k.arm, k.metric, new[0, :, g].tobytes()), k.question) for g, k in enumerate(keys)
    ]
