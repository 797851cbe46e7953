"""What SGLang 0.5.23 makes of settings that the modelled box's cards decide: graphs, memory share, pages, mamba cache.

The box is a row of RTX PRO 6000. The rules were read in SGLang's resolution (`srt/arg_groups/`: memory, cuda_graph,
mamba and moe hooks) and are held, setting by setting, to what genuine SGLang resolves for such cards
(`tests/rehearsal/`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from simulator.arguments import table
from simulator.checkpoint import Checkpoint

CARD_MIB = 97887
"""Memory of one card, as nvidia-smi tells it."""
_VISION_SHARE = 0.95
_VISION_BASE = 24 * 1024**2
_TRTLLM_PAGES = (16, 32, 64, 128)


class Refusal(Exception):
    """SGLang's resolution gives up; the text is its last line."""


def settle(settings: dict[str, Any], given: dict[str, Any], checkpoint: Checkpoint) -> None:
    """Fill in, in place, what was not `given`; Refusal where SGLang's own resolution ends."""
    speculating = settings["speculative_algorithm"] is not None
    _mamba(settings, checkpoint)
    _backends(settings, given)
    _graphs(settings, given, speculating)
    if "mem_fraction_static" not in given:
        settings["mem_fraction_static"] = _memory_share(settings, checkpoint)


def _mamba(settings: dict[str, Any], checkpoint: Checkpoint) -> None:
    """A hybrid model keeps snapshots of its states in the prefix cache, unless there is none."""
    if not checkpoint.hybrid or settings["disable_radix_cache"]:
        return
    if settings["mamba_radix_cache_strategy"] == "no_buffer" and not settings["disable_overlap_schedule"]:
        raise Refusal(
            "AssertionError: no_buffer do not support overlap schedule. Try to set disable_overlap_schedule=True."
        )
    settings["uses_mamba_radix_cache"] = True
    if settings["mamba_radix_cache_strategy"] == "auto":
        settings["mamba_radix_cache_strategy"] = "extra_buffer"


def _backends(settings: dict[str, Any], given: dict[str, Any]) -> None:
    if settings["quantization"] == "modelopt_fp4" and settings["moe_runner_backend"] == "auto":
        settings["moe_runner_backend"] = "flashinfer_cutlass"
    if "speculative_moe_runner_backend" not in given:
        settings["speculative_moe_runner_backend"] = settings["moe_runner_backend"]
    if "speculative_draft_model_quantization" not in given:
        settings["speculative_draft_model_quantization"] = settings["quantization"]
    if settings["attention_backend"] == "trtllm_mha":
        if settings["kv_cache_dtype"] == "fp8_e4m3":
            raise Refusal(
                "ValueError: TRTLLM FMHAv2 prefill on SM120 does not support fp8_e4m3 KV cache or skip-softmax."
            )
        if settings["page_size"] not in _TRTLLM_PAGES:
            settings["page_size"] = 64


def _graphs(settings: dict[str, Any], given: dict[str, Any], speculating: bool) -> None:
    """CUDA graphs: which batch sizes are captured for decoding, which token counts for prefill."""
    unset = next(row["unset"] for row in table() if row["name"] == "cuda_graph_config")
    config = {phase: {**unset[phase], **settings["cuda_graph_config"].get(phase, {})} for phase in unset}
    decode, prefill = config["decode"], config["prefill"]
    for phase, own in config.items():
        if backend := settings[f"cuda_graph_backend_{phase}"]:
            own["backend"] = backend
        if settings["disable_cuda_graph"]:
            own["backend"] = "disabled"
        for part in ("max_bs", "bs"):
            own[part] = settings[f"cuda_graph_{part}_{phase}"] or own[part]
    if decode["bs"] is not None:
        decode["max_bs"] = max(decode["bs"])
    elif decode["max_bs"] is None:
        decode["max_bs"] = 256 if settings["tp_size"] < 4 else 512
        if "max_running_requests" in given:  # what speculation resets comes later
            decode["max_bs"] = min(decode["max_bs"], given["max_running_requests"])
    if prefill["max_bs"] is None:
        prefill["max_bs"] = settings["chunked_prefill_size"]
        if settings["max_total_tokens"]:
            prefill["max_bs"] = min(prefill["max_bs"], settings["max_total_tokens"])
    decode["bs"] = decode["bs"] or decode_sizes(decode["max_bs"], speculating)
    prefill["bs"] = prefill["bs"] or prefill_sizes(prefill["max_bs"])
    settings["cuda_graph_config"] = config


def decode_sizes(most: int, speculating: bool) -> list[int]:
    """Batch sizes up to `most` whose decode step is captured; finer where each sequence brings several tokens."""
    if speculating:
        steps: Iterable[range] = (range(1, 9), range(10, 33, 2), range(40, 65, 4), range(72, 257, 8))
        steps = (*steps, range(272, most + 1, 16))
    else:
        steps = (
            range(1, 3),
            range(4, 13, 4),
            range(16, 257, 8),
            range(272, 512, 16),
            range(512, most + 1, 32),
        )
    sizes = [size for each in steps for size in each if size <= most]
    return sizes if most in sizes else [*sizes, most]


def prefill_sizes(most: int) -> list[int]:
    """Token counts up to `most` whose prefill is captured."""
    steps = (
        range(4, 33, 4),
        range(48, 257, 16),
        range(288, 513, 32),
        range(576, 1025, 64),
        range(1280, 4097, 256),
        range(4608, most + 1, 512),
    )
    return [size for each in steps for size in each if size <= most]


def _memory_share(settings: dict[str, Any], checkpoint: Checkpoint) -> float:
    """The share of a card's memory for weights and caches: what is left beside activations and graphs."""
    chunk = settings["chunked_prefill_size"]
    tokens = max(chunk if chunk > 0 else settings["max_prefill_tokens"], 2048)
    decode, prefill = settings["cuda_graph_config"]["decode"], settings["cuda_graph_config"]["prefill"]
    reserved_mib = 512 + 1.5 * tokens + settings["tp_size"] * settings["pp_size"] / 8 * 1024
    reserved_mib += 2 * decode["max_bs"] if decode["backend"] != "disabled" else 0
    reserved_mib += 8 * len(prefill["bs"]) if prefill["backend"] != "disabled" else 0
    share: float = round((CARD_MIB - max(reserved_mib, 10 * 1024)) / CARD_MIB, 3)
    if checkpoint.vision_size is None:
        return share
    larger = 24 * checkpoint.vision_size**2 / _VISION_BASE
    return share * (_VISION_SHARE * max(0.8, min(1.05, 1.0 - 0.1 * (larger - 1.0))))
