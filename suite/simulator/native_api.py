"""/generate, SGLang's own API: cumulative text, token ids and meta_info."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from suite.simulator import delivery, wire
from suite.simulator.completions_api import prompts_of
from suite.simulator.request_fields import RequestError, from_native
from suite.simulator.sequences import Finish, Sequence
from suite.simulator.service import Generation, Service


def begin(service: Service, body: dict[str, Any]) -> Generation:
    """Start generating what the request asks for. Raises RequestError."""
    given = body.get("text") if body.get("text") is not None else body.get("input_ids")
    wanted = prompts_of(given)
    if not wanted:
        raise RequestError("Either text, input_ids, or input_embeds should be provided.")
    params = body.get("sampling_params") or {}
    if not isinstance(params, dict):
        raise RequestError("sampling_params must be an object.")
    rid = body.get("rid")
    return service.generate(
        wanted,
        from_native(params),
        streaming=bool(body.get("stream")),
        request_id=rid if isinstance(rid, str) else None,
    )


async def whole(service: Service, body: dict[str, Any], generation: Generation) -> Any:
    """One object, or a list of them for several prompts or choices."""
    async for _ in delivery.outputs(service, generation):
        pass
    answers = [_result(service, body, generation, s, s.output_tokens, s.finish) for s in generation.sequences]
    return answers if _many(body, generation) else answers[0]


async def events(service: Service, body: dict[str, Any], generation: Generation) -> AsyncIterator[bytes]:
    """Server-sent events, each with the whole text so far."""
    first: dict[int, float] = {}
    async for output in delivery.outputs(service, generation):
        sequence = output.sequence
        answer = _result(service, body, generation, sequence, output.tokens, output.finish)
        meta = answer["meta_info"]
        if sequence.index not in first:
            first[sequence.index] = time.time()
            meta["response_sent_to_client_ts"] = first[sequence.index]
        elif output.finish is not None:
            late = {key: meta.pop(key) for key in ("request_finished_ts", "decode_throughput")}
            meta.pop("response_sent_to_client_ts")
            meta |= {"response_sent_to_client_ts": first[sequence.index], **late}
        if _many(body, generation):
            answer["index"] = sequence.index
        yield wire.event(answer)
    yield wire.DONE


def _many(body: dict[str, Any], generation: Generation) -> bool:
    several = isinstance(body.get("text"), list) or isinstance((body.get("input_ids") or [0])[0], list)
    return several or len(generation.sequences) > 1


def _result(
    service: Service,
    body: dict[str, Any],
    generation: Generation,
    sequence: Sequence,
    tokens: int,
    finish: Finish | None,
) -> dict[str, Any]:
    meta = _progress(service, generation, sequence, tokens, finish)
    if body.get("return_logprob"):
        ids = sequence.answer.ids(0, tokens)
        meta["input_token_logprobs"] = []
        meta["output_token_logprobs"] = [
            [wire.logprob(sequence, at), token, None] for at, token in enumerate(ids)
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
    if finish is not None:
        meta |= _outcome(service, generation, sequence)
    return {
        "text": wire.visible_text(sequence, 0, tokens),
        "output_ids": sequence.answer.ids(0, tokens),
        "meta_info": meta,
    }


def _progress(
    service: Service, generation: Generation, sequence: Sequence, tokens: int, finish: Finish | None
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
