"""What SGLang calls the same thing in different versions, read in the published packages 0.5.9 to 0.5.23."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from suite.sglang import releases

SETTING_OF_FLAG: Mapping[str, str] = {
    "fp4-gemm-backend": "fp4_gemm_runner_backend",
    "fp8-gemm-backend": "fp8_gemm_runner_backend",
    "stream-output": "incremental_streaming_output",
    "grpc-http-sidecar-port": "smg_http_sidecar_port",
    "elastic-ep-join-mode": "ep_join_mode",
    "elastic-ep-join-rank-offset": "ep_join_rank_offset",
    "monokernel-backend": "enable_amd_monokernel",
    "hierarchical-sparse-attention-extra-config": "hisparse_config",
    "speculative-dflash-draft-window-size": "speculative_draft_window_size",
}
"""Flags whose setting in /server_info is not just the flag's name with underscores."""

SETTING_RENAMES: Mapping[str, str] = {
    "mamba_scheduler_strategy": "mamba_radix_cache_strategy",  # 0.5.14
    "cuda_graph_max_bs": "cuda_graph_config.decode.max_bs",  # between 0.5.12 and 0.5.16
    "cuda_graph_max_bs_decode": "cuda_graph_config.decode.max_bs",
    "cuda_graph_bs": "cuda_graph_config.decode.bs",
    "cuda_graph_bs_decode": "cuda_graph_config.decode.bs",
    "stream_output": "incremental_streaming_output",  # between 0.5.9 and 0.5.12
    "hierarchical_sparse_attention_extra_config": "hisparse_config",  # between 0.5.9 and 0.5.12
    "nsa_decode_backend": "dsa_decode_backend",  # between 0.5.12 and 0.5.16
    "nsa_prefill_backend": "dsa_prefill_backend",  # between 0.5.12 and 0.5.16
    "enable_prefill_context_parallel": "enable_prefill_cp",  # between 0.5.16 and 0.5.20
    "grpc_http_sidecar_port": "smg_http_sidecar_port",  # between 0.5.14 and 0.5.16
}
"""Settings of /server_info by their old name, and what the same thing is called in 0.5.23."""


def setting_of(flag: str) -> str:
    """The name in /server_info of what ``flag`` (canonical, without dashes in front) sets."""
    return SETTING_OF_FLAG.get(flag, flag.replace("-", "_"))


def other_names(setting: str) -> tuple[str, ...]:
    """What else ``setting`` is or was called, newest name first, without ``setting`` itself."""
    newest = SETTING_RENAMES.get(setting, setting)
    older = [old for old, new in SETTING_RENAMES.items() if new == newest]
    return tuple(name for name in (newest, *older) if name != setting)


@dataclass(frozen=True, slots=True)
class MetricName:
    """One name of a Prometheus metric and the first version that has it.

    ``from_start`` says that the metric is there once the server is ready: its own warm-up request brings it.
    """

    name: str
    since: str = "0.5.9"
    from_start: bool = False


METRIC_NAMES: Mapping[str, tuple[MetricName, ...]] = {
    "verify_calls": (MetricName("sglang:spec_verify_calls_total", since=releases.VERIFY_COUNTER.since),),
    "generation_tokens": (MetricName("sglang:generation_tokens_total"),),
    "prompt_tokens": (MetricName("sglang:prompt_tokens_total"),),
    "cached_tokens": (MetricName("sglang:cached_tokens_total"),),
    "requests": (MetricName("sglang:num_requests_total"),),
    "running_requests": (MetricName("sglang:num_running_reqs", from_start=True),),
    "queued_requests": (MetricName("sglang:num_queue_reqs", from_start=True),),
    "token_usage": (MetricName("sglang:token_usage", from_start=True),),
    "token_capacity": (MetricName("sglang:max_total_num_tokens", from_start=True),),
    "accept_length_window": (MetricName("sglang:spec_accept_length", from_start=True),),
    "graph_passes": (MetricName("sglang:cuda_graph_passes_total"),),
}
"""What this suite calls a counter or gauge, and its Prometheus names by version."""

AVERAGED = frozenset({"token_usage", "accept_length_window"})
"""Shares and means: over data-parallel ranks they are averaged; everything else is a count and summed."""


def metric_names(version: str | None, counter: str) -> tuple[MetricName, ...]:
    """The names under which ``counter`` can appear in ``version``; all of them when it is unknown."""
    return tuple(name for name in METRIC_NAMES[counter] if releases.has(version, name.since) is not False)
