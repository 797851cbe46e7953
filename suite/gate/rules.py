"""Which metrics are judged, in which direction, and how much change matters in practice."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from suite.gate.errors import GateError

Better: TypeAlias = Literal["higher", "lower"]
Kind: TypeAlias = Literal["decode", "latency", "count", "ratio"]
"""What moves a metric. `decode` and `latency` follow the speed of the machine of that day, so the other arms of
the same session tell that speed; `count` (tokens a step, cache hits) and `ratio` (of two arms of one session)
do not."""

MARGIN = 0.02


class MetricRule(msgspec.Struct, frozen=True):
    """How one metric is judged. `margin`: relative change below which nobody would act (0.02 = 2 %)."""

    name: str
    label: str
    unit: str
    better: Better
    kind: Kind
    gated: bool = False
    margin: float = MARGIN


DEFAULT_RULES: tuple[MetricRule, ...] = (
    MetricRule("output_tokens_per_s", "output tokens/s", "tokens/s", "higher", "decode", gated=True),
    MetricRule("tpot_s", "TPOT", "s", "lower", "decode", gated=True),
    MetricRule("ttft_s", "TTFT", "s", "lower", "latency", gated=True),
    MetricRule("acceptance_length", "acceptance length", "tokens/step", "higher", "count", gated=True),
    MetricRule("mtp_speedup", "MTP speed-up", "x", "higher", "ratio", gated=True),
    MetricRule("round_s", "time of a round", "s", "lower", "decode", gated=True),
    MetricRule("total_tokens_per_s", "total tokens/s", "tokens/s", "higher", "decode"),
    MetricRule("requests_per_s", "requests/s", "requests/s", "higher", "decode"),
    MetricRule("goodput_requests_per_s", "goodput", "requests/s", "higher", "decode"),
    MetricRule("itl_s", "inter-chunk latency", "s", "lower", "decode"),
    MetricRule("step_s", "step time", "s", "lower", "decode"),
    MetricRule("e2e_s", "request latency", "s", "lower", "decode"),
    MetricRule("tokens_per_chunk", "tokens a chunk", "tokens/chunk", "higher", "count"),
    MetricRule("concurrency_achieved", "concurrency", "requests", "higher", "count"),
    MetricRule("cached_prompt_tokens", "cached prompt tokens", "tokens", "lower", "count"),
)


class Rules:
    """The rule of every metric, with overrides by arm. Later overrides win; an arm's win over the metric's.

    metrics: {"ttft_s": {"margin": 0.05, "gated": False}, ...}; arms: {"mtp-on": {"ttft_s": {...}}, ...}.
    Overrides may set any field but the name; a metric that is not known needs unit, better and kind.
    Raises GateError for an unknown field or a value of the wrong type, and names where.
    """

    def __init__(
        self,
        rules: Iterable[MetricRule] = DEFAULT_RULES,
        *,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        arms: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
    ) -> None:
        self._rules = {rule.name: rule for rule in rules}
        for name, changes in (metrics or {}).items():
            self._rules[name] = _changed(self._rules.get(name), name, changes, "gate.metrics")
        self._of_arm: dict[tuple[str, str], MetricRule] = {}
        for arm, by_metric in (arms or {}).items():
            for name, changes in by_metric.items():
                rule = _changed(self._rules.get(name), name, changes, f"gate.arms.{arm}")
                self._of_arm[arm, name] = rule

    def of(self, metric: str, arm: str) -> MetricRule | None:
        """The rule for this metric in this arm; None for a metric that nobody declared."""
        return self._of_arm.get((arm, metric)) or self._rules.get(metric)


def _changed(rule: MetricRule | None, name: str, changes: Mapping[str, Any], table: str) -> MetricRule:
    fields = [f for f in MetricRule.__struct_fields__ if f != "name"]
    for field in changes:
        if field not in fields:
            near = difflib.get_close_matches(field, fields, 1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(fields)}"
            raise GateError(f"[{table}.{name}] has no setting {field!r}{hint}")
    whole = {"name": name, "label": name} | (msgspec.to_builtins(rule) if rule else {}) | dict(changes)
    try:
        result = msgspec.convert(whole, MetricRule)
    except msgspec.ValidationError as error:
        raise GateError(f"[{table}.{name}]: {error}") from None
    if not 0 < result.margin < 1:
        raise GateError(
            f"[{table}.{name}] margin = {result.margin}: a relative change, between 0 and 1 (0.02 is 2 %)"
        )
    return result
