"""JSONL of `python -m sglang.bench_serving --output-file` (SGLang 0.5.23): one line a benchmark run, a round here.

Latencies are the file's medians. `accept_length` is the server's lifetime average, not a ratio of counts of these
requests; that is why imported series are comparable with imported series only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.gate.imports.entries import MS, ImportedRound, number, picked, table

REQUIRED = ("output_throughput", "median_ttft_ms", "request_throughput")
MEASURED = {
    "output_throughput": ("output_tokens_per_s", 1.0),
    "total_throughput": ("total_tokens_per_s", 1.0),
    "request_throughput": ("requests_per_s", 1.0),
    "median_ttft_ms": ("ttft_s", MS),
    "median_tpot_ms": ("tpot_s", MS),
    "median_itl_ms": ("itl_s", MS),
    "median_e2e_latency_ms": ("e2e_s", MS),
    "accept_length": ("acceptance_length", 1.0),
    "concurrency": ("concurrency_achieved", 1.0),
}
WORKLOAD = (
    "dataset_name",
    "request_rate",
    "max_concurrency",
    "random_input_len",
    "random_output_len",
    "random_range_ratio",
)
SERVER = {
    "version": "sglang",
    "attention_backend": "attention_backend",
    "moe_runner_backend": "moe_runner_backend",
    "kv_cache_dtype": "kv_cache_dtype",
    "mem_fraction_static": "mem_fraction_static",
}
INTENT = {
    "model_path": "model",
    "quantization": "quantization",
    "tp_size": "tp_size",
    "speculative_algorithm": "speculative_algorithm",
    "speculative_num_steps": "speculative_num_steps",
    "speculative_num_draft_tokens": "speculative_num_draft_tokens",
}


def matches(data: Mapping[str, Any]) -> bool:
    """Whether a line has the fields that bench_serving always writes."""
    return all(name in data for name in REQUIRED)


def read(data: Mapping[str, Any]) -> ImportedRound:
    """One line. Requests that did not complete make it invalid, where the line has details or counts to tell."""
    server = table(data.get("server_info"))
    asked = picked(data, {name: name for name in WORKLOAD})
    short = " ".join(f"{k}={asked[k]}" for k in WORKLOAD[:5] if k in asked)
    failed = [e for e in data.get("errors") or [] if e]
    return ImportedRound(
        workload=f"bench_serving[{short}]",
        values={ours: number(data.get(theirs), factor) for theirs, (ours, factor) in MEASURED.items()},
        identity={"source": "sglang.bench_serving", **asked, **picked(server, INTENT)},
        subject=picked(server, SERVER),
        invalid=("failed_requests", f"{len(failed)} requests failed; the first: {failed[0]}"[:200])
        if failed
        else None,
    )
