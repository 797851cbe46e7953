"""How far a change may be off: a variance, and how well it is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from suite.gate.robust import Array, t_quantile, t_tail


@dataclass(frozen=True)
class Spread:
    """A variance and the degrees of freedom it is worth, (N, G)."""

    variance: Array
    df: Array

    @property
    def se(self) -> Array:
        """Standard error."""
        return np.sqrt(self.variance)

    def bound(self, level: float | Array) -> Array:
        """Half-width of a one-sided interval of that level."""
        return t_quantile(level, self.df) * self.se

    def p(self, change: Array) -> Array:
        """One-sided p of a change this large."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return t_tail(change / self.se, self.df)
