"""One sequence being generated: its prompt, its answer, how far it has come and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol

from simulator.answers import Answer
from simulator.prompts import BLOCK_TOKENS, Prompt, blocks_of


class Drafts(Protocol):
    """Says how many drafts a verify step accepts, by its number and the position of its first draft."""

    def accepted(self, step: int, position: int, context_factor: float) -> int: ...


@dataclass(frozen=True, slots=True)
class Finish:
    """Why a sequence ended: SGLang's finish_reason type, and the token id or text that matched."""

    type: Literal["stop", "length", "abort"]
    matched: int | str | None = None


@dataclass(slots=True, eq=False)
class Sequence:
    """A request's share of the batch; a request with n=2 has two."""

    request_id: str
    index: int
    prompt: Prompt
    answer: Answer
    drafts: Drafts
    limit: int
    """The most output tokens it may have."""
    ignore_eos: bool = False
    min_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    streaming: bool = False
    abort_at: int | None = None
    """Output tokens after which the server gives it up."""
    reports: bool = True
    """Does the server that answers it speculate, and say so?"""

    arrival_s: float = 0.0
    admitted_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    cached_tokens: int = 0
    prefilled: int = 0
    output_tokens: int = 0
    text_end: int | None = None
    """Characters of the text that count, where a stop string cuts it."""
    finish: Finish | None = None
    aborted: bool = False
    retractions: int = 0
    verifications: int = 0
    drafts_correct: int = 0
    histogram: list[int] = field(default_factory=list)
    recomputed: int = 0
    """Output tokens that were lost to a retraction and are computed again with the prompt."""
    pinned_blocks: int = 0
    """Blocks of its prompt that the prefix cache holds for it."""
    _scanned: str = ""

    @property
    def held_tokens(self) -> int:
        """Tokens in its context, each with keys and values in memory."""
        return self.prefilled + self.output_tokens - self.recomputed

    @property
    def private_tokens(self) -> int:
        """Those of its tokens that it shares with no other sequence."""
        return max(0, self.held_tokens - self.pinned_blocks * BLOCK_TOKENS)

    @property
    def to_prefill(self) -> int:
        """Tokens still to be computed before it can decode."""
        return self.prompt.tokens + self.recomputed - self.prefilled

    def count_verification(self, correct: int) -> None:
        """One verify step accepted `correct` drafts."""
        self.verifications += 1
        self.drafts_correct += correct
        self.histogram[correct] += 1

    def retract(self) -> None:
        """Lose the KV cache and wait to be computed again."""
        self.retractions += 1
        self.prefilled = 0
        self.recomputed = self.output_tokens

    def grow(self, tokens: int, at_s: float) -> Finish | None:
        """Take up to `tokens` more output tokens at that time; the reason if one of them is the last."""
        if self.first_token_s is None:
            self.first_token_s = at_s
        for _ in range(tokens):
            self.output_tokens += 1
            finish = self._ends_here()
            if finish is not None:
                return self.end(finish, at_s)
        return None

    def end(self, finish: Finish, at_s: float) -> Finish:
        """Record how it ended."""
        self.finish = finish
        self.finished_s = at_s
        return finish

    def all_blocks(self) -> list[int]:
        """The blocks of prompt and answer together, for the prefix cache."""
        text = self.answer.text(0, self.output_tokens)
        return blocks_of(self.prompt.data + text.encode("utf-8", "surrogatepass"))

    def _ends_here(self) -> Finish | None:
        count = self.output_tokens
        if self.abort_at is not None and count >= self.abort_at:
            return Finish("abort")
        if count > self.min_tokens:
            if not self.ignore_eos and self.answer.ends_at(count):
                return Finish("stop", self.answer.eos_token_id)
            if self.stop_token_ids:
                token = self.answer.ids(count - 1, count)[0]
                if token in self.stop_token_ids:
                    return Finish("stop", token)
            if self.stop:
                found = self._stop_string()
                if found is not None:
                    return Finish("stop", found)
        return Finish("length", count) if count >= self.limit else None

    def _stop_string(self) -> str | None:
        self._scanned += self.answer.text(self.output_tokens - 1, self.output_tokens)
        for stop in self.stop:
            place = self._scanned.find(stop)
            if place >= 0:
                self.text_end = place
                return stop
        return None
