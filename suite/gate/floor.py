"""An arm against itself: the noise of this machine, and the minimum detectable effect of this budget on it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from suite.gate.baselines import Baseline, BaselineSession
from suite.gate.matrix import build
from suite.gate.precision import TRAJECTORY_TOKENS, foreseen
from suite.gate.records import Key, Launch, Series, Session
from suite.gate.rules import MetricRule, Rules
from suite.gate.values import bad_value, launch_log, round_logs, untrusted


@dataclass(frozen=True)
class NoiseFloor:
    """Of one gated metric; all relative (0.01 = 1 %). None: too little was measured to say.

    round_cv: standard deviation of rounds in a launch; launch_sd: of launch values in the session;
    sdc_one_session, sdc_five_sessions (of acceptance: against another build, as builds usually differ): minimum detectable effect at 90 % power of this budget, on one recorded
    baseline session (with the stated prior) and on five that differ no more than launches of this session do.
    """

    key: Key
    value: float
    unit: str
    round_cv: float | None
    launch_sd: float | None
    sdc_one_session: float
    sdc_five_sessions: float


def noise_floor(session: Session, rules: Rules | None = None) -> list[NoiseFloor]:
    """What can be seen on this machine with as many launches and rounds as `session` has; no baseline is needed."""
    book, plain = rules or Rules(), session.rounded()
    series = {(s.question, s.arm): s for s in plain.series if s.launches and untrusted(s) is None}
    judged: dict[Key, MetricRule] = {}
    for where, one in series.items():
        for metric in one.metrics:
            rule = book.of(metric, one.arm)
            if rule is not None and bad_value(one, metric) is None:
                asked = not one.judged or metric in one.judged
                judged[Key(*where, metric)] = rule if asked else msgspec.structs.replace(rule, gated=False)
    if not judged:
        return []
    one_session, five = (_smallest(judged, series, plain, copies) for copies in (1, 5))
    return [
        NoiseFloor(
            key=key,
            value=math.exp(
                float(np.mean([launch_log(launch, key.metric) for launch in series[key[:2]].launches]))
            ),
            unit=rule.unit,
            round_cv=_round_cv(series[key[:2]], key.metric),
            launch_sd=_launch_sd(series[key[:2]], key.metric),
            sdc_one_session=one_session[key],
            sdc_five_sessions=five[key],
        )
        for key, rule in judged.items()
        if rule.gated
    ]


def _smallest(
    judged: dict[Key, MetricRule], series: dict[tuple[str, str], Series], session: Session, copies: int
) -> dict[Key, float]:
    """The smallest detectable change if the baseline were this session, `copies` times."""
    baselines = {
        where: Baseline(
            one.question,
            one.arm,
            one.identity,
            [
                BaselineSession(f"copy{i}", session.started_at, one.subject, _rotated(one.launches, i))
                for i in range(copies)
            ],
        )
        for where, one in series.items()
    }
    matrix = build(judged, series, baselines)
    decision = matrix.decide()
    smallest = {key: float(np.expm1(decision.sdc[0, g])) for g, key in enumerate(matrix.keys)}
    tests = sum(rule.gated for rule in judged.values())
    for g, pairs in matrix.acceptance.judged.items():
        key = matrix.keys[g]
        # this arm gives the same answers again, another build does not: what usual builds differ by counts
        other = foreseen(int(pairs.number[0]), _tokens(series[key[:2]]), tests, margin=judged[key].margin)
        smallest[key] = max(smallest[key], min(other, 1.0))
    return smallest


def _tokens(series: Series) -> int:
    """The mean length of the answers; where it is not kept, that for which the usual spread is stated."""
    told = [n for launch in series.launches if launch.answers is not None for n in launch.answers.tokens]
    return round(float(np.mean(told))) if told else TRAJECTORY_TOKENS


def _rotated(launches: list[Launch], by: int) -> list[Launch]:
    """The same launches at other positions: copies in one order would look like a pattern, not like noise."""
    cut = by % len(launches)
    return launches[cut:] + launches[:cut]


def _round_cv(series: Series, metric: str) -> float | None:
    inside = [
        logs[np.isfinite(logs)] for launch in series.launches if len(logs := round_logs(launch, metric))
    ]
    variances = [float(np.var(logs, ddof=1)) for logs in inside if len(logs) > 1]
    return math.sqrt(float(np.mean(variances))) if variances else None


def _launch_sd(series: Series, metric: str) -> float | None:
    logs = [launch_log(launch, metric) for launch in series.launches]
    return float(np.std(logs, ddof=1)) if len(logs) > 1 else None
