"""One round to every metric of the registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from suite.load.records import Round
from suite.metrics.formulas import FormulaInput
from suite.metrics.registry import METRICS
from suite.metrics.requests import SLO


@dataclass(frozen=True, slots=True)
class Value:
    """One metric of one round. `value` is None exactly when `reason` says why there is none; never a stand-in 0 or 1."""

    value: float | None
    unit: str
    reason: str | None = None
    detail: Mapping[str, float] = field(default_factory=dict)
    values: tuple[float, ...] = ()


def summarize(round_: Round, slo: SLO | None = None, speculative: bool | None = None) -> dict[str, Value]:
    """Every metric of a round by name; latencies are medians, with `.mean`, `.p90`, `.p95`, `.p99` beside them.

    Only good requests are averaged. `speculative` says whether MTP is known to be on or off, where it is known;
    without it `step_s` needs acceptance to be reported.
    """
    played = FormulaInput(round_, round_.ok, slo, speculative)
    return {name: value for metric in METRICS for name, value in _values(metric, played)}


def _values(name: str, played: FormulaInput) -> Iterator[tuple[str, Value]]:
    metric = METRICS[name]
    if metric.compute is None:
        return
    figure = metric.compute(played)
    yield name, Value(figure.value, metric.unit, figure.reason, figure.detail, figure.values)
    for tail, value in figure.tails.items():
        yield f"{name}.{tail}", Value(value, metric.unit, figure.reason if value is None else None)


def speedup(on: Round, off: Round) -> Value:
    """`mtp_speedup`: output tokens/s with MTP over without, of two rounds of the same workload."""
    unit = METRICS["mtp_speedup"].unit
    fast, slow = (summarize(r)["output_tokens_per_s"] for r in (on, off))
    if fast.value is None or not slow.value:
        return Value(None, unit, f"one arm has no throughput: {fast.reason or slow.reason}")
    return Value(fast.value / slow.value, unit, detail={"on": fast.value, "off": slow.value})
