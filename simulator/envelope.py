"""What chat completions and text completions have in common around their choices."""

from __future__ import annotations

import time
from typing import Any

from simulator import delivery, wire
from simulator.service import Generation, Service


def head(body: dict[str, Any], generation: Generation, kind: str) -> dict[str, Any]:
    """The first fields of an answer, or of each of its chunks; `kind` is the field `object`."""
    return {
        "id": generation.request_id,
        "object": kind,
        "created": int(time.time()),
        "model": body.get("model", "default"),
    }


async def finished(service: Service, generation: Generation) -> None:
    """Return when all sequences are at their end."""
    async for _ in delivery.outputs(service, generation):
        pass


def whole(
    service: Service, body: dict[str, Any], generation: Generation, kind: str, choices: list[dict[str, Any]]
) -> dict[str, Any]:
    """The answer in one piece."""
    sequences = generation.sequences
    counted = [(sequence, sequence.output_tokens) for sequence in sequences]
    usage = None if service.behaviour.usage_missing else wire.usage(service, counted, body.get("n", 1))
    answer = head(body, generation, kind) | {
        "choices": choices,
        "usage": usage,
        "metadata": wire.weight_versions(sequences[0].output_tokens),
    }
    extension = wire.extension(service, body, sequences)
    return answer | ({"sglext": extension} if extension else {})
