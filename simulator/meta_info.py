"""`meta_info`: what SGLang tells about one sequence's way through the server, with /generate and on request in chats."""

from __future__ import annotations

import time
from typing import Any

from simulator import wire
from simulator.sequences import Finish, Sequence
from simulator.service import Generation, Service


def meta_info(
    service: Service,
    generation: Generation,
    sequence: Sequence,
    tokens: int,
    finish: Finish | None,
    return_logprob: bool = False,
) -> dict[str, Any]:
    """The object for a sequence that has `tokens` output tokens; with its outcome if it has finished."""
    meta = _progress(service, generation, sequence, finish)
    if return_logprob:
        ids = sequence.answer.ids(0, tokens)
        meta["input_token_logprobs"] = []
        meta["output_token_logprobs"] = [
            [wire.logprob(sequence, place), token, None] for place, token in enumerate(ids)
        ]
        meta["output_token_logprobs_length"] = tokens
    meta |= {
        "reasoning_tokens": wire.reasoning_tokens(service, sequence, tokens),
        "completion_tokens": tokens,
        "cached_tokens": sequence.cached_tokens,
    }
    if finish is not None:
        meta["weight_versions"] = wire.weight_versions(tokens)["weight_versions"]
    meta |= {"cached_tokens_details": None, "dp_rank": None}
    return meta | (_outcome(service, generation, sequence) if finish is not None else {})


def _progress(
    service: Service, generation: Generation, sequence: Sequence, finish: Finish | None
) -> dict[str, Any]:
    admitted_s = sequence.admitted_s if sequence.admitted_s is not None else sequence.arrival_s
    first_s = sequence.first_token_s if sequence.first_token_s is not None else admitted_s
    return {
        "id": generation.request_id,
        "finish_reason": _finish(finish),
        "prompt_tokens": sequence.prompt.tokens,
        "weight_version": "default",
        "num_retractions": sequence.retractions,
        "storage_prefetch_wait": 0.0,
        "storage_staging_wait": 0.0,
        "forward_entry_time": service.wall_s(admitted_s),
        "prefill_finished_time": service.wall_s(first_s),
        "queue_time": admitted_s - sequence.arrival_s,
    }


def _finish(finish: Finish | None) -> dict[str, Any] | None:
    if finish is None:
        return None
    if finish.type == "length":
        return {"type": "length", "length": finish.matched}
    if finish.type == "stop":
        return {"type": "stop", "matched": finish.matched}
    return {"type": "abort", "message": "Aborted by AbortReq.", "status_code": None, "err_type": None}


def _outcome(service: Service, generation: Generation, sequence: Sequence) -> dict[str, Any]:
    finished_s = sequence.finished_s or generation.received_s
    first_s = sequence.first_token_s if sequence.first_token_s is not None else finished_s
    decoding_s = finished_s - first_s
    return {
        "e2e_latency": finished_s - sequence.arrival_s,
        **(wire.reported(service, wire.acceptance(sequence)) or {}),
        "request_received_ts": service.wall_s(generation.received_s),
        "first_token_latency": first_s - sequence.arrival_s,
        "api_server_dispatch_finish_ts": service.wall_s(sequence.arrival_s),
        "request_finished_ts": service.wall_s(finished_s),
        "decode_throughput": (sequence.output_tokens - 1) / decoding_s if decoding_s > 0 else 0.0,
        "response_sent_to_client_ts": time.time(),
    }
