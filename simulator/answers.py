"""What the modelled model answers: a text made of tokens that depends on the prompt alone, with MTP and without."""

from __future__ import annotations

import re
import zlib
from random import Random
from typing import Any

from simulator.kinds import Kind, kind_of, without_tag
from simulator.phrases import GARBAGE, PHRASES, THOUGHTS
from simulator.prompts import Prompt
from simulator.replies import reply_to

THINK_END = "</think>"
VOCABULARY = 248_320
_PIECE = re.compile(r" ?[A-Za-z]{1,8}| ?\d{1,3}|\n+| ?[^\sA-Za-z\d]|\s")
_SHORT = re.compile(r"\b(?:briefly|one sentence|in short|one word)\b", re.IGNORECASE)
PARTS_ONCE_IN = 90
"""Tokens after which, on average, an answer of a build that rounds otherwise goes another way. On genuine SGLang, with
float32 in place of bfloat16, 18 of 24 answers of 128 tokens had."""
_WORDS = re.compile(r"\b(\d{1,5})[ -]words?\b", re.IGNORECASE)


def pieces_of(text: str) -> list[str]:
    """A text as tokens; joined they are the text again."""
    return _PIECE.findall(text)


def _id_of(piece: str) -> int:
    return zlib.crc32(piece.encode("utf-8", "surrogatepass")) % VOCABULARY


class Answer:
    """The tokens of one answer, made as they are asked for.

    `natural_end` counts the tokens up to and including the end-of-sequence token; past it (ignore_eos) the model
    repeats itself. `seed` depends on the whole prompt, `theme` on what is asked, whatever tag makes it unique. With
    `thinking` the first `reasoning_tokens` are thought, ended by `</think>`. A `build` other than 0 rounds otherwise:
    from token number `parts_at` on its text is another, as good as the first; what can be checked stays right.
    """

    def __init__(
        self,
        prompt: Prompt,
        *,
        seed: int = 0,
        thinking: bool = False,
        schema: dict[str, Any] | None = None,
        eos_token_id: int = 0,
        garbage: bool = False,
        build: int = 0,
    ) -> None:
        self.kind: Kind = kind_of(prompt.question)
        self.theme = zlib.crc32(without_tag(prompt.question).encode("utf-8", "surrogatepass"))
        self.seed = zlib.crc32(seed.to_bytes(8, "big", signed=True), prompt.seed)
        self.eos_token_id = eos_token_id
        self.reasoning_tokens = 0
        self.natural_end: int | None = None
        self._random = Random(self.seed)
        self._source = GARBAGE if garbage else PHRASES[self.kind]
        self._pieces: list[str] = []
        reply = reply_to(prompt.question, schema) if not garbage else None
        self._other = Random(f"{self.seed}/{build}")
        self.build = build
        self.parts_at: int | None = None
        if build and reply is None:
            self.parts_at = 1 + int(self._other.expovariate(1 / PARTS_ONCE_IN))
        if thinking:
            self._think(short=reply is not None)
        if reply is not None:
            self._pieces += pieces_of(reply)
            self.natural_end = len(self._pieces) + 1
        elif not garbage:
            self.natural_end = len(self._pieces) + self._length(prompt.question)

    def _think(self, short: bool) -> None:
        wanted = self._random.randint(16, 32) if short else self._random.randint(150, 400)
        while len(self._pieces) < wanted:
            self._add(THOUGHTS)
        self._pieces += [THINK_END, "\n\n"]
        self.reasoning_tokens = len(self._pieces) - 1

    def _add(self, source: tuple[str, ...]) -> None:
        """One more phrase; where the answer parts from that of build 0, the rest is of the other build's choosing."""
        parts_at = self.parts_at
        before = len(self._pieces)
        parted = parts_at is not None and before >= parts_at
        self._pieces += pieces_of((self._other if parted else self._random).choice(source))
        if parts_at is not None and before < parts_at < len(self._pieces):
            del self._pieces[parts_at:]

    def _length(self, question: str) -> int:
        if words := _WORDS.search(question):
            return max(2, int(int(words[1]) * 1.3 * self._random.uniform(0.95, 1.1)))
        return self._random.randint(30, 60) if _SHORT.search(question) else self._random.randint(1400, 3200)

    def cut(self, tokens: int) -> None:
        """End naturally after `tokens` tokens at the latest."""
        self.natural_end = min(self.natural_end or tokens, max(1, tokens))
        del self._pieces[self.natural_end - 1 :]

    def ends_at(self, count: int) -> bool:
        """Is the token that makes `count` tokens the end-of-sequence token?"""
        return count == self.natural_end

    def text(self, start: int, stop: int) -> str:
        """The text of tokens [start, stop)."""
        return "".join(self.pieces(start, stop))

    def ids(self, start: int, stop: int) -> list[int]:
        """Token ids of tokens [start, stop)."""
        end = self.natural_end
        pieces = enumerate(self.pieces(start, stop), start + 1)
        return [self.eos_token_id if place == end else _id_of(piece) for place, piece in pieces]

    def pieces(self, start: int, stop: int) -> list[str]:
        """The tokens [start, stop) as text; the end-of-sequence token has none."""
        while len(self._pieces) < stop:
            self._grow()
        return self._pieces[start:stop]

    def _grow(self) -> None:
        end, have = self.natural_end, len(self._pieces)
        if end is None or have < end - 1:
            self._add(self._source)
            if end is not None:
                del self._pieces[end - 1 :]
        elif have == end - 1:
            self._pieces.append("")
        else:
            before = self._pieces[max(0, end - 17) : end - 1] or [" and"]
            self._pieces += before
