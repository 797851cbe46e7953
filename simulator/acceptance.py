"""Which drafts are accepted: each token of an answer is as hard to guess as it is, whoever guesses and whenever."""

from __future__ import annotations

import math
import zlib
from random import Random
from statistics import NormalDist

from simulator.kinds import Kind

# The chance that the draft at depth 1, 2, 3 ... is what the model says, given that the ones before it were.
# Chosen so that three steps give an acceptance length of 3.3 to 3.5 on code and maths and less on prose (the published
# range); deeper drafts agree less.
AGREEMENT: dict[Kind, tuple[float, ...]] = {
    "json": (0.95, 0.91, 0.88, 0.85, 0.82),
    "code": (0.92, 0.87, 0.83, 0.80, 0.77),
    "maths": (0.91, 0.86, 0.82, 0.79, 0.76),
    "prose": (0.79, 0.71, 0.65, 0.60, 0.56),
    "multilingual": (0.75, 0.67, 0.61, 0.56, 0.52),
}
DEEPER = 0.96
REPETITION = 0.97
TEMPERATURE_LOSS = 0.08
CONTEXT_LOSS = 0.012
CONTEXT_UNIT = 4096
GOLDEN = 0.6180339887498949

PROMPT_SPREAD = 0.18
PASSAGE_SPREAD = 0.3
PASSAGE_TOKENS = 32
"""How far whole prompts, and passages within an answer, are easier or harder than their kind: standard deviations beside
one of 1 for a single token. So prompts of a kind differ by 5 % (code) to 9 % (prose) in acceptance length however
long they run, and 256 tokens of one of them by another 4 to 7 %: as seen on real prompts (5 to 13 % at 96 to 256)."""
_ALL_SPREAD = math.sqrt(1.0 + PROMPT_SPREAD**2 + PASSAGE_SPREAD**2)
_NORMAL = NormalDist()
_BITS = (1 << 64) - 1


def agreement(kind: Kind, depth: int) -> float:
    """The chance that a draft at this depth (1 is the first) agrees, the earlier ones having agreed."""
    known = AGREEMENT[kind]
    return known[depth - 1] if depth <= len(known) else known[-1] * DEEPER ** (depth - len(known))


def expected_length(kind: Kind, steps: int, factor: float = 1.0) -> float:
    """The acceptance length a chain of `steps` drafts gives in the long run, every chance times `factor`."""
    length, alive = 1.0, 1.0
    for depth in range(1, steps + 1):
        alive *= min(1.0, agreement(kind, depth) * factor)
        length += alive
    return length


def factor_for_loss(kind: Kind, steps: int, loss: float) -> float:
    """The factor on every chance that makes the acceptance length shorter by `loss` of itself (not below 1.0)."""
    wanted = max(1.0, expected_length(kind, steps) * (1.0 - loss))
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if expected_length(kind, steps, middle) < wanted:
            low = middle
        else:
            high = middle
    return high


def _draw(seed: int, place: int) -> float:
    """A number in (0, 1) for this place of this stream, in any order of asking (splitmix64, Steele et al. 2014)."""
    x = (seed * 0xD1342543DE82EF95 + place * 0x9E3779B97F4A7C15) & _BITS
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _BITS
    return ((x ^ (x >> 31)) + 0.5) / 2.0**64


def _stream(*parts: int) -> int:
    return zlib.crc32("/".join(map(str, parts)).encode())


class Difficulty:
    """How hard the tokens of one answer are to guess, each a number in (0, 1), evenly distributed over all answers.

    theme: what is asked; it makes the whole answer easier or harder, in every build. seed: the very prompt, or the draw
    of a sampled answer. From token number `parts_at` on the text is another, that of `build`, and so is its difficulty.
    """

    __slots__ = ("_parts_at", "_passage", "_passage_shift", "_shift", "_streams")

    def __init__(self, theme: int, seed: int, parts_at: int | None = None, build: int = 0) -> None:
        self._shift = PROMPT_SPREAD * _NORMAL.inv_cdf(_draw(_stream(theme), 0))
        self._streams = (_stream(seed), _stream(seed, build))
        self._parts_at = parts_at
        self._passage = -1
        self._passage_shift = 0.0

    def at(self, place: int) -> float:
        """The difficulty of output token number `place`, counted from 0."""
        parted = self._parts_at is not None and place >= self._parts_at
        stream = self._streams[parted]
        passage = 2 * (place // PASSAGE_TOKENS) + parted
        if passage != self._passage:
            self._passage = passage
            self._passage_shift = PASSAGE_SPREAD * _NORMAL.inv_cdf(_draw(stream + 1, passage))
        own = _NORMAL.inv_cdf(_draw(stream, place))
        return _NORMAL.cdf((own + self._shift + self._passage_shift) / _ALL_SPREAD)


class Agreement:
    """The drafts of one answer: the one at a depth is right if its chance is above the difficulty of its token.

    Nothing depends on time or company, so a greedy answer is drafted alike in every launch of a build; and a worse
    draft of the same text fails where the better one did, and at some places more.
    """

    __slots__ = ("_chances", "_difficulty", "_natural_end")

    def __init__(
        self, difficulty: Difficulty, kind: Kind, steps: int, factor: float, natural_end: int | None
    ) -> None:
        self._difficulty = difficulty
        self._chances = [min(1.0, agreement(kind, depth) * factor) for depth in range(1, steps + 1)]
        self._natural_end = natural_end

    def accepted(self, step: int, position: int, context_factor: float) -> int:
        """How many drafts are accepted by a verify step whose first draft stands at `position` of the answer."""
        repeating = self._natural_end is not None and position > self._natural_end
        for depth, chance in enumerate(self._chances):
            if repeating:
                chance = max(chance, REPETITION)
            if self._difficulty.at(position + depth) >= chance * context_factor:
                return depth
        return len(self._chances)


def context_factor(context_tokens: int) -> float:
    """How the chances fall as the context grows."""
    return 1.0 - CONTEXT_LOSS * math.log2(1.0 + context_tokens / CONTEXT_UNIT)


def temperature_factor(temperature: float) -> float:
    """How the chances fall as sampling gets freer."""
    return 1.0 - TEMPERATURE_LOSS * min(temperature, 2.0)


class ForcedAgreement:
    """Drafts accepted to a set mean length, as SGLang does under SGLANG_SIMULATE_ACC_LEN."""

    __slots__ = ("_drafts", "_offset")

    def __init__(self, seed: int, length: float, steps: int) -> None:
        self._offset = Random(seed).random()
        self._drafts = min(max(length - 1.0, 0.0), float(steps))

    def accepted(self, step: int, position: int, context_factor: float) -> int:
        """The whole part of the wanted drafts, and one more as often as its fraction says."""
        whole = int(self._drafts)
        return whole + ((self._offset + step * GOLDEN) % 1.0 < self._drafts - whole)
