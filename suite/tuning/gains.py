"""By how much one arm is faster than another, with an interval: paired round by round, since both had the same prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from suite.tuning.cells import Place, TuningCell

LAUNCH_SD = 0.005
"""By how much launches of one arm are taken to differ where two or more did not show it: half a per cent, as the gate supposes of sessions."""
LAUNCH_DF = 4.0
"""How many launches' worth of evidence that is, once launches show their own."""
STATED_DF = 60.0
"""Degrees of freedom of what is supposed and not seen."""

Cells = Mapping[Place, TuningCell]


@dataclass(frozen=True, slots=True)
class Gain:
    """Tokens/s of an arm over another's, as a log ratio with its standard error and degrees of freedom."""

    log: float
    error: float
    df: float

    @property
    def change(self) -> float:
        """Relative: 0.5 is half as fast again."""
        return math.expm1(self.log)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The two-sided interval of :attr:`change`."""
        reach = float(stats.t.ppf(0.5 + confidence / 2, self.df)) * self.error
        return math.expm1(self.log - reach), math.expm1(self.log + reach)

    def at_most(self, confidence: float = 0.95) -> float:
        """The change that is not exceeded, one-sided."""
        return math.expm1(self.log + float(stats.t.ppf(confidence, self.df)) * self.error)


def gain(cells: Cells, arm: str, over: str, clients: int, kinds: Iterable[str]) -> Gain | None:
    """Of ``arm`` over ``over`` with so many clients, kinds of content weighing alike; ``None`` where it is not known.

    Rounds differ by their prompts and by chance: what the differences of a kind and launch scatter by. Launches differ
    too, and asking one longer tells nothing of that: two launches of an arm show it, one is taken to differ by
    ``LAUNCH_SD``.
    """
    groups = [
        (launch, _differences(cells, arm, over, clients, kind, launch))
        for kind in kinds
        for launch in _launches(cells, clients)
    ]
    known = [(launch, values) for launch, values in groups if len(values)]
    if not known or len(known) < len(groups):
        return None
    count = sum(len(values) for _, values in known)
    df = count - len(known)
    if df < 1:
        return None
    within = sum(float(((values - values.mean()) ** 2).sum()) for _, values in known) / df
    by_launch: dict[int, list[float]] = {}
    for launch, values in known:
        by_launch.setdefault(launch, []).append(float(values.mean()))
    means = [float(np.mean(values)) for values in by_launch.values()]
    of_rounds = within / count
    of_launches, launch_df = _launch_variance(means)
    variance = of_rounds + of_launches / len(means)
    satterthwaite = variance**2 / (of_rounds**2 / df + (of_launches / len(means)) ** 2 / launch_df)
    return Gain(float(np.mean(means)), math.sqrt(variance), satterthwaite)


def _launch_variance(means: Sequence[float]) -> tuple[float, float]:
    """Of the difference between a launch of one arm and a launch of another, with its degrees of freedom."""
    stated, seen = 2 * LAUNCH_SD**2, len(means) - 1
    if not seen:
        return stated, STATED_DF
    spread = float(np.var(means, ddof=1)) * seen
    return (LAUNCH_DF * stated + spread) / (LAUNCH_DF + seen), LAUNCH_DF + seen


def _differences(cells: Cells, arm: str, over: str, clients: int, kind: str, launch: int) -> np.ndarray:
    mine, other = (cells.get((name, kind, clients, launch)) for name in (arm, over))
    if mine is None or other is None:
        return np.empty(0)
    pairs = zip(mine.tokens_per_s, other.tokens_per_s, strict=False)
    return np.array([math.log(a / b) for a, b in pairs if a and b])


def _launches(cells: Cells, clients: int) -> list[int]:
    return sorted({cell.launch for cell in cells.values() if cell.clients == clients})
