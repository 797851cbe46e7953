"""Acceptance of two builds compared prompt by prompt: the only comparison that a change of rounding does not fool.

At temperature 0 one build answers the same every time, so recorded sessions of it show no spread at all; the next
build's answers part from them after some tokens, and acceptance moves although nothing got worse. What tells how
far is how differently the prompts moved, in this very comparison. Values are y = -ln(acceptance), + = worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from suite.gate.robust import NO_LIMIT, Array, mean, satterthwaite
from suite.gate.spread import Spread

ANSWER_SD = 0.10
"""What one prompt's acceptance is said to move by between builds where no prompts can be compared."""
ANSWER_DF = 12.0
NO_SPREAD = 1e-4
"""Standard error of a difference that is the same for every prompt: below what is printed, above 0."""


@dataclass(frozen=True)
class Pairs:
    """The same prompts asked of both sides: `base` (N, S, P), `new` (N, L, P); NaN where a prompt has no answer."""

    base: Array
    new: Array

    def first(self, launches: int) -> Pairs:
        """The same when the run had only the first so many launches."""
        return replace(self, new=self.new[:, :launches])

    @cached_property
    def differences(self) -> Array:
        """Of each prompt, (N, P): mean over launches minus mean over sessions."""
        return mean(self.new, 1) - mean(self.base, 1)

    @property
    def number(self) -> Array:
        """Prompts answered by both sides, (N,)."""
        return np.asarray(np.sum(~np.isnan(self.differences), axis=1), dtype=float)

    @cached_property
    def change(self) -> tuple[Array, Spread]:
        """Mean difference over the prompts (N,), and the spread that Student's t with prompts - 1 df gives it.

        Of fewer than two prompts nothing can be learned: then what an answer moves by is stated, not measured.
        """
        d, n = self.differences, self.number
        centre = mean(d, 1)
        squares = np.nansum((d - centre[:, None]) ** 2, axis=1)
        learned = squares / np.maximum(n - 1, 1) / np.maximum(n, 1)
        alone = n < 2
        variance = np.where(alone, 2 * ANSWER_SD**2, np.maximum(learned, NO_SPREAD**2))
        return centre, Spread(variance, np.where(alone, ANSWER_DF, n - 1))


@dataclass(frozen=True)
class Borne:
    """What a column owes to acceptance. The column itself holds the rest: what it would be at one token a step.

    pairs: whose acceptance; column: index of the acceptance column that judges it, None where none does; share: of
    the value that follows acceptance (1: all of it; less where a part of the time is prefill).
    """

    pairs: Pairs
    column: int | None
    share: float

    @cached_property
    def change(self) -> tuple[Array, Spread]:
        """What acceptance adds to the change of the column (N,), and its spread."""
        centre, spread = self.pairs.change
        return self.share * centre, Spread(self.share**2 * spread.variance, spread.df)


@dataclass(frozen=True)
class AcceptanceColumns:
    """How the columns of a run depend on acceptance.

    judged: columns that are acceptance, compared prompt by prompt; borne: columns that are steps times acceptance;
    unknown: columns that acceptance moves and whose baseline does not tell how far: variance to be added, with df.
    """

    judged: Mapping[int, Pairs]
    borne: Mapping[int, Borne]
    unknown: Mapping[int, Spread]

    def first(self, launches: int) -> AcceptanceColumns:
        """The same when the run had only the first so many launches."""
        return AcceptanceColumns(
            {g: pairs.first(launches) for g, pairs in self.judged.items()},
            {g: replace(b, pairs=b.pairs.first(launches)) for g, b in self.borne.items()},
            self.unknown,
        )


NO_ACCEPTANCE = AcceptanceColumns({}, {}, {})


def added(spread: Spread, more: Spread) -> Spread:
    """The spread of a sum of two independent parts."""
    total = spread.variance + more.variance
    df = satterthwaite([(spread.variance, spread.df), (more.variance, more.df)], total)
    return Spread(total, np.where(more.variance > 0, df, spread.df))


def by_prompt(spread: Spread, acceptance: AcceptanceColumns) -> Spread:
    """Spread of each column (N, G): what the prompts say where they were compared, and what is not known on top."""
    variance, df = (np.array(part, dtype=float) for part in (spread.variance, spread.df))
    for g, pairs in acceptance.judged.items():
        told = pairs.change[1]
        variance[:, g], df[:, g] = told.variance, told.df
    for g, unknown in acceptance.unknown.items():
        both = added(Spread(variance[:, g], df[:, g]), unknown)
        variance[:, g], df[:, g] = both.variance, both.df
    return Spread(variance, df)


def accepted_by(shape: tuple[int, ...], acceptance: AcceptanceColumns) -> tuple[Array, Spread]:
    """What acceptance adds to each column, of that shape (N, G), with its spread; 0 where it adds nothing."""
    change, variance, df = np.zeros(shape), np.zeros(shape), np.full(shape, NO_LIMIT)
    for g, borne in acceptance.borne.items():
        centre, spread = borne.change
        change[:, g], variance[:, g], df[:, g] = centre, spread.variance, spread.df
    return change, Spread(variance, df)


def carried(moved: NDArray[np.bool_], acceptance: AcceptanceColumns) -> NDArray[np.bool_]:
    """Columns (N, G) whose acceptance has moved, by the test of the column that judges it."""
    found = np.zeros_like(moved)
    for g, borne in acceptance.borne.items():
        if borne.column is not None:
            found[:, g] = moved[:, borne.column]
    return found
