"""One metric of a run beside its baseline, as measured and as steps, and how the metrics of a run rest on acceptance."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from suite.gate.accepted import ACCEPTANCE, BORNE, aligned, decode_share, prompt_logs, step_rounds
from suite.gate.baselines import Baseline, BaselineSession
from suite.gate.paired import ANSWER_DF, ANSWER_SD, AcceptanceColumns, Borne, Pairs
from suite.gate.records import Key, Launch, Series
from suite.gate.robust import Array, mean, trimmed_mean
from suite.gate.rules import MetricRule
from suite.gate.spread import Spread
from suite.gate.values import launch_log, launch_variance

ALIKE = ("workload", "temperature")
"""What must be equal for the acceptance of one series to be that of another of the same arm."""
WHOLLY_BORNE = ("tpot_s", "tokens_per_chunk")


@dataclass(frozen=True)
class Read:
    """How the value of a launch is read: its signed log, + = worse, and the variance that its rounds give it."""

    sign: float
    log: Callable[[Launch], float]
    variance: Callable[[Launch], float]

    def logs(self, launches: Sequence[Launch]) -> list[float]:
        """Of each launch."""
        return [self.sign * self.log(launch) for launch in launches]

    def usual_variance(self, sessions: Sequence[BaselineSession]) -> float:
        """What rounds say of the variance of a launch's value, over all launches; NaN where none has two rounds."""
        told = [v for s in sessions for launch in s.launches if not math.isnan(v := self.variance(launch))]
        return float(np.mean(told)) if told else math.nan


@dataclass(frozen=True)
class Side:
    """One metric of one series of a run, with its baseline."""

    key: Key
    rule: MetricRule
    series: Series
    baseline: Baseline

    @property
    def raw(self) -> Read:
        """The value as it was measured."""
        metric = self.key.metric
        return Read(
            self.rule.sign, lambda one: launch_log(one, metric), lambda one: launch_variance(one, metric)
        )

    def steps(self, share: float) -> Read:
        """The value at one token a step."""

        def logs(launch: Launch) -> Array:
            return step_rounds(launch, self.key.metric, share)

        return Read(
            self.rule.sign, lambda one: float(trimmed_mean(logs(one))), lambda one: _variance(logs(one))
        )

    @cached_property
    def current(self) -> list[BaselineSession]:
        """The sessions of the level that the run is compared with."""
        return [s for s in self.baseline.sessions if s.generation == self.baseline.generation]

    @cached_property
    def launches(self) -> list[Launch]:
        """All that is compared, old and new."""
        return [*(launch for s in self.current for launch in s.launches), *self.series.launches]

    @cached_property
    def new_prompts(self) -> list[dict[str, float]]:
        """Acceptance by prompt, of each new launch."""
        return [prompt_logs(launch) for launch in self.series.launches]

    @cached_property
    def pairs(self) -> Pairs | None:
        """Acceptance of the prompts that both sides answered, + = worse; None where there are none."""
        old = [_mean_of([prompt_logs(launch) for launch in s.launches]) for s in self.current]
        prompts = sorted({p for row in old for p in row} & {p for row in self.new_prompts for p in row})
        if not prompts:
            return None
        return Pairs(-aligned(old, prompts)[None], -aligned(self.new_prompts, prompts)[None])

    @property
    def share(self) -> float:
        """Of the value that follows acceptance."""
        return 1.0 if self.key.metric in WHOLLY_BORNE else decode_share(self.launches)

    def unpaired(self) -> Spread:
        """Of the difference of two builds' acceptance whose prompts cannot be paired: what differs between prompts."""
        logs = [x for row in [_mean_of(self.new_prompts)] for x in row.values()]
        if len(logs) < 2:
            return Spread(np.array([2 * ANSWER_SD**2]), np.array([ANSWER_DF]))
        return Spread(np.array([2 * float(np.var(logs, ddof=1)) / len(logs)]), np.array([len(logs) - 1.0]))


def acceptance_of(sides: Sequence[Side]) -> AcceptanceColumns:
    """Which columns are judged prompt by prompt, which rest on acceptance, and on which column's."""
    judged: dict[int, Pairs] = {}
    borne: dict[int, Borne] = {}
    unknown: dict[int, Spread] = {}
    for g, side in enumerate(sides):
        if side.key.metric == ACCEPTANCE:
            if side.pairs is None:
                unknown[g] = side.unpaired()
            else:
                judged[g] = side.pairs
    for g, side in enumerate(sides):
        if side.key.metric not in BORNE or not any(side.new_prompts):
            continue
        steps = side.steps(side.share)
        if (
            side.pairs is None
            or np.isnan(_means(steps, side.current)).all()
            or np.isnan(steps.logs(side.series.launches)).any()
        ):
            spread = side.unpaired()
            unknown[g] = Spread(side.share**2 * spread.variance, spread.df)
        else:
            source = _judge_of(side, sides, judged)
            pairs = side.pairs if source is None else judged[source]
            borne[g] = Borne(pairs, source, side.share)
    return AcceptanceColumns(judged, borne, unknown)


def _judge_of(side: Side, sides: Sequence[Side], judged: Mapping[int, Pairs]) -> int | None:
    """The acceptance column of the same arm and content: of several the one with most prompts."""
    facts = side.series.identity
    fitting = [
        g
        for g in judged
        if sides[g].key.arm == side.key.arm
        and all(sides[g].series.identity.get(name) == facts.get(name) for name in ALIKE)
    ]
    return max(fitting, key=lambda g: judged[g].base.shape[-1], default=None)


def _means(read: Read, sessions: Sequence[BaselineSession]) -> Array:
    return np.array([x for s in sessions for x in read.logs(s.launches)])


def _mean_of(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each prompt over the launches that answered it."""
    prompts = sorted({prompt for row in rows for prompt in row})
    return dict(zip(prompts, mean(aligned(rows, prompts), 0).tolist(), strict=True)) if prompts else {}


def _variance(logs: Array) -> float:
    known = logs[np.isfinite(logs)]
    return float(np.var(known, ddof=1) / len(known)) if len(known) > 1 else math.nan
