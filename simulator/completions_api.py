"""/v1/completions, in the shapes of SGLang 0.5.23."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from simulator import delivery, envelope, prompts, wire
from simulator.request_fields import COMPLETION_DEFAULT_TOKENS, RequestError, from_openai
from simulator.sequences import Sequence
from simulator.service import Generation, Service


def begin(service: Service, body: dict[str, Any]) -> Generation:
    """Start generating what the request asks for. Raises RequestError."""
    given = body.get("prompt")
    wanted = prompts_of(given)
    if not wanted:
        raise RequestError(
            f"prompt must be a text, a list of texts, or token ids, got {type(given).__name__}."
        )
    sampling = from_openai(body, COMPLETION_DEFAULT_TOKENS)
    return service.generate(wanted, sampling, streaming=bool(body.get("stream")), request_id=body.get("rid"))


def prompts_of(given: Any) -> list[prompts.Prompt]:
    """A text, a list of texts, token ids, or a list of those, as prompts; empty if it is none of them."""
    if isinstance(given, str):
        return [prompts.from_text(given)]
    if not isinstance(given, list) or not given:
        return []
    if all(isinstance(token, int) for token in given):
        return [prompts.from_ids(given)]
    each = [prompts_of(part) for part in given]
    return [found[0] for found in each] if all(len(found) == 1 for found in each) else []


def failure(message: str) -> dict[str, Any]:
    """The body of a 400 answer."""
    return wire.error(message)


async def whole(service: Service, body: dict[str, Any], generation: Generation) -> dict[str, Any]:
    """The answer in one piece."""
    await envelope.finished(service, generation)
    choices = [_choice(body, s, 0, s.output_tokens, last=True) for s in generation.sequences]
    return envelope.whole(service, body, generation, "text_completion", choices)


async def events(service: Service, body: dict[str, Any], generation: Generation) -> AsyncIterator[bytes]:
    """The answer as server-sent events: a chunk a step, acceptance details, usage."""
    options = body.get("stream_options") or {}
    gives_usage = not service.behaviour.usage_missing
    continuous = gives_usage and options.get("continuous_usage_stats")
    head = envelope.head(body, generation, "text_completion")
    sent: dict[int, int] = {}
    async for output in delivery.outputs(service, generation):
        sequence, start = output.sequence, sent.get(output.sequence.index, 0)
        sent[sequence.index] = output.tokens
        choice = _choice(body, sequence, start, output.tokens, last=output.finish is not None)
        usage = wire.usage(service, [(sequence, output.tokens)]) if continuous else None
        yield wire.event(head | {"choices": [choice], "usage": usage})
    if extension := wire.extension(service, body, generation.sequences):
        yield wire.event(head | {"choices": [], "usage": None, "sglext": extension})
    if options.get("include_usage") and gives_usage:
        counted = [(sequence, sequence.output_tokens) for sequence in generation.sequences]
        usage = wire.without_nulls(wire.usage(service, counted, body.get("n", 1)))
        yield wire.event(head | {"choices": [], "usage": usage})
    yield wire.DONE


def _choice(body: dict[str, Any], sequence: Sequence, start: int, stop: int, *, last: bool) -> dict[str, Any]:
    text = wire.visible_text(sequence, start, stop)
    if body.get("echo") and start == 0:
        text = sequence.prompt.question + text
    finish = sequence.finish if last else None
    return {
        "index": sequence.index,
        "text": text,
        "logprobs": _logprobs(sequence, start, stop) if body.get("logprobs") else None,
        "finish_reason": wire.finish_type(finish),
        "matched_stop": wire.matched_stop(finish),
    }


def _logprobs(sequence: Sequence, start: int, stop: int) -> dict[str, Any]:
    return {
        "text_offset": [-1] * (stop - start),
        "token_logprobs": [wire.logprob(sequence, place) for place in range(start, stop)],
        "tokens": sequence.answer.pieces(start, stop),
        "top_logprobs": [],
    }
