"""A run and its baselines as the arrays that the rule works on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from suite.gate.baselines import Baseline, BaselineSession
from suite.gate.centred import RoundNoise
from suite.gate.decide import Decision, decide
from suite.gate.layout import Column, Layout
from suite.gate.records import Key, Launch, Series
from suite.gate.rules import MetricRule
from suite.gate.shrink import Array
from suite.gate.values import launch_log, launch_variance


@dataclass(frozen=True)
class Matrix:
    """Signed logs of launch values (+ = worse): `base` (1, S, B, G), `new` (1, L, G); columns in order of `keys`."""

    keys: tuple[Key, ...]
    layout: Layout
    base: Array
    new: Array
    generation: NDArray[np.intp]
    rounds: RoundNoise

    def first(self, launches: int) -> Matrix:
        """The same run when it had only the first so many launches."""
        noise = RoundNoise(self.rounds.base, self.rounds.new[:, :launches])
        return replace(self, new=self.new[:, :launches], rounds=noise)

    def decide(self, share: float = 1.0) -> Decision:
        """What the rule says, with part of the error rate."""
        return decide(
            self.base, self.new, self.layout, share=share, rounds=self.rounds, generation=self.generation
        )


def sign(rule: MetricRule) -> float:
    """+1 where a higher value is worse."""
    return 1.0 if rule.better == "lower" else -1.0


def build(
    rules: Mapping[Key, MetricRule],
    series: Mapping[tuple[str, str], Series],
    baselines: Mapping[tuple[str, str], Baseline],
) -> Matrix:
    """Arrays for the metrics in `rules`. Sessions are aligned over the series by the run they came from."""
    keys = tuple(sorted(rules))
    recorded = {(s.started_at, s.run_id) for k in keys for s in baselines[k[:2]].sessions}
    runs = {run_id: i for i, (_, run_id) in enumerate(sorted(recorded))}
    depth = max((len(s.launches) for k in keys for s in baselines[k[:2]].sessions), default=1)
    length = max((len(series[k[:2]].launches) for k in keys), default=1)
    base = np.full((1, len(runs), max(depth, 1), len(keys)), math.nan)
    new = np.full((1, max(length, 1), len(keys)), math.nan)
    generation = np.zeros((len(runs), len(keys)), dtype=np.intp)
    noise = RoundNoise(np.full((1, len(keys)), math.nan), np.full_like(new, math.nan))
    for g, key in enumerate(keys):
        direction, baseline = sign(rules[key]), baselines[key[:2]]
        generation[:, g] = baseline.generation
        for s in baseline.sessions:
            generation[runs[s.run_id], g] = s.generation
            base[0, runs[s.run_id], : len(s.launches), g] = _logs(s.launches, key.metric, direction)
        launches = series[key[:2]].launches
        new[0, : len(launches), g] = _logs(launches, key.metric, direction)
        noise.new[0, : len(launches), g] = [launch_variance(launch, key.metric) for launch in launches]
        noise.base[0, g] = _round_variance(baseline.sessions, key.metric)
    columns = tuple(
        Column(source, k.arm, rules[k].kind, rules[k].gated, rules[k].margin)
        for k, source in zip(keys, _sources(keys, new), strict=True)
    )
    return Matrix(keys, Layout(columns), base, new, generation, noise)


def _sources(keys: tuple[Key, ...], new: Array) -> list[str]:
    """The question that each column was measured for: rounds played once and used for two questions are one."""
    first: dict[tuple[str, str, bytes], str] = {}
    return [
        first.setdefault((k.arm, k.metric, new[0, :, g].tobytes()), k.question) for g, k in enumerate(keys)
    ]


def _logs(launches: list[Launch], metric: str, direction: float) -> list[float]:
    return [direction * launch_log(launch, metric) for launch in launches]


def _round_variance(sessions: list[BaselineSession], metric: str) -> float:
    """What rounds say of the variance of a launch's value, over all launches; NaN where none has two rounds."""
    told = [launch_variance(launch, metric) for s in sessions for launch in s.launches]
    told = [v for v in told if not math.isnan(v)]
    return float(np.mean(told)) if told else math.nan
