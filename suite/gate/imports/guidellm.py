"""JSON report of GuideLLM (`benchmarks.json`, report version 2, of GuideLLM 0.8.1): one entry a benchmark, a round here.

Figures are of successful requests: throughputs the mean, latencies the median.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from suite.gate.imports.entries import MS, ImportedRound, number, picked, table

VERSIONS = (2,)
MEASURED = {
    "output_tokens_per_second": ("output_tokens_per_s", "mean", 1.0),
    "tokens_per_second": ("total_tokens_per_s", "mean", 1.0),
    "requests_per_second": ("requests_per_s", "mean", 1.0),
    "request_concurrency": ("concurrency_achieved", "mean", 1.0),
    "time_to_first_token_ms": ("ttft_s", "median", MS),
    "inter_token_latency_ms": ("tpot_s", "median", MS),
    "request_latency": ("e2e_s", "median", 1.0),
}
"""GuideLLM's `inter_token_latency_ms` leaves the first token out, as TPOT does here; its `time_per_output_token_ms`
counts the time to the first token in."""


def matches(data: Mapping[str, Any]) -> bool:
    """Whether the file names GuideLLM in its metadata."""
    return "benchmarks" in data and "guidellm_version" in table(data.get("metadata"))


def newer(data: Mapping[str, Any]) -> str | None:
    """The report version, if it is one that this reader does not know."""
    version = table(data.get("metadata")).get("version")
    return None if version in VERSIONS else str(version)


def read(data: Mapping[str, Any]) -> list[ImportedRound]:
    """One entry a benchmark of the report; its strategy is the workload."""
    metadata = table(data.get("metadata"))
    return [
        _entry(table(one), picked(metadata, {"guidellm_version": "guidellm"})) for one in data["benchmarks"]
    ]


def _entry(one: Mapping[str, Any], subject: Any) -> ImportedRound:
    metrics, strategy = table(one.get("metrics")), table(table(one.get("config")).get("strategy"))
    size = strategy.get("streams") or strategy.get("rate") or strategy.get("max_concurrency")
    load = f"{strategy.get('type_') or 'unknown'}" + (f" {size:g}" if number(size) is not None else "")
    started = number(one.get("start_time"))
    totals = table(metrics.get("request_totals"))
    errored = number(totals.get("errored"))
    return ImportedRound(
        workload=f"guidellm[{load}]",
        values={
            ours: number(table(table(metrics.get(tag)).get("successful")).get(stat), factor)
            for tag, (ours, stat, factor) in MEASURED.items()
        },
        identity={"source": "guidellm", "load": load},
        subject=subject,
        started_at=datetime.fromtimestamp(started, UTC).isoformat() if started else None,
        invalid=("failed_requests", f"{errored:.0f} requests errored") if errored else None,
    )
