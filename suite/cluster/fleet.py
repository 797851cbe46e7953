"""Boxes of one kind and one build side by side: which figures of which box stand apart from those of the others.

A figure of a box is compared with the median of that figure over all boxes. It stands apart if it is further from it than
the metric's margin, and by more than chance brings about (Holm's procedure over all figures of all boxes).
What chance does is told by the launches, or by the rounds where there is one launch, and by how far two sessions of one
box differ at best (:data:`suite.gate.deltas.OWN_PRIOR`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from suite.gate import Facts, GateError, Key, Launch, Rules, Series, Session
from suite.gate.deltas import OWN_PRIOR
from suite.gate.layout import control_cost
from suite.gate.records import differing
from suite.gate.robust import Array, holm, t_tail
from suite.gate.rules import MetricRule
from suite.gate.values import launch_log, launch_variance, untrusted

ALPHA = 0.01
"""Chance of naming any box of a fleet of equal ones."""
FEWEST = 3
"""Of two boxes that differ nobody can say which is the odd one."""
BUILD = ("sglang", "commit", "code", "changed_files", "image", "image_digest", "flags")
"""Facts of a subject that make a build: they must be the same on all boxes. All others may tell boxes apart."""
OF_A_BOX = ("host", "gpu_uuids", "gpu_bus")
"""Facts of an identity that are a box's own."""


@dataclass(frozen=True, slots=True)
class Box:
    """A box and what was measured on it. facts: what it is, by name."""

    name: str
    facts: Facts
    sessions: list[Session]


@dataclass(frozen=True, slots=True)
class FleetFigure:
    """One figure of all boxes that have it. ``None``: that box has not.

    values: in SI units; change: relative to the median of all boxes; apart: does it stand apart, and beyond chance.
    """

    key: Key
    rule: MetricRule
    values: list[float | None]
    change: list[float | None]
    apart: list[bool]

    def worse(self, box: int) -> bool:
        """Is a box worse than the median here, by however little?"""
        change = self.change[box]
        return change is not None and change * self.rule.sign > 0


@dataclass(frozen=True, slots=True)
class Fleet:
    """Boxes compared. left_out: figures that are not comparable, and why; differing: facts that not all boxes share."""

    boxes: list[Box]
    figures: list[FleetFigure]
    left_out: list[str]
    differing: dict[str, list[str]]

    def apart(self, box: int) -> list[FleetFigure]:
        """The figures in which a box stands apart."""
        return [figure for figure in self.figures if figure.apart[box]]

    @property
    def odd(self) -> list[int]:
        """The boxes that stand apart, by place: most figures first."""
        found = [box for box in range(len(self.boxes)) if self.apart(box)]
        return sorted(found, key=lambda box: -len(self.apart(box)))

    def own(self, box: int) -> dict[str, tuple[str, str]]:
        """Facts in which a box differs from what most of the others have: (its, theirs)."""
        found = {}
        for name, values in self.differing.items():
            others = [value for place, value in enumerate(values) if place != box]
            usual = max(sorted(set(others)), key=others.count)
            if values[box] != usual and others.count(usual) * 2 > len(others):
                found[name] = (values[box], usual)
        return found


def compare(boxes: Sequence[Box], rules: Rules) -> Fleet:
    """Hold every figure of every box to its median over all boxes.

    Raises:
        GateError: the boxes are not of one target and build, or a name is there twice.
    """
    _one_fleet(boxes)
    keys, left_out = _comparable(boxes, rules)
    measured = {key: [_measured(box, key) for box in boxes] for key in keys}
    tested = {key: _tested(measured[key], rule) for key, rule in keys.items()}
    p = np.array([row for _, row in tested.values()]) if tested else np.empty((0, len(boxes)))
    apart = holm(p.reshape(1, -1), ALPHA).reshape(p.shape) if p.size else p.astype(bool)
    figures = [
        FleetFigure(
            key,
            rule,
            [math.exp(one.log) if one is not None else None for one in measured[key]],
            [None if math.isnan(d) else math.expm1(rule.sign * d) for d in tested[key][0]],
            [bool(one) for one in apart[place]],
        )
        for place, (key, rule) in enumerate(keys.items())
    ]
    return Fleet(list(boxes), figures, left_out, _differing(boxes))


def _one_fleet(boxes: Sequence[Box]) -> None:
    names = [box.name for box in boxes]
    if twice := {name for name in names if names.count(name) > 1}:
        raise GateError(f"two boxes are called {', '.join(sorted(twice))}; name them: NAME=RUN")
    targets = {session.target for box in boxes for session in box.sessions}
    if len(targets) > 1:
        raise GateError(f"a fleet is of one target; these runs are of {', '.join(sorted(targets))}")
    for box in boxes[1:]:
        found = differing(_build(boxes[0]), _build(box))
        if found:
            told = "; ".join(f"{name} {old!r}, {new!r}" for name, (old, new) in found.items())
            raise GateError(f"{boxes[0].name} and {box.name} do not run the same build: {told}")


