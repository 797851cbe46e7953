"""What one event of a stream may hold, as msgspec checks it: usage, choices, SGLang's speculation counters, an error."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    completion_tokens: int | None = None
    prompt_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    reasoning_tokens: int | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None  # the name other servers use


class Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class Spec(msgspec.Struct):
    spec_verify_ct: int | None = None
    spec_num_correct_drafts: int | None = None
    spec_num_proposed_drafts: int | None = None
    spec_correct_drafts_histogram: list[int] | None = None


class Extension(msgspec.Struct):
    spec_tokens_details: Spec | list[Spec] | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice] | None = None
    usage: Usage | None = None
    sglext: Extension | None = None
    error: Any = None
    object: str | None = None


class PlainUsage(msgspec.Struct, gc=False):
    completion_tokens: int
    prompt_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    reasoning_tokens: int | None = None


class PlainChoice(msgspec.Struct, gc=False):
    index: Literal[0] = 0
    delta: Delta | None = None
    text: str | None = None
    finish_reason: None = None


class Plain(msgspec.Struct, gc=False):
    """A `Chunk` that says nothing but how many tokens there are by now, as nearly all do. Types as strict as there."""

    choices: tuple[PlainChoice]
    usage: PlainUsage
    sglext: None = None
    error: None = None
    object: Literal["chat.completion.chunk", "text_completion", None] = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_chunks = msgspec.json.Decoder(list[Chunk]).decode
decode_plain = msgspec.json.Decoder(list[Plain]).decode
