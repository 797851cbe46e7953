"""From a run and its baselines to verdicts: the same run gives the same verdicts today, offline, and in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TypeAlias

import msgspec
import numpy as np

from suite.gate import common
from suite.gate.accepted import same_texts
from suite.gate.baselines import Found
from suite.gate.beside import beside_baselines
from suite.gate.conclude import conclude
from suite.gate.decide import Decision
from suite.gate.explain import Explanation, word_of
from suite.gate.history import cumulative_drifts
from suite.gate.matrix import Matrix, build
from suite.gate.records import (
    Key,
    Launch,
    Scalar,
    Series,
    Session,
    check_session,
    differing,
    round_value,
)
from suite.gate.rules import MetricRule, Rules
from suite.gate.settle import launches_can_settle
from suite.gate.tails import JUDGED_WITH, judgeable
from suite.gate.two_builds import judge_two_builds
from suite.gate.values import bad_value, launch_log, set_aside, untrusted
from suite.gate.verdicts import Estimate, Judgement, Verdict, Word
from suite.sglang import config_diff
from suite.terminal.figures import percent

FIRST_LOOK_SHARE = 0.5

_Said: TypeAlias = tuple[int, Matrix, Decision]


def judge(session: Session, found: Found, rules: Rules | None = None) -> Judgement:
    """Judge a whole run. The looks already taken are replayed from the launches, in the order of the plan.

    Raises BadMeasurement for a session that contradicts itself; everything else has a verdict of its own.
    """
    check_session(session)
    book = rules or Rules()
    if session.reference is not None:
        return judge_two_builds(session.rounded(), book)
    session = beside_baselines(session.rounded(), found.baselines)
    case = _JudgedRun(session, found, book)
    verdicts = {key: verdict for key in case.gated if (verdict := case.without_statistics(key)) is not None}
    informational: dict[Key, Estimate] = {}
    comparable = {k: r for k, r in case.rules.items() if k not in verdicts and case.comparable(k)}
    looks = _looks_taken(session)
    notes: list[str] = []
    left = session.plan.look_launches[len(looks) :]
    hopeless: set[Key] = set()
    if comparable:
        matrix = build(comparable, case.series, found.baselines)
        decided, decision = _replay(matrix, session, looks)
        for g, key in enumerate(matrix.keys):
            look, then, said = decided[key]
            if comparable[key].gated:
                verdicts[key] = case.reading(then, said, g).verdict(look)
                if left and not launches_can_settle(then, said, g, left[-1]):
                    hopeless.add(key)
            else:
                informational[key] = case.reading(matrix, decision, g).estimate()
        notes = common.notes(matrix, decision)
    notes += _drift_notes(session, found, case.book)
    for key, rule in case.rules.items():
        if not rule.gated and key not in informational:
            informational[key] = case.alone(key)
    open_ = {key for key, verdict in verdicts.items() if verdict.word == "inconclusive"}
    undecided = {key[:2] for key in open_ - hopeless} if left else set()
    figures = Judgement(
        verdicts=dict(sorted(verdicts.items())),
        informational=dict(sorted(informational.items())),
        changes=case.changes(),
        undecided=sorted(undecided),
        extend=sorted({(question, s.arm) for question, _ in undecided for s in session.series}),
        next_launches=left[0] if left else None,
        notes=notes,
    )
    return conclude(session, figures, book)


def shares(looks: int) -> list[float]:
    """How the error rate is spent: half at the first look, the rest evenly; all of it if there is one look only."""
    return [1.0] if looks <= 1 else [FIRST_LOOK_SHARE, *[(1 - FIRST_LOOK_SHARE) / (looks - 1)] * (looks - 1)]


def _looks_taken(session: Session) -> list[int]:
    """Launches at each look that this run has already come to; at least one look, with whatever is there."""
    there = max((len(s.launches) for s in session.series), default=0)
    planned = session.plan.look_launches or [there]
    taken = [n for n in planned if n <= there]
    if not taken or (there > taken[-1] and len(taken) < len(planned)):
        taken.append(there)
    return taken


def _replay(matrix: Matrix, session: Session, looks: list[int]) -> tuple[dict[Key, _Said], Decision]:
    """For each metric the look that gave its verdict, with what was known then; and the last look's decision."""
    spend = shares(len(session.plan.look_launches))
    decided: dict[Key, _Said] = {}
    for number, launches in enumerate(looks, 1):
        then = matrix.first(launches)
        decision = then.decide(spend[min(number, len(spend)) - 1])
        for g, key in enumerate(matrix.keys):
            if key not in decided or word_of(decided[key][2], g) == "inconclusive":
                decided[key] = (number, then, decision)
    return decided, decision