def _build(box: Box) -> Facts:
    facts: Facts = {}
    for series in _series(box):
        for name in BUILD:
            if name in series.subject and not series.derived_from:
                facts[name if name != "flags" else f"flags of {series.arm}"] = series.subject[name]
    return facts


def _series(box: Box) -> list[Series]:
    return [series for session in box.sessions for series in session.series]


def _comparable(boxes: Sequence[Box], rules: Rules) -> tuple[dict[Key, MetricRule], list[str]]:
    """The figures that at least two boxes have, asked alike; and those that are left out, with the reason."""
    found: dict[Key, MetricRule] = {}
    left_out: list[str] = []
    identities: dict[tuple[str, str], tuple[str, Facts]] = {}
    for box in boxes:
        for series in _series(box):
            where = (series.question, series.arm)
            own = {name: value for name, value in series.identity.items() if name not in OF_A_BOX}
            first, known = identities.setdefault(where, (box.name, own))
            if changed := differing(known, own):
                told = ", ".join(f"{name} {old!r}, {new!r}" for name, (old, new) in changed.items())
                left_out.append(f"{', '.join(where)}: measured otherwise on {first} and {box.name}: {told}")
                continue
            if (reason := untrusted(series)) is not None:
                left_out.append(f"{', '.join(where)}, {box.name}: {reason}")
                continue
            for metric in series.metrics:
                rule = rules.of(metric, series.arm)
                if rule is not None and _is_asked(rule, series):
                    found[Key(*where, metric)] = rule
    bad = {line.partition(": measured otherwise")[0] for line in left_out if ": measured otherwise" in line}
    kept = {key: rule for key, rule in sorted(found.items()) if ", ".join(key[:2]) not in bad}
    return kept, list(dict.fromkeys(left_out))


def _is_asked(rule: MetricRule, series: Series) -> bool:
    return rule.name in series.judged if series.judged else rule.gated


@dataclass(frozen=True, slots=True)
class _Measured:
    """ln of a figure on one box, its variance, and the degrees of freedom that is worth."""

    log: float
    variance: float
    df: float


def _measured(box: Box, key: Key) -> _Measured | None:
    launches = [
        launch
        for series in _series(box)
        if (series.question, series.arm) == key[:2] and untrusted(series) is None
        for launch in series.launches
        if not math.isnan(launch_log(launch, key.metric))
    ]
    if not launches:
        return None
    logs = np.array([launch_log(launch, key.metric) for launch in launches])
    variance, df = _variance(launches, logs, key.metric)
    return _Measured(float(logs.mean()), variance, df)


def _variance(launches: Sequence[Launch], logs: Array, metric: str) -> tuple[float, float]:
    """Of the mean of the launches: by themselves, or of a single one by its rounds."""
    if len(launches) > 1:
        return float(np.var(logs, ddof=1)) / len(launches), len(launches) - 1.0
    own = launch_variance(launches[0], metric)
    return (0.0, 1.0) if math.isnan(own) else (own, max(len(launches[0].rounds.get(metric, [])) - 1.0, 1.0))


def _tested(measured: Sequence[_Measured | None], rule: MetricRule) -> tuple[Array, Array]:
    """Of each box: how far it is from the median (log, + = worse), and p of being beyond the margin."""
    apart, p = np.full(len(measured), np.nan), np.full(len(measured), np.nan)
    there = [one for one in measured if one is not None]
    if len(there) < 2:
        return apart, p
    variance = float(np.mean([one.variance for one in there])) + OWN_PRIOR**2
    df = float(sum(one.df for one in there))
    cost = float(
        control_cost(np.array([float(len(there))]))[0]
    )  # a box's own part in the median makes it less
    middle = float(np.median([one.log for one in there]))
    for place, one in enumerate(measured):
        if one is None:
            continue
        apart[place] = rule.sign * (one.log - middle)
        beyond = abs(apart[place]) - math.log1p(rule.margin)
        p[place] = min(1.0, 2 * float(t_tail(np.array(beyond / math.sqrt(cost * variance)), np.array(df))))
    return apart, p if len(there) >= FEWEST else np.full(len(measured), np.nan)


def _differing(boxes: Sequence[Box]) -> dict[str, list[str]]:
    """Facts that not all boxes have alike, by name: the value on each box."""
    told = [_facts(box) for box in boxes]
    names = dict.fromkeys(name for facts in told for name in facts)
    values = {name: [_text(facts.get(name)) for facts in told] for name in names if name not in OF_A_BOX}
    return {name: row for name, row in values.items() if len(set(row)) > 1}


def _facts(box: Box) -> Mapping[str, object]:
    """What a box is, and what its servers resolved, beside what makes the build."""
    subject: dict[str, object] = {}
    for series in _series(box):
        if not series.derived_from:
            subject |= {
                name if name in ("driver", "power_limit_w") else f"{name} ({series.arm})": value
                for name, value in series.subject.items()
                if name not in BUILD
            }
    return {**subject, **box.facts}


def _text(value: object) -> str:
    return "-" if value is None else str(value)
