"""Two builds measured in one interleaved session, as verdicts in words: go, no-go, better, inconclusive, invalid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from suite.gate.accepted import step_rounds
from suite.gate.baselines import Baseline, BaselineSession
from suite.gate.duet import Rounds, beside, pairs_of
from suite.gate.errors import BadMeasurement
from suite.gate.layout import Column, Layout
from suite.gate.paired import Borne, added
from suite.gate.records import Key, Launch, Series, differing
from suite.gate.robust import Array
from suite.gate.rules import MetricRule, Rules
from suite.gate.sides import Side, acceptance_of
from suite.gate.spread import Spread
from suite.gate.upgrade import Answer, Comparison, compare_builds, compare_pairs
from suite.gate.values import bad_value, round_logs, untrusted
from suite.gate.verdicts import Factor
from suite.terminal.figures import interval, percent


class BuildVerdict(msgspec.Struct, frozen=True):
    """Candidate against reference in one gated metric. Changes are relative, + = a higher value.

    answer: `go` excludes a loss of twice the margin (95 %); `no-go` is a loss beyond margin and chance; `invalid`
    says in `headline` which measurement is not to be trusted. factors: of a speed with speculation on, what steps and
    what acceptance did to it.
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
    factors: list[Factor] = []


def judge_builds(
    reference: Sequence[Series],
    candidate: Sequence[Series],
    builds: str,
    rules: Rules | None = None,
    *,
    share: float = 1.0,
    in_turn: bool = False,
) -> list[BuildVerdict]:
    """Judge every gated metric that both builds measured, in order of question, arm and metric.

    reference, candidate: the same questions and arms, launches in the order in which they were started; builds: the
    order of all launches, `RCCRRCCR`; share: part of the error rate this look may spend (`upgrade.LOOK_SHARES`).
    in_turn: both were up at once and asked in turn (a duet): their rounds are judged as pairs.
    Raises BadMeasurement if a series is missing, identities differ, or launches do not fit `builds`.
    """
    book = rules or Rules()
    pairs = _pairs(reference, candidate, builds)
    judged: dict[Key, MetricRule] = {}
    verdicts: dict[Key, BuildVerdict] = {}
    for (question, arm), (old, new) in pairs.items():
        for metric in sorted({*old.metrics} & {*new.metrics}):
            rule, key = book.of(metric, arm), Key(question, arm, metric)
            if rule is None or not is_judged(rule, new, book):
                continue
            reason = next((r for s in (old, new) if (r := untrusted(s) or bad_value(s, metric))), None)
            if reason:
                verdicts[key] = BuildVerdict(*key, "invalid", f"{rule.label}: {reason}", rule.margin)
            else:
                judged[key] = rule
    if judged:
        launch_sd = book.duet_launch_sd if in_turn else None
        verdicts |= _compared(judged, pairs, builds, share, launch_sd)
    return [verdicts[key] for key in sorted(verdicts)]


def is_judged(rule: MetricRule, series: Series, book: Rules) -> bool:
    """Whether a metric is judged in a series: where it is asked about, else by its rule, unless it is switched off."""
    asked = rule.name in series.judged if series.judged else rule.gated
    return asked and not book.switched_off(rule.name, series.arm)


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
    launch_sd: float | None,
) -> dict[Key, BuildVerdict]:
    """launch_sd: of a duet, what launches are said to differ by; None where launches were made in turn."""
    sides = [_side(key, rule, *pairs[key[:2]]) for key, rule in judged.items()]
    acceptance = acceptance_of(sides)
    columns = [Column(k.question, k.arm, r.kind, True, r.margin) for k, r in judged.items()]
    layout = Layout(tuple(columns))
    if launch_sd is not None:
        told = [
            pairs_of(
                rounds_of(key.metric, rule.sign, pairs[key[:2]], acceptance.borne.get(g)),
                arms=len(pairs[key[:2]][1].derived_from) or 1,
                launch_sd=launch_sd,
            )
            for g, (key, rule) in enumerate(judged.items())
        ]
        result = compare_pairs(beside(told), layout, share=share, acceptance=acceptance)
        return {key: _verdict(key, rule, result, g) for g, (key, rule) in enumerate(judged.items())}
    values = np.empty((1, len(builds), len(judged)))
    for g, side in enumerate(sides):
        borne = acceptance.borne.get(g)
        read = side.raw if borne is None else side.steps(borne.share)
        for letter, series in zip("RC", pairs[side.key[:2]], strict=True):
            values[0, [b == letter for b in builds], g] = read.logs(series.launches)
    result = compare_builds(values, builds, layout, share=share, acceptance=acceptance)
    return {key: _verdict(key, rule, result, g) for g, (key, rule) in enumerate(judged.items())}


def rounds_of(metric: str, sign: float, sides: tuple[Series, Series], borne: Borne | None = None) -> Rounds:
    """The rounds of one figure of both builds, signed logs; at one token a step where acceptance bears on it."""

    def logs(launch: Launch) -> Array:
        return sign * (
            round_logs(launch, metric) if borne is None else step_rounds(launch, metric, borne.share)
        )

    old, new = ([logs(launch) for launch in series.launches] for series in sides)
    return Rounds(old, new)


def _side(key: Key, rule: MetricRule, reference: Series, candidate: Series) -> Side:
    """The candidate beside the reference, which stands where a recorded session stands."""
    session = BaselineSession("reference", "", reference.subject, reference.launches)
    return Side(key, rule, candidate, Baseline(key.question, key.arm, reference.identity, [session]))


def _verdict(key: Key, rule: MetricRule, result: Comparison, g: int) -> BuildVerdict:
    parts = [(result.change, result.se, result.df), (result.accepted, result.accepted_se, result.accepted_df)]
    steps, accepted = (Spread(se[:, g] ** 2, df[:, g]) for _, se, df in parts)
    whole = result.change[:, g] + result.accepted[:, g]
    change, low, high = _interval(rule, whole, added(steps, accepted))
    factors = []
    if result.accepted_se[0, g] > 0:
        factors = [
            Factor("steps", *_interval(rule, result.change[:, g], steps)),
            Factor("acceptance", *_interval(rule, result.accepted[:, g], accepted)),
        ]
    answer = result.answer(g)
    within = f"95 % CI {interval(low, high)}, margin {100 * rule.margin:g} %"
    return BuildVerdict(
        *key,
        answer,
        f"{rule.label} {percent(change)} ({within}): {answer}",
        rule.margin,
        change,
        low,
        high,
        float(np.expm1(result.sdc[0, g])),
        factors,
    )


def _interval(rule: MetricRule, centre: Array, spread: Spread) -> tuple[float, float, float]:
    """Change and 95 % interval of a value, relative."""
    half = float(spread.bound(0.975)[0])
    change, *ends = (
        math.expm1(rule.sign * x) for x in (float(centre[0]), centre[0] - half, centre[0] + half)
    )
    return change, min(ends), max(ends)
