"""/model_info, /server_info, /v1/models, /v1/loads: what the server says about itself."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from simulator.arguments import release
from simulator.resolution import SECRETS, reports_launch_command
from simulator.service import Service

_EMBEDDING = Path(__file__).parent / "data" / "embedding_info.json"
_PHASES = ("prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend")


def model_info(service: Service) -> dict[str, Any]:
    """/model_info."""
    settings, checkpoint = service.resolved.settings, service.checkpoint
    embedding = json.loads(_EMBEDDING.read_text())
    embedding["cache"]["radix_cache_disabled"] = settings["disable_radix_cache"]
    info = {key: settings[key] for key in ("model_path", "served_model_name", "tokenizer_path")}
    info |= {"is_generation": True}
    wanted = (
        "preferred_sampling_params",
        "weight_version",
        "load_format",
        "reasoning_parser",
        "tool_call_parser",
    )
    info |= {key: settings[key] for key in wanted}
    return info | {
        "disaggregation_mode": settings["disaggregation_mode"],
        "has_image_understanding": checkpoint.has_vision,
        "has_audio_understanding": False,
        "model_type": checkpoint.model_type,
        "architectures": [checkpoint.architecture],
        "embedding": embedding,
    }


def server_info(service: Service) -> dict[str, Any]:
    """/server_info: the resolved settings, then what the scheduler adds."""
    resolved = service.resolved
    settings = {
        key: "******" if key in SECRETS and value else value for key, value in resolved.settings.items()
    }
    info: dict[str, Any] = dict(settings)
    if reports_launch_command(service.arguments.own.version):
        info["launch_command"] = service.arguments.launch_command
    startup = startup_time(service)
    info |= {
        "status": "ready" if service.ready else "starting",
        "max_total_num_tokens": resolved.limits.kv_tokens,
        "max_req_input_len": min(resolved.context_length, resolved.limits.kv_tokens) - 6,
        "startup_time": startup | {"tokenizer_e2e": service.profile.start_s},
    }
    if release(service.arguments.own.version) >= (0, 5, 22):
        info["hicache_object_layout"] = {
            "enabled": False,
            "backend": None,
            "page_size": settings["page_size"],
            "hicache_object_layout": {"pools": []},
            "reason": "Hierarchical cache is disabled",
        }
    info |= {
        "kv_events": None,
        "internal_states": [
            _internal_state(service, settings, startup) for _ in range(int(settings["dp_size"]))
        ],
        "version": service.arguments.own.version,
    }
    return info | ({"frontend": "python"} if release(service.arguments.own.version) >= (0, 5, 20) else {})


def _internal_state(service: Service, settings: dict[str, Any], startup: dict[str, Any]) -> dict[str, Any]:
    limits, telemetry = service.resolved.limits, service.telemetry
    state = {key: value for key, value in settings.items() if key != "custom_sigquit_handler"}
    state |= {
        "disable_chunked_prefix_cache": True,
        "pp_max_micro_batch_size": limits.running,
        "max_mamba_cache_size": limits.running,
        "disaggregation_decode_retraction_backup": "cpu_tensor",
        "world_size": settings["tp_size"] * settings["pp_size"],
        "startup_time": startup,
        "effective_max_running_requests_per_dp": limits.running,
        "last_gen_throughput": telemetry.gen_throughput,
        "memory_usage": memory_usage(service),
        "decode_cuda_graph_bs": settings["cuda_graph_config"]["decode"]["bs"]
        if service.behaviour.cuda_graph
        else [],
        "decode_cuda_graph_memory_gb": graph_gb(service),
    }
    average = telemetry.average_accept_length
    if average is not None and not service.behaviour.dropped_keys:
        renamed = service.behaviour.renamed_keys
        state["avg_spec_acceptance_length" if renamed else "avg_spec_accept_length"] = average
    return state


def memory_usage(service: Service) -> dict[str, Any]:
    """GB of one GPU by use."""
    profile, limits = service.profile, service.resolved.limits
    draft_gb = profile.draft_gb if service.resolved.speculation else 0.0
    return {
        "weight": round(profile.weights_gb + draft_gb, 3),
        "kvcache": round(limits.kv_tokens * profile.kv_gb_per_token, 3),
        "startup_available": profile.gpu_memory_gb,
        "token_capacity": limits.kv_tokens,
        "token_capacity_swa": None,
        "graph": dict.fromkeys(_PHASES, 0.0) | {"decode": graph_gb(service)},
    }


def graph_gb(service: Service) -> float:
    """GB of captured decode graphs."""
    return 0.31 if service.behaviour.cuda_graph else 0.0


def startup_time(service: Service) -> dict[str, Any]:
    """Seconds of the start by phase, in the proportions that the log shows."""
    start_s = service.start_s
    return {
        "load_weight": start_s * 0.5,
        "kv_cache_allocation": start_s * 0.1,
        "scheduler_e2e": start_s * 0.95,
        "cuda_graph": dict.fromkeys(_PHASES, 0.0) | {"decode": start_s * 0.3},
    }


def models(service: Service) -> dict[str, Any]:
    """/v1/models."""
    name = service.resolved.served_name
    card = {
        "id": name,
        "object": "model",
        "created": int(time.time()),
        "owned_by": "sglang",
        "root": name,
        "parent": None,
        "max_model_len": service.resolved.context_length,
    }
    return {"object": "list", "data": [card]}


def _speculative_load(service: Service) -> dict[str, Any]:
    """Acceptance since the last flush, once a window of decode steps has been counted."""
    length = service.telemetry.average_accept_length
    if length is None or service.behaviour.dropped_keys:
        return {}
    rate = service.telemetry.accept_rate
    if service.behaviour.renamed_keys:
        return {"speculative": {"acceptance_length": length, "acceptance_rate": rate}}
    return {"speculative": {"accept_length": length, "accept_rate": rate}}


def loads(service: Service) -> dict[str, Any]:
    """/v1/loads."""
    scheduler, limits, totals = service.scheduler, service.resolved.limits, service.telemetry.totals
    running = len(scheduler.running) + scheduler.leaked_sequences
    used = scheduler.used_tokens
    cached, computed = totals.cached_tokens, totals.prefill_tokens
    load = {
        "timestamp": time.time(),
        "dp_rank": 0,
        "num_running_reqs": running,
        "num_waiting_reqs": len(scheduler.waiting),
        "num_waiting_uncached_tokens": sum(sequence.to_prefill for sequence in scheduler.waiting),
        "num_used_tokens": used,
        "num_total_tokens": used + sum(sequence.prompt.tokens for sequence in scheduler.waiting),
        "num_active_tokens": used,
        "num_prealloc_ready_tokens": 0,
        "max_total_num_tokens": limits.kv_tokens,
        "max_running_requests": limits.running,
        "token_usage": round(scheduler.usage, 4),
        "gen_throughput": service.telemetry.gen_throughput,
        "cache_hit_rate": cached / (cached + computed) if cached else 0.0,
        "utilization": running / limits.running,
        "total_prefill_uncached_tokens": computed,
        "total_prefill_busy_us": 0,
        "decode_moments": [float(scheduler.decode_steps), float(totals.decode_tokens), 0.0, 0.0, 0.0, 0.0],
        "memory": {
            "weight_gb": memory_usage(service)["weight"],
            "kv_cache_gb": memory_usage(service)["kvcache"],
            "graph_gb": graph_gb(service),
            "token_capacity": limits.kv_tokens,
        },
        **_speculative_load(service),
        "disaggregation": {
            "mode": "null",
            "prefill_bootstrap_queue_reqs": 0,
            "prefill_inflight_queue_reqs": 0,
            "decode_prealloc_queue_reqs": 0,
            "decode_transfer_queue_reqs": 0,
            "decode_retracted_queue_reqs": 0,
            "kv_transfer_speed_gb_s": 0.0,
            "kv_transfer_latency_ms": 0.0,
        },
        "queues": {
            "waiting": len(scheduler.waiting),
            "grammar": 0,
            "paused": 0,
            "retracted": 0,
            "prealloc_ready": 0,
        },
    }
    return {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": service.arguments.own.version,
        "accelerator": None,
        "num_accelerators": 1,
        "loads": [load],
    }
