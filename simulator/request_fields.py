"""What a request asks for: sampling fields of the OpenAI and the native API, checked as SGLang checks them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

COMPLETION_DEFAULT_TOKENS = 16
NATIVE_DEFAULT_TOKENS = 128


class RequestError(ValueError):
    """The request cannot be served; the text is the message of the 400 answer."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to generate. `max_tokens` None is as many as the context holds."""

    max_tokens: int | None = None
    min_tokens: int = 0
    temperature: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    n: int = 1
    schema: dict[str, Any] | None = None


def from_openai(body: dict[str, Any], default_tokens: int | None) -> Sampling:
    """The sampling of a chat or completion request. Raises RequestError in SGLang's words."""
    limit = body.get("max_completion_tokens")
    limit = body.get("max_tokens", default_tokens) if limit is None else limit
    return _checked(
        body, limit, body.get("min_tokens", 0), body.get("seed"), _schema(body.get("response_format"))
    )


def from_native(params: dict[str, Any]) -> Sampling:
    """The sampling of a /generate request's `sampling_params`. Raises RequestError in SGLang's words."""
    limit = params.get("max_new_tokens", NATIVE_DEFAULT_TOKENS)
    return _checked(params, limit, params.get("min_new_tokens", 0), params.get("sampling_seed"), None)


def _checked(
    body: dict[str, Any], limit: Any, least: Any, seed: Any, schema: dict[str, Any] | None
) -> Sampling:
    temperature = body.get("temperature")
    temperature = 1.0 if temperature is None else temperature
    if not isinstance(temperature, int | float) or not math.isfinite(temperature) or temperature < 0:
        raise RequestError(f"temperature must be a non-negative finite number, got {temperature}.")
    top_p = body.get("top_p")
    if top_p is not None and not 0 < top_p <= 1:
        raise RequestError(f"top_p must be in (0, 1], got {top_p}.")
    if limit is not None and not isinstance(limit, int):
        raise RequestError(f"max_new_tokens must be an integer, got {limit!r}.")
    if limit is not None and limit < 0:
        raise RequestError(f"max_new_tokens must be at least 0, got {limit}.")
    if limit is not None and not 0 <= least <= limit:
        raise RequestError(f"min_new_tokens must be in [0, max_new_tokens({limit})], got {least}.")
    stop = body.get("stop") or ()
    n = body.get("n", 1)
    if not isinstance(n, int) or n < 1:
        raise RequestError(f"n must be at least 1, got {n}.")
    return Sampling(
        max_tokens=limit,
        min_tokens=least,
        temperature=float(temperature),
        seed=seed,
        ignore_eos=bool(body.get("ignore_eos", False)),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
        stop_token_ids=tuple(body.get("stop_token_ids") or ()),
        n=n,
        schema=schema,
    )


def _schema(response_format: Any) -> dict[str, Any] | None:
    if not isinstance(response_format, dict):
        return None
    if response_format.get("type") == "json_schema":
        schema = (response_format.get("json_schema") or {}).get("schema")
        return schema if isinstance(schema, dict) else {}
    return {"type": "object"} if response_format.get("type") == "json_object" else None
