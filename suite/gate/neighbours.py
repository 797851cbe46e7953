"""How far sessions differ where each is of another build (nightlies): learned across neighbouring builds.

Between two builds the level may really have stepped; between most it has not. So the spread is what is left about
the best of: one level, one step somewhere, or one session that stands apart. A step of 5 % does not hide in it, nor
does it swell it; two steps do swell it, and then verdicts become inconclusive rather than wrong.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from suite.gate.robust import Array

FEWEST, MOST = 5, 10
"""Sessions: fewer tell nothing once a step may be among them; older ones than the last ten are of another time."""
EXPECTED = {5: 1.207, 6: 1.868, 7: 2.591, 8: 3.343, 9: 4.142, 10: 4.952}
"""Mean of what is left of so many independent normal values of variance 1 (400,000 draws; tests draw it again)."""
WORTH = {5: 2.27, 6: 3.21, 7: 4.12, 8: 5.07, 9: 6.02, 10: 6.97}
"""Degrees of freedom that it is worth: 2 mean^2 / variance, of the same draws."""

CERTAIN = {5: 71.2, 6: 26.8, 7: 14.3, 8: 9.5, 9: 7.1, 10: 5.6}
"""Times what is left, the squares about one level: without a step that is reached in one of 200 (the same draws).

Then there is one, and what is left has lost two degrees of freedom to it and nothing to the search for it.
"""


class Squares(NamedTuple):
    """A sum of squares and its degrees of freedom (N, G): their ratio is an unbiased variance; 0 df: nothing is known."""

    total: Array
    df: Array


def about_one_step(sessions: Array) -> Squares:
    """Of session means (N, S, G) in order of time, NaN where a session has none."""
    if not np.isnan(sessions).any():
        return _squares(sessions)
    total, df = np.zeros(sessions[:, 0].shape), np.zeros(sessions[:, 0].shape)
    for n, g in np.ndindex(total.shape):
        row = sessions[n, :, g]
        one = _squares(row[~np.isnan(row)][None, :, None])
        total[n, g], df[n, g] = one.total[0, 0], one.df[0, 0]
    return Squares(total, df)


def _squares(sessions: Array) -> Squares:
    x = sessions[:, -MOST:]
    number = x.shape[1]
    if number < FEWEST:
        nothing = np.zeros(x[:, 0].shape) if number else np.zeros((x.shape[0], x.shape[2]))
        return Squares(nothing, nothing.copy())
    left = whole = _about_mean(x)
    for k in range(1, number):
        left = np.minimum(left, _about_mean(x[:, :k]) + _about_mean(x[:, k:]))
        left = np.minimum(left, _about_mean(np.delete(x, k, axis=1)))
    df = np.full(left.shape, WORTH[number])
    expected = np.where(whole > CERTAIN[number] * left, number - 2.0, EXPECTED[number])
    return Squares(left / expected * df, df)


def _about_mean(x: Array) -> Array:
    return np.asarray(((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=1))
