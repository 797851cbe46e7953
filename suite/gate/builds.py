"""Two builds measured in one interleaved session, as verdicts in words: go, no-go, better, inconclusive, invalid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from suite.gate.errors import BadMeasurement
from suite.gate.layout import Column, Layout
from suite.gate.records import Key, Series, differing
from suite.gate.rules import MetricRule, Rules
from suite.gate.shrink import t_quantile
from suite.gate.upgrade import Answer, Comparison, compare_builds
from suite.gate.values import bad_value, launch_log, untrusted
from suite.gate.verdicts import percent


class BuildVerdict(msgspec.Struct, frozen=True):
    """Candidate against reference in one gated metric. Changes are relative, + = a higher value.

    answer: `go` excludes a loss of twice the margin (95 %); `no-go` is a loss beyond margin and chance; `invalid`
    says in `headline` which measurement is not to be trusted.
    """

    question: str
    arm: str
    metric: str
    answer: Answer | str
    headline: str
    margin: float
    change: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    sdc: float | None = None


def judge_builds(
    reference: Sequence[Series],
    candidate: Sequence[Series],
    builds: str,
    rules: Rules | None = None,
    *,
    share: float = 1.0,
) -> list[BuildVerdict]:
    """Judge every gated metric that both builds measured, in order of question, arm and metric.

    reference, candidate: the same questions and arms, launches in the order in which they were started; builds: the
    order of all launches, `RCCRRCCR`; share: part of the error rate this look may spend (`upgrade.LOOK_SHARES`).
    Raises BadMeasurement if a series is missing, identities differ, or launches do not fit `builds`.
    """
    book = rules or Rules()
    pairs = _pairs(reference, candidate, builds)
    judged: dict[Key, MetricRule] = {}
    verdicts: dict[Key, BuildVerdict] = {}
    for (question, arm), (old, new) in pairs.items():
        for metric in sorted({*old.metrics} & {*new.metrics}):
            rule, key = book.of(metric, arm), Key(question, arm, metric)
            if rule is None or not rule.gated or (old.judged and metric not in old.judged):
                continue
            reason = next((r for s in (old, new) if (r := untrusted(s) or bad_value(s, metric))), None)
            if reason:
                verdicts[key] = BuildVerdict(*key, "invalid", f"{rule.label}: {reason}", rule.margin)
            else:
                judged[key] = rule
    if judged:
        verdicts |= _compared(judged, pairs, builds, share)
    return [verdicts[key] for key in sorted(verdicts)]


def _pairs(
    reference: Sequence[Series], candidate: Sequence[Series], builds: str
) -> dict[tuple[str, str], tuple[Series, Series]]:
    new = {(s.question, s.arm): s for s in candidate}
    pairs = {}
    for old in reference:
        where = (old.question, old.arm)
        text = f"{old.question}, arm {old.arm}"
        if where not in new:
            raise BadMeasurement(f"{text}: the candidate build has no such series")
        differences = differing(old.identity, new[where].identity)
        if differences:
            raise BadMeasurement(f"{text}: the builds were not measured alike: {differences}")
        for name, series, letter in (("reference", old, "R"), ("candidate", new[where], "C")):
            if len(series.launches) != builds.count(letter):
                raise BadMeasurement(
                    f"{text}: {len(series.launches)} launches of the {name}, {builds.count(letter)} in {builds}"
                )
        pairs[where] = (old, new[where])
    return pairs


def _compared(
    judged: dict[Key, MetricRule],
    pairs: dict[tuple[str, str], tuple[Series, Series]],
    builds: str,
    share: float,
) -> dict[Key, BuildVerdict]:
    values = np.empty((1, len(builds), len(judged)))
    for g, (key, rule) in enumerate(judged.items()):
        for letter, series in zip("RC", pairs[key[:2]], strict=True):
            logs = [rule.sign * launch_log(launch, key.metric) for launch in series.launches]
            values[0, [b == letter for b in builds], g] = logs
    columns = [Column(k.question, k.arm, r.kind, True, r.margin) for k, r in judged.items()]
    result = compare_builds(values, builds, Layout(tuple(columns)), share=share)
    return {key: _verdict(key, rule, result, g) for g, (key, rule) in enumerate(judged.items())}


def _verdict(key: Key, rule: MetricRule, result: Comparison, g: int) -> BuildVerdict:
    centre, half = float(result.change[0, g]), float((t_quantile(0.975, result.df) * result.se)[0, g])
    change, *ends = (math.expm1(rule.sign * x) for x in (centre, centre - half, centre + half))
    answer = result.answer(g)
    interval = f"95 % CI {100 * min(ends):+.1f}..{100 * max(ends):+.1f}, margin {100 * rule.margin:g} %"
    return BuildVerdict(
        *key,
        answer,
        f"{rule.label} {percent(change)} ({interval}): {answer}",
        rule.margin,
        change,
        min(ends),
        max(ends),
        float(np.expm1(result.sdc[0, g])),
    )
