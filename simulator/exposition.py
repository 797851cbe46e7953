"""/metrics in Prometheus' text format: every metric family that SGLang has, with this server's numbers in them."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from simulator.arguments import release
from simulator.info_api import memory_usage
from simulator.service import Service

_FAMILIES = Path(__file__).parent / "data" / "metric_families.json"
_ONLY_SPECULATING = "sglang:spec_verify_calls_total"
_PASSES = "sglang:cuda_graph_passes_total"
_COUNTED_SINCE = (0, 5, 13)
_RENAMED = {
    "sglang:spec_accept_length": "sglang:spec_acceptance_length",
    "sglang:spec_accept_rate": "sglang:spec_acceptance_rate",
    "sglang:spec_verify_calls_total": "sglang:spec_num_verify_total",
}


@cache
def families() -> list[dict[str, Any]]:
    """Name, type, help and label sets of every metric family of SGLang 0.5.23."""
    found: list[dict[str, Any]] = json.loads(_FAMILIES.read_text())
    return found


def render(service: Service) -> str:
    """The whole page."""
    values = _values(service)
    lines: list[str] = []
    for family in families():
        name = family["name"]
        if name == _ONLY_SPECULATING and (
            not service.telemetry.totals.verify_calls
            or release(service.arguments.own.version) < _COUNTED_SINCE
        ):
            continue
        if name in _RENAMED and service.behaviour.dropped_keys:
            continue
        shown = _RENAMED[name] if name in _RENAMED and service.behaviour.renamed_keys else name
        lines += [f"# HELP {shown} {family['help']}", f"# TYPE {shown} {family['type']}"]
        if name.startswith("sglang:http_"):
            lines += _http(service, name)
        if name == _PASSES:
            lines += _passes(service, family["series"][0]["labels"])
            continue
        for series in family["series"]:
            labels = _labels(service, series["labels"])
            if family["type"] == "histogram":
                lines += _histogram(service, name, labels, series)
            else:
                lines.append(f"{shown}{_braces(labels)} {_value(values, name, labels)}")
    return "\n".join(lines) + "\n"


def _passes(service: Service, labels: dict[str, str]) -> Iterator[str]:
    """Forward passes by mode; on a GPU there are more modes than in what was recorded without one."""
    for mode, count in service.telemetry.totals.passes.items():
        if mode != "decode_cuda_graph" or service.resolved.settings["device"] == "cuda":
            yield f"{_PASSES}{_braces(_labels(service, labels) | {'mode': mode})} {float(count)}"


def _values(service: Service) -> dict[str, float | dict[bool, int]]:
    scheduler, telemetry, totals = service.scheduler, service.telemetry, service.telemetry.totals
    limits, speculation = service.resolved.limits, service.resolved.speculation
    memory = memory_usage(service)
    running = len(scheduler.running) + scheduler.leaked_sequences
    values: dict[str, float | dict[bool, int]] = {
        "max_total_num_tokens": limits.kv_tokens,
        "weight_memory_usage_gb": memory["weight"],
        "kv_cache_memory_usage_gb": memory["kvcache"],
        "startup_available_gpu_memory_gb": memory["startup_available"],
        "page_size": 1,
        "num_pages": limits.kv_tokens,
        "context_len": service.resolved.context_length,
        "num_running_reqs": running,
        "num_queue_reqs": len(scheduler.waiting),
        "gen_throughput": telemetry.gen_throughput if scheduler.busy else 0.0,
        "decode_sum_seq_lens": sum(sequence.held_tokens for sequence in scheduler.running),
        "token_usage": round(scheduler.usage, 4),
        "full_token_usage": round(scheduler.usage, 4),
        "num_used_tokens": scheduler.used_tokens,
        "kv_available_tokens": max(0, limits.kv_tokens - scheduler.used_tokens - scheduler.evictable_tokens),
        "kv_evictable_tokens": scheduler.evictable_tokens,
        "kv_used_tokens": scheduler.used_tokens,
        "mamba_available_tokens": limits.running - running,
        "mamba_used_tokens": running,
        "utilization": running / limits.running,
        "new_token_ratio": 0.7,
        "is_cuda_graph": float(service.behaviour.cuda_graph),
        "prompt_tokens_total": totals.prompt_tokens,
        "generation_tokens_total": totals.generation_tokens,
        "num_requests_total": totals.requests,
        "cached_tokens_total": totals.cached_tokens,
        "num_retracted_requests_total": scheduler.retractions,
        "num_retracted_reqs": scheduler.retractions,
        "num_aborted_requests_total": totals.aborted,
        "spec_verify_calls_total": totals.verify_calls,
        "spec_accept_length": telemetry.accept_length,
        "spec_accept_rate": telemetry.accept_rate,
        "spec_num_steps": speculation.steps if speculation else 0,
        "spec_num_draft_tokens": speculation.draft_tokens if speculation else 0,
    }
    cached, computed = totals.cached_tokens, totals.prefill_tokens
    values["cache_hit_rate"] = cached / (cached + computed) if cached else 0.0
    return {f"sglang:{name}": value for name, value in values.items()}


def _value(values: dict[str, float | dict[bool, int]], name: str, labels: dict[str, str]) -> float:
    if name == "sglang:realtime_tokens_total" or name not in values:
        return 0.0
    value = values[name]
    if isinstance(value, dict):
        value = value[labels.get("is_streaming") == "true"]
    return float(value)


def _labels(service: Service, labels: dict[str, str]) -> dict[str, str]:
    places = {"$MODEL": service.resolved.served_name, "$PID": str(os.getpid())}
    return {name: places.get(value, value) for name, value in labels.items()}


def _braces(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"


def _histogram(service: Service, name: str, labels: dict[str, str], series: dict[str, Any]) -> Iterator[str]:
    key = (name.removeprefix("sglang:"), labels.get("is_streaming") == "true")
    seen = sorted(service.telemetry.observations.get(key, ()))
    for bound in series["bounds"]:
        below = len(seen) if bound == "+Inf" else bisect_right(seen, float(bound))
        yield f"{name}_bucket{_braces(_with_bound(labels, bound))} {float(below)}"
    yield f"{name}_sum{_braces(labels)} {float(sum(seen))}"
    yield f"{name}_count{_braces(labels)} {float(len(seen))}"


def _with_bound(labels: dict[str, str], bound: str) -> dict[str, str]:
    return dict(sorted({**labels, "le": bound}.items()))


def _http(service: Service, name: str) -> Iterator[str]:
    counts = service.telemetry.http
    if name == "sglang:http_responses_total":
        for (method, path, status), count in counts.items():
            yield f'{name}{{endpoint="{path}",method="{method}",status_code="{status}"}} {float(count)}'
        return
    totals: dict[tuple[str, str], int] = {}
    for (method, path, _), count in counts.items():
        totals[method, path] = totals.get((method, path), 0) + count
    for (method, path), count in totals.items():
        yield f'{name}{{endpoint="{path}",method="{method}"}} {float(count) if name.endswith("_total") else 0.0}'
