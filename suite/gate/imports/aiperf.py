"""JSON export of AIPerf (`profile_export_aiperf.json`, schema 1.4 of AIPerf 0.13): one file a profile run, a round here.

Throughputs are the file's `avg`, latencies its `p50`; units are the file's own and are converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.gate.imports.entries import ImportedRound, number, picked, table

SCHEMA = 1
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0}
MEASURED = {
    "output_token_throughput": ("output_tokens_per_s", "avg"),
    "total_token_throughput": ("total_tokens_per_s", "avg"),
    "request_throughput": ("requests_per_s", "avg"),
    "goodput": ("goodput_requests_per_s", "avg"),
    "time_to_first_token": ("ttft_s", "p50"),
    "inter_token_latency": ("tpot_s", "p50"),
    "inter_chunk_latency": ("itl_s", "p50"),
    "request_latency": ("e2e_s", "p50"),
    "spec_decode_acceptance_length": ("acceptance_length", "avg"),
}
"""AIPerf's inter-token latency is (latency - TTFT) / (tokens - 1) of a request: what is called TPOT here."""


def matches(data: Mapping[str, Any]) -> bool:
    """Whether the file names AIPerf as its writer."""
    return "aiperf_version" in data


def newer(data: Mapping[str, Any]) -> str | None:
    """The schema version, if it is one that this reader does not know."""
    version = str(data.get("schema_version") or "1")
    return None if version.split(".")[0] == str(SCHEMA) else version


def read(data: Mapping[str, Any]) -> ImportedRound:
    """The file as one round."""
    values = {ours: _value(table(data.get(tag)), stat) for tag, (ours, stat) in MEASURED.items()}
    models, load = _configured(table(data.get("input_config")))
    return ImportedRound(
        workload=f"aiperf[{load or 'profile'}]",
        values=values,
        identity={"source": "aiperf", "load": load, "model": models},
        subject=picked(data, {"aiperf_version": "aiperf"}),
        started_at=data.get("start_time"),
        invalid=_invalid(data),
    )


def _value(metric: Mapping[str, Any], stat: str) -> float | None:
    value = number(metric.get(stat))
    if value is None:
        value = number(metric.get("avg"))
    unit = str(metric.get("unit", ""))
    return value * SECONDS.get(unit, 1.0) if value is not None else None


def _invalid(data: Mapping[str, Any]) -> tuple[str, str] | None:
    if data.get("was_cancelled"):
        return "cancelled", "the profile run was cancelled"
    if data.get("is_complete") is False:
        return "incomplete", str(data.get("incomplete_reason") or "AIPerf reports an incomplete run")
    errors = number(table(data.get("error_request_count")).get("avg"))
    return ("failed_requests", f"{errors:.0f} requests failed") if errors else None


def _configured(config: Mapping[str, Any]) -> tuple[str, str]:
    """Model names and load from the configuration, whose shape differs between releases."""
    endpoint = table(config.get("endpoint"))
    names = endpoint.get("model_names") or config.get("models") or []
    listed = names if isinstance(names, list) else [names]
    models = ", ".join(str(table(n).get("name", n)) for n in listed)
    loadgen = table(config.get("loadgen"))
    load = picked(loadgen, {"concurrency": "concurrency", "request_rate": "request_rate"})
    return models, " ".join(f"{k}={v}" for k, v in load.items())
