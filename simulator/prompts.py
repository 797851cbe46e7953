"""Prompts as the modelled server sees them: how many tokens, and blocks that prefixes are compared by."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

BYTES_PER_TOKEN = 4
BLOCK_TOKENS = 16


@dataclass(frozen=True)
class Prompt:
    """A rendered prompt: `data` is its text in UTF-8 (or its token ids, four bytes each), a token is four bytes."""

    data: bytes
    question: str
    """What the answer is to be about: the last user message, or the whole text."""

    @cached_property
    def tokens(self) -> int:
        """Its length in tokens."""
        return -(-len(self.data) // BYTES_PER_TOKEN)

    @cached_property
    def seed(self) -> int:
        """A number that depends on the prompt alone, the same in every process."""
        return zlib.crc32(self.data)

    @cached_property
    def blocks(self) -> list[int]:
        """One chained hash for every whole block of `BLOCK_TOKENS` tokens."""
        return blocks_of(self.data)


def blocks_of(data: bytes) -> list[int]:
    """Chained hashes of the whole blocks: two texts share as many leading ones as they share leading blocks."""
    size = BLOCK_TOKENS * BYTES_PER_TOKEN
    chain, blocks = 0, []
    for start in range(0, len(data) - size + 1, size):
        chain = hash((chain, data[start : start + size]))
        blocks.append(chain)
    return blocks


def from_text(text: str) -> Prompt:
    """A raw text prompt, of /generate or /v1/completions."""
    return Prompt(text.encode("utf-8", "surrogatepass"), text)


def from_ids(ids: Sequence[int]) -> Prompt:
    """A prompt given as token ids."""
    return Prompt(b"".join(int(token).to_bytes(BYTES_PER_TOKEN, "big") for token in ids), "")


def from_messages(messages: Sequence[Mapping[str, Any]], thinking: bool | None) -> Prompt:
    """A chat rendered as Qwen's template does; `thinking` None is a model that does not think."""
    parts, question = [], ""
    for message in messages:
        text = _content(message.get("content"))
        if message.get("role") == "user":
            question = text
        parts.append(f"<|im_start|>{message.get('role')}\n{text}<|im_end|>\n")
    parts.append("<|im_start|>assistant\n")
    if thinking is not None:
        parts.append("<think>\n" if thinking else "<think>\n\n</think>\n\n")
    return Prompt("".join(parts).encode("utf-8", "surrogatepass"), question)


def _content(content: object) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
