"""Text completions of a few tokens, which no chat is: asked alone, in a batch and after a cached prefix, in chosen lengths.

Releases have had speculation broken for prompts of fewer than some twenty tokens alone, and a chat template is longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from suite.load import ClosedLoop, Prompt, Round, Sampling, Workload, cache, contexts, play
from suite.session.outcomes import InvalidMeasurement
from suite.session.running_arm import RunningArm

SHORT = (1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65)
"""Prompt tokens: the shortest there are, and around the sizes in which caches and kernels divide a prompt."""
AFTER_PREFIX = "after a cached prefix"
CHUNK_MOST = 4096
"""Tokens of the largest chunk whose sides are asked too: longer prompts cost more than they tell."""
ANSWER_TOKENS = 12
TOGETHER = 8
CHARS_A_TOKEN = 4.0
FITTING = 3
PREFIX_TOKENS = 80
DOCUMENT = 977
"""Which of the suite's documents the prompts are the beginnings of; another one than any workload's."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer: how many prompt tokens the server counted, its text and tokens."""

    prompt_tokens: int
    text: str
    tokens: int


def sizes(resolved: Mapping[str, Any]) -> list[int]:
    """The lengths to ask of a server: the short ones, and the sides of its cache's page and of its prefill chunk."""
    marks = [resolved.get("page_size"), resolved.get("chunked_prefill_size")]
    sides = [
        mark + step
        for mark in marks
        if isinstance(mark, int) and 1 < mark <= CHUNK_MOST
        for step in (-1, 0, 1)
    ]
    limit = resolved.get("context_length")
    most = limit - ANSWER_TOKENS - 1 if isinstance(limit, int) else CHUNK_MOST + 1
    return sorted({size for size in (*SHORT, *sides) if size <= most})


class TextCompletions:
    """Asks one server."""

    def __init__(self, served: RunningArm) -> None:
        self._served = served
        self._text = contexts.text(int(CHUNK_MOST * CHARS_A_TOKEN * 2), DOCUMENT)

    def answers(self) -> dict[str, Completion]:
        """All answers, by the way of asking and the length that was meant: ``16 tokens, alone``.

        Raises:
            InvalidMeasurement: not one request was answered.
        """
        wanted = sizes(self._served.info.resolved)
        cuts = self._fitted(wanted)
        prompts = [self._text[:cut] for cut in cuts.values()]
        found: dict[str, Completion] = {}
        for way, clients in (("alone", 1), ("in a batch", TOGETHER)):
            self._flush()
            found |= dict(_named(cuts, way, self._play(prompts, clients)))
        prefix = contexts.text(int(PREFIX_TOKENS * CHARS_A_TOKEN), DOCUMENT + 1)
        self._flush()
        self._play([prefix], 1)
        longer = {size: cut for size, cut in cuts.items() if size <= max(SHORT)}
        cached = self._play([f"{prefix} {self._text[:cut]}" for cut in longer.values()], TOGETHER)
        return found | dict(_named(longer, AFTER_PREFIX, cached))

    def ask(self, texts: Sequence[str], max_tokens: int) -> list[str | None]:
        """Have some texts continued, one at a time; ``None`` for an answer that did not come."""
        played = self._play(texts, 1, max_tokens, ignore_eos=False)
        return [r.text if r.ok else None for r in sorted(played.requests, key=lambda r: r.index)]

    def _fitted(self, wanted: Sequence[int]) -> dict[int, int]:
        """Where to cut the text for prompts of so many tokens, as this server counts them, or as near as comes."""
        cuts = {size: max(1, round(size * CHARS_A_TOKEN)) for size in wanted}
        nearest: dict[int, tuple[int, int]] = {}
        for _ in range(FITTING):
            played = self._play([self._text[:cut] for cut in cuts.values()], TOGETHER, 1)
            told = {r.index: r.prompt_tokens for r in played.ok}
            for place, (size, cut) in enumerate(list(cuts.items())):
                count = told.get(place)
                if count is None:
                    continue
                off = abs(count - size)
                nearest[size] = min(nearest.get(size, (off, cut)), (off, cut))
                cuts[size] = max(1, cut + round((size - count) * cut / max(count, 1)))
            if all(off == 0 for off, _ in nearest.values()) and len(nearest) == len(cuts):
                break
        return {size: nearest[size][1] if size in nearest else cut for size, cut in cuts.items()}

    def _play(
        self, texts: Sequence[str], clients: int, max_tokens: int = ANSWER_TOKENS, *, ignore_eos: bool = True
    ) -> Round:
        limits = self._served.target.timeouts
        prompts = tuple(
            Prompt(f"text-{place}", "text", ({"role": "user", "content": text},))
            for place, text in enumerate(texts)
        )
        played = play(
            replace(self._served.endpoint, api="completions"),
            Workload("text completions", prompts, requests=len(prompts)),
            ClosedLoop(clients, len(prompts)),
            sampling=Sampling(max_tokens, temperature=0.0, ignore_eos=ignore_eos),
            timeout_s=limits.request_s,
            stall_s=limits.stall_s,
            keep_text=True,
        )
        self._served.server.check()
        if not played.ok:
            raise InvalidMeasurement(
                f"no text completion was answered; the first: {played.requests[0].fault}"
            )
        return played

    def _flush(self) -> None:
        cache.flush(self._served.endpoint)


def _named(cuts: Mapping[int, int], way: str, played: Round) -> Iterator[tuple[str, Completion]]:
    """Answers under names that the same prompts have in every arm."""
    names = [f"{size} tokens, {way}" for size in cuts]
    for record in played.ok:
        yield (
            names[record.index],
            Completion(record.prompt_tokens or 0, record.text or "", record.completion_tokens or 0),
        )
