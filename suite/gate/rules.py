"""Which metrics are judged, in which direction, and how much change matters in practice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from suite.config import Target
from suite.gate.duet import LAUNCH_SD
from suite.gate.errors import GateError
from suite.metrics.registry import MARGIN, METRICS, Better, Kind, near


class MetricRule(msgspec.Struct, frozen=True):
    """How one metric is judged. `margin`: relative change below which nobody would act (0.02 = 2 %)."""

    name: str
    label: str
    unit: str
    better: Better
    kind: Kind
    gated: bool = False
    margin: float = MARGIN

    @property
    def sign(self) -> float:
        """+1 where a higher value is worse."""
        return 1.0 if self.better == "lower" else -1.0


DEFAULT_RULES: tuple[MetricRule, ...] = tuple(
    MetricRule(m.name, m.label, m.unit, m.better, m.kind, m.gated, m.margin) for m in METRICS.values()
)
"""The registry as the gate reads it."""


class Rules:
    """The rule of every metric, with overrides by arm. Later overrides win; an arm's win over the metric's.

    metrics: {"ttft_s": {"margin": 0.05, "gated": False}, ...}; arms: {"mtp-on": {"ttft_s": {...}}, ...}.
    Overrides may set any field but the name. duet_launch_sd: what launches of one build are said to differ by
    where both builds are asked in turn (SD of the log).
    Raises GateError for an unknown metric or field, or a value that cannot be, and names where.
    """

    def __init__(
        self,
        rules: Iterable[MetricRule] = DEFAULT_RULES,
        *,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        arms: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        duet_launch_sd: float = LAUNCH_SD,
    ) -> None:
        self.duet_launch_sd = duet_launch_sd
        self._rules = {rule.name: rule for rule in rules}
        for name, changes in (metrics or {}).items():
            self._rules[name] = _changed(self._rules.get(name), name, changes, "gate.metrics")
        self._of_arm: dict[tuple[str, str], MetricRule] = {}
        self._off = {name for name, changes in (metrics or {}).items() if changes.get("gated") is False}
        self._off_in_arm: dict[tuple[str, str], bool] = {}
        for arm, by_metric in (arms or {}).items():
            for name, changes in by_metric.items():
                rule = _changed(self._rules.get(name), name, changes, f"gate.arms.{arm}")
                self._of_arm[arm, name] = rule
                if "gated" in changes:
                    self._off_in_arm[arm, name] = changes["gated"] is False

    @classmethod
    def of_target(cls, target: Target) -> Rules:
        """The rules of a target: the registry's, changed as its ``gate`` table says."""
        gate = target.gate
        return cls(
            metrics={name: change.model_dump(exclude_none=True) for name, change in gate.metrics.items()},
            arms={
                arm: {name: change.model_dump(exclude_none=True) for name, change in changes.items()}
                for arm, changes in gate.arms.items()
            },
            duet_launch_sd=gate.duet_launch_sd or LAUNCH_SD,
        )

    def of(self, metric: str, arm: str) -> MetricRule | None:
        """The rule for this metric in this arm; None for a metric that is not in the registry."""
        return self._of_arm.get((arm, metric)) or self._rules.get(metric)

    def switched_off(self, metric: str, arm: str) -> bool:
        """Whether suite.toml says that this metric is not to be judged in this arm, whoever asks."""
        return self._off_in_arm.get((arm, metric), metric in self._off)


def _changed(rule: MetricRule | None, name: str, changes: Mapping[str, Any], table: str) -> MetricRule:
    if rule is None:
        raise GateError(f"[{table}.{name}]: no metric {name!r}; {near(name)}")
    fields = [f for f in MetricRule.__struct_fields__ if f != "name"]
    for field in changes:
        if field not in fields:
            close = difflib.get_close_matches(field, fields, 1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(fields)}"
            raise GateError(f"[{table}.{name}] has no setting {field!r}{hint}")
    whole = msgspec.to_builtins(rule) | dict(changes)
    try:
        result = msgspec.convert(whole, MetricRule)
    except msgspec.ValidationError as error:
        raise GateError(f"[{table}.{name}]: {error}") from None
    if not 0 < result.margin < 1:
        raise GateError(
            f"[{table}.{name}] margin = {result.margin}: a relative change, between 0 and 1 (0.02 is 2 %)"
        )
    if result.gated and result.better == "neutral":
        raise GateError(
            f"[{table}.{name}] gated = true: {result.label} is neither good nor bad when it moves"
        )
    return result
