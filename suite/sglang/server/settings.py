"""Which resolved settings are identity, which are subject, and which are neither."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

IDENTITY = ("tp_size", "pp_size", "dp_size", "ep_size", "nnodes", "device")
"""Equal or not comparable, beside the model's name and revision."""

_VOLATILE = re.compile(
    r"""port$|_port_|^host$|seed$|addr$|rank$|pid|url|path$|dir$|folder$|_file$|endpoint|socket|ipc
    |^log_|log_level|logging|^trace|otlp|metric|bucket|watchdog|timeout|crash|warmups|^ssl_|keyfile|api_key
    |^served_model_name$|^model_|tokenizer_path|weight_version|revision$|grpc|http|uvicorn|show_time_cost
    |^download|decrypted|checksum|^_|numa_node|gpu_id|base_gpu|extra_metric|sleep_on_idle|node_rank|dist_""",
    re.VERBOSE,
)
"""Differs from place to place or from start to start, or only says where something is written."""

_TELLING = re.compile(
    r"""backend|attention|cuda_graph|^moe_|quantization|dtype|chunked|^max_|mem_fraction|^context_length
    |^schedule_|overlap|page_size|radix_cache|mixed_chunk|all_?reduce|torch_compile|mamba_(cache|radix|ssm)
    |stream_interval|decode_steps|fused|fusion|deterministic|parser|piecewise|eplb|^enable_dp
    |^speculative_(algorithm|num_steps|eagle_topk|num_draft_tokens|use_|adaptive$)""",
    re.VERBOSE,
)
"""Stored even when it is off or empty, because a decoding server's speed or answers hang on it."""

_PARTS_OF: tuple[tuple[str, str], ...] = (
    (r"hicache_|unified_cache_", "enable_hierarchical_cache"),
    (r"lora_|max_lora|max_loaded_lora|experts_shared_outer", "enable_lora"),
    (r"disaggregation_|num_reserved_decode|encoder_|optimistic_prefill", "disaggregation_mode"),
    (r"eplb_|expert_(distribution|balancedness)_|init_expert|ep_(num|dispatch|join)", "enable_eplb"),
    (r"deepep_|fuseep_|elastic_ep|flashinfer_a2a", "moe_a2a_backend"),
    (r"watermark_", "enable_watermark"),
    (r"kt_", "kt_weight_path"),
    (r"dllm_", "dllm_algorithm"),
    (r"speculative_(?!algorithm)|decoupled_spec", "speculative_algorithm"),
    (r"offload_", "cpu_offload_gb"),
    (r"mm_|image_processor|asr_|limit_mm", "enable_multimodal"),
    (r"torch_compile_", "enable_torch_compile"),
    (r"tbo_", "enable_two_batch_overlap"),
    (r"prefill_delayer_", "enable_prefill_delayer"),
    (r"ple_offload", "ple_offload_embedding"),
    (r"kv_canary_", "kv_canary"),
    (r"dynamic_batch_tokenizer_", "enable_dynamic_batch_tokenizer"),
    (r"linear_replayssm_", "enable_linear_replayssm"),
    (r"remote_instance_|load_snapshot|weight_cache|http2|dsv4_|dsa_|qsa_|mlx_|msprobe|sm_group", ""),
)
"""Settings (by a pattern at their beginning) that mean nothing while the one that switches them on is off.

The last line's belong to other models, other hardware or other ways of loading.
"""

_ALGORITHM_PARTS = re.compile(r"^speculative_(ngram|dflash|dspark|domino)_")
_EMPTY: tuple[Any, ...] = (None, False, "", [], {}, 0)
_OFF: tuple[Any, ...] = (*_EMPTY, "null", "none")


def subject(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """The settings worth storing with a result, by name; lists as one line of text.

    All that are switched on or filled in, and those that speed hangs on even when they are off; without
    identity, without what differs from start to start, and without the details of what is switched off.
    A setting that SGLang computes from the free memory of the moment (``mem_fraction_static`` on a CPU)
    is left out as well.
    """
    return {
        name: _storable(value)
        for name, value in sorted(resolved.items())
        if name not in IDENTITY
        and not _VOLATILE.search(name)
        and (value not in _EMPTY or (_TELLING.search(name) and "." not in name))
        and not _part_of_something_off(name, resolved)
        and not (name == "mem_fraction_static" and resolved.get("device") == "cpu")
    }


def _part_of_something_off(name: str, resolved: Mapping[str, Any]) -> bool:
    algorithm = _ALGORITHM_PARTS.match(name)
    if algorithm:
        return str(resolved.get("speculative_algorithm")).lower() != algorithm[1]
    return any(
        re.match(pattern, name) and name != switch and resolved.get(switch) in _OFF
        for pattern, switch in _PARTS_OF
    )


def identity(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Model, revision, parallel sizes and device; what the server does not report is left out."""
    model, revision = model_name(str(resolved.get("model_path", "")))
    named: dict[str, Any] = {"model": model} if model else {}
    stated = resolved.get("revision") or revision
    if stated:
        named["revision"] = stated
    return named | {name: resolved[name] for name in IDENTITY if resolved.get(name) is not None}


def model_name(path: str) -> tuple[str, str | None]:
    """A model's name without its place, and the revision where the path tells it.

    ``/data/Qwen3.5-397B-A17B-NVFP4`` and ``nvidia/Qwen3.5-397B-A17B-NVFP4`` are the same model; a snapshot
    in a Hugging Face cache (``models--ORG--NAME/snapshots/REVISION``) says both.
    """
    cached = re.search(r"models--(?:.+?--)?([^/]+)/snapshots/([^/]+)", path)
    if cached:
        return cached.group(1), cached.group(2)
    return path.rstrip("/").rpartition("/")[2], None


def _storable(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value
