"""/generate, SGLang's own API: cumulative text, token ids and meta_info."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from simulator import delivery, wire
from simulator.completions_api import prompts_of
from simulator.meta_info import meta_info
from simulator.request_fields import RequestError, from_native
from simulator.sequences import Finish, Sequence
from simulator.service import Generation, Service


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


def failure(message: str) -> dict[str, Any]:
    """The body of a 400 answer."""
    return {"error": {"message": message}}


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
    return {
        "text": wire.visible_text(sequence, 0, tokens),
        "output_ids": sequence.answer.ids(0, tokens),
        "meta_info": meta_info(
            service, generation, sequence, tokens, finish, bool(body.get("return_logprob"))
        ),
    }
