"""Which drafts are accepted: a draw that depends on the prompt, the position and the kind of content, not on time."""

from __future__ import annotations

import math
from random import Random

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
PROMPT_SHIFT = 0.03
GOLDEN = 0.6180339887498949


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


class Agreement:
    """The drafts of one answer.

    At each verify step a number in [0, 1) decides how far the chain is accepted. The numbers depend on what is asked
    (`theme`), a little on the very prompt (`seed`), and on the step's place in the answer; not on time or company.
    They are spread evenly (multiples of the golden ratio), so that answers of a few hundred tokens differ by less than
    one percent in acceptance length.
    """

    __slots__ = ("_chances", "_natural_end", "_offset")

    def __init__(
        self, theme: int, kind: Kind, steps: int, factor: float, natural_end: int | None, seed: int = 0
    ) -> None:
        self._offset = Random(theme).random() + PROMPT_SHIFT * Random(seed).random()
        self._chances = [min(1.0, agreement(kind, depth) * factor) for depth in range(1, steps + 1)]
        self._natural_end = natural_end

    def accepted(self, step: int, position: int, context_factor: float) -> int:
        """How many drafts verify step number `step` accepts, its first draft standing at `position` of the answer."""
        number = (self._offset + step * GOLDEN) % 1.0
        repeating = self._natural_end is not None and position > self._natural_end
        alive = 1.0
        for depth, chance in enumerate(self._chances):
            alive *= (max(chance, REPETITION) if repeating else chance) * context_factor
            if number >= alive:
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