@dataclass(frozen=True)
class _JudgedRun:
    """A run beside its baselines, with the rule of each of its metrics."""

    session: Session
    found: Found
    book: Rules

    @cached_property
    def series(self) -> dict[tuple[str, str], Series]:
        return {(s.question, s.arm): s for s in self.session.series}

    @cached_property
    def rules(self) -> dict[Key, MetricRule]:
        """The rule of every metric that has a value now, or had one in the baseline."""
        rules = {}
        for where, series in self.series.items():
            for name in {*_spoken_of(series.launches), *self.recorded(where)}:
                rule = self.book.of(name, series.arm)
                if rule is not None:
                    rules[Key(*where, name)] = self._as_asked(rule, series)
        return dict(sorted(rules.items()))

    def _as_asked(self, rule: MetricRule, series: Series) -> MetricRule:
        """A metric that a question is about is judged there unless suite.toml forbids it, another is not."""
        if not series.judged:
            return rule
        named = rule.name in series.judged or self._tail_asked(rule.name, series)
        asked = named and not self.book.switched_off(rule.name, series.arm)
        return msgspec.structs.replace(rule, gated=asked)

    def _tail_asked(self, name: str, series: Series) -> bool:
        """Whether a question is about the middle of this tail, and both sides have requests enough for it."""
        baseline = self.found.baselines.get((series.question, series.arm))
        if JUDGED_WITH.get(name) not in series.judged or baseline is None:
            return False
        old = [launch for s in baseline.sessions for launch in s.launches]
        return judgeable([*series.launches, *old], name)

    @cached_property
    def _recorded(self) -> dict[tuple[str, str], set[str]]:
        depth = {where: len(series.launches) for where, series in self.series.items()}
        return {
            where: set().union(*(_measured(s.launches[: depth[where] or None]) for s in baseline.sessions))
            for where, baseline in self.found.baselines.items()
            if where in depth
        }

    def recorded(self, where: tuple[str, str]) -> set[str]:
        """Metrics that the baseline of a series holds values of, in the launches that are compared."""
        return self._recorded.get(where, set())

    @property
    def gated(self) -> list[Key]:
        return [k for k, r in self.rules.items() if r.gated]

    def comparable(self, key: Key) -> bool:
        """Whether both sides hold values of this metric that may be compared."""
        series, baseline = self.series[key[:2]], self.found.baselines.get(key[:2])
        return (
            baseline is not None
            and untrusted(series) is None
            and bad_value(series, key.metric) is None
            and not differing(baseline.identity, series.identity)
            and key.metric in self.recorded(key[:2])
        )

    def without_statistics(self, key: Key) -> Verdict | None:
        """The verdict where there is nothing to compare, or where comparing would be wrong; else None."""
        series, baseline = self.series[key[:2]], self.found.baselines.get(key[:2])
        if key[:2] in self.found.problems:
            return self.plain(key, "invalid", f"baseline unusable: {self.found.problems[key[:2]]}", "")
        reason = untrusted(series) or bad_value(series, key.metric)
        if reason:
            return self.plain(key, "invalid", reason, "fix what disturbed it and run again")
        if baseline is None or key.metric not in self.recorded(key[:2]):
            what = self._no_baseline(key) if baseline is None else f"the baseline has no {key.metric}"
            record = f"record one: pytest -m perf --target {self.session.target} --record-baseline"
            return self.plain(key, "unjudged", what, record)
        differences = differing(baseline.identity, series.identity)
        if differences:
            what = "not comparable with the baseline: " + "; ".join(
                f"{name} {old!r} -> {new!r}" for name, (old, new) in differences.items()
            )
            needs = f"measure as the baseline was, or `python -m suite baseline drop {key.question}` and record again"
            return self.plain(key, "unjudged", what, needs)
        return None

    def _no_baseline(self, key: Key) -> str:
        elsewhere = self.found.asked_otherwise.get(key[:2])
        return f"no baseline of this workload; recorded with {elsewhere}" if elsewhere else "no baseline"

    def plain(self, key: Key, word: Word, reason: str, needs: str) -> Verdict:
        estimate = self.alone(key)
        value = "no value" if estimate.value is None else f"{estimate.value:.4g} {estimate.unit}"
        headline = f"{estimate.label} {value}: {word}, {reason}"
        return Verdict(*key, word, headline, reason, estimate, self.rules[key].margin, needs)

    def alone(self, key: Key) -> Estimate:
        """The value of a metric that is not compared with anything."""
        rule = self.rules[key]
        logs = [launch_log(launch, key.metric) for launch in self.series[key[:2]].launches]
        logs = [x for x in logs if not math.isnan(x)]
        if logs:
            return Estimate(rule.label, rule.unit, round_value(math.exp(np.mean(logs))))
        rounds = [r for launch in self.series[key[:2]].launches for r in launch.rounds.get(key.metric, [])]
        told = [v for v in rounds if v is not None]
        return Estimate(rule.label, rule.unit, round_value(float(np.mean(told))) if told else None)

    def reading(self, matrix: Matrix, decision: Decision, g: int) -> Explanation:
        """A column of a decision, ready to be put into words."""
        key = matrix.keys[g]
        return Explanation(
            matrix=matrix,
            decision=decision,
            g=g,
            rule=self.rules[key],
            baseline=self.found.baselines[key[:2]].current,
            changes=self._changes.get(key[:2], {}),
            aside=set_aside(self.series[key[:2]]),
            run_id=self.session.run_id,
            texts=self._same_texts(key[:2]),
            round_s=_seconds_of_a_round(self.series[key[:2]]),
        )

    def _same_texts(self, where: tuple[str, str]) -> tuple[int, int]:
        baseline = self.found.baselines[where]
        old = [
            launch for s in baseline.sessions if s.generation == baseline.generation for launch in s.launches
        ]
        return same_texts(old, self.series[where].launches)

    @cached_property
    def _changes(self) -> dict[tuple[str, str], dict[str, tuple[Scalar, Scalar]]]:
        return {
            where: found
            for where, baseline in self.found.baselines.items()
            if where in self.series
            and (found := config_diff.changed(baseline.current.subject, self.series[where].subject))
        }

    def changes(self) -> dict[tuple[str, str], str]:
        """What differs in the subject of each series: the change under test."""
        return {where: config_diff.told(found) for where, found in sorted(self._changes.items())}


def _spoken_of(launches: list[Launch]) -> set[str]:
    return {
        name
        for launch in launches
        for name, rounds in launch.rounds.items()
        if any(v is not None for v in rounds)
    }


def _measured(launches: list[Launch]) -> set[str]:
    return {n for launch in launches for n in launch.rounds if not math.isnan(launch_log(launch, n))}


def _drift_notes(session: Session, found: Found, book: Rules) -> list[str]:
    """Losses since the best promoted level: small ones add up without any verdict seeing them."""
    baselines = [found.baselines[where] for where in sorted(found.baselines)]
    return [
        f"cumulative drift: {', '.join(drift.key)} is {percent(drift.change)} from the best promoted level, of {drift.best_date}"
        for drift in cumulative_drifts(session, baselines, book)
    ]


def _seconds_of_a_round(series: Series) -> float:
    """How long a round of this question takes, by its tokens and its tokens/s; NaN where that is not known."""
    requests, tokens = (series.identity.get(name) for name in ("requests", "max_tokens"))
    rates = [v for launch in series.launches for v in launch.rounds.get("output_tokens_per_s", []) if v]
    if not isinstance(requests, int) or not isinstance(tokens, int) or not rates or series.derived_from:
        return math.nan
    return requests * tokens / median(rates)
