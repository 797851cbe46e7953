"""/v1/chat/completions, in the shapes of SGLang 0.5.23."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from simulator import delivery, envelope, prompts, wire
from simulator.meta_info import meta_info
from simulator.request_fields import RequestError, from_openai
from simulator.sequences import Sequence
from simulator.service import Generation, Service


def begin(service: Service, body: dict[str, Any]) -> Generation:
    """Start generating what the request asks for. Raises RequestError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise RequestError("messages must be a list of objects.")
    if not messages:
        raise RequestError("Messages cannot be empty.")
    sampling = from_openai(body, None)
    thinking = service.thinks(body.get("chat_template_kwargs") or {})
    prompt = prompts.from_messages(messages, thinking)
    return service.generate(
        [prompt],
        sampling,
        thinking=bool(thinking),
        streaming=bool(body.get("stream")),
        request_id=body.get("rid"),
    )


def failure(message: str) -> dict[str, Any]:
    """The body of a 400 answer."""
    return wire.error(message)


async def whole(service: Service, body: dict[str, Any], generation: Generation) -> dict[str, Any]:
    """The answer in one piece."""
    await envelope.finished(service, generation)
    choices = [_choice(service, body, generation, sequence) for sequence in generation.sequences]
    return envelope.whole(service, body, generation, "chat.completion", choices)


def _choice(
    service: Service, body: dict[str, Any], generation: Generation, sequence: Sequence
) -> dict[str, Any]:
    reasoning, content = wire.split_reasoning(service, body, sequence, 0, sequence.output_tokens)
    choice = {
        "index": sequence.index,
        "message": {
            "role": "assistant",
            "content": content if content or not reasoning else None,
            "reasoning_content": reasoning or None,
        },
        "logprobs": _logprobs(sequence, 0, sequence.output_tokens) if body.get("logprobs") else None,
        "finish_reason": wire.finish_type(sequence.finish),
        "matched_stop": wire.matched_stop(sequence.finish),
    }
    if body.get("return_meta_info"):
        choice["meta_info"] = meta_info(
            service, generation, sequence, sequence.output_tokens, sequence.finish
        )
    return choice


async def events(service: Service, body: dict[str, Any], generation: Generation) -> AsyncIterator[bytes]:
    """The answer as server-sent events: a role chunk, a chunk a step, finish, acceptance details, usage."""
    options = body.get("stream_options") or {}
    gives_usage = not service.behaviour.usage_missing
    continuous = gives_usage and options.get("continuous_usage_stats")
    head = envelope.head(body, generation, "chat.completion.chunk")
    sent: dict[int, int] = {}
    async for output in delivery.outputs(service, generation):
        sequence, start = output.sequence, sent.get(output.sequence.index, 0)
        if sequence.index not in sent:
            role = {"reasoning_content": None, "role": "assistant", "content": ""}
            yield wire.event(head | {"choices": [_delta(sequence.index, role)]})
        sent[sequence.index] = output.tokens
        logprobs = _logprobs(sequence, start, output.tokens) if body.get("logprobs") else None
        reasoning, content = wire.split_reasoning(service, body, sequence, start, output.tokens)
        for text, key in ((reasoning, "reasoning_content"), (content, "content")):
            if text:
                delta = {"reasoning_content": None} | {key: text}
                chunk = head | {"choices": [_delta(sequence.index, delta, logprobs)]}
                if continuous:
                    chunk["usage"] = wire.usage(service, [(sequence, output.tokens)])
                yield wire.event(chunk)
                logprobs = None
    for sequence in generation.sequences:
        choice = _delta(sequence.index, {"reasoning_content": None})
        choice["finish_reason"] = wire.finish_type(sequence.finish)
        choice["matched_stop"] = wire.matched_stop(sequence.finish)
        yield wire.event(head | {"choices": [choice]})
    if extension := wire.extension(service, body, generation.sequences):
        yield wire.event(head | {"choices": [], "usage": None, "sglext": extension})
    if options.get("include_usage") and gives_usage:
        counted = [(sequence, sequence.output_tokens) for sequence in generation.sequences]
        yield wire.event(head | {"choices": [], "usage": wire.usage(service, counted, body.get("n", 1))})
    yield wire.DONE


def _delta(index: int, delta: dict[str, Any], logprobs: Any = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": None, "matched_stop": None}


def _logprobs(sequence: Sequence, start: int, stop: int) -> dict[str, Any]:
    pieces = sequence.answer.pieces(start, stop)
    return {
        "content": [
            {
                "token": piece,
                "bytes": list(piece.encode()),
                "logprob": wire.logprob(sequence, start + offset),
                "top_logprobs": [],
            }
            for offset, piece in enumerate(pieces)
        ]
    }
