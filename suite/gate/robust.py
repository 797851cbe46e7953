"""Small-sample arithmetic: robust centres, variances that borrow strength from each other, Holm's procedure.

Every function works on whole arrays with any leading shape, so that one run and ten thousand simulated runs go
through the same code. NaN means "not measured" and is skipped.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import special

Array: TypeAlias = NDArray[np.float64]

TRIM = 0.2
NO_LIMIT = 1e6
"""Degrees of freedom that stand for infinity: arithmetic with them stays finite."""


def mean(x: Array, axis: int) -> Array:
    """Mean over `axis` without the NaNs; NaN where nothing is left."""
    if x.shape[axis] and not np.isnan(x).any():
        return np.asarray(x.mean(axis=axis))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmean(x, axis=axis))


def median(x: Array, axis: int) -> Array:
    """Median over `axis` without the NaNs; NaN where nothing is left."""
    if x.shape[axis] and not np.isnan(x).any():
        return np.asarray(np.median(x, axis=axis))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.asarray(np.nanmedian(x, axis=axis))


def trimmed_mean(x: Array) -> Array:
    """20 % trimmed mean over the last axis (five rounds: the middle three), without the NaNs.

    One or two values: their mean. A round that a garbage collection or a neighbour stretched does not count.
    """
    ordered = np.sort(x, axis=-1)  # NaNs go last
    count = np.sum(~np.isnan(ordered), axis=-1, keepdims=True)
    cut = np.floor(count * TRIM).astype(int)
    place = np.arange(x.shape[-1])
    kept = (place >= cut) & (place < count - cut)
    total = np.where(kept, ordered, 0.0).sum(axis=-1)
    number = kept.sum(axis=-1)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def trigamma_inverse(y: Array) -> Array:
    """x with trigamma(x) = y, for y > 0 (Newton's iteration of Smyth 2004, limma's `trigammaInverse`)."""
    y = np.asarray(y, dtype=float)
    x = np.where(y > 10, 1 / np.sqrt(y), 0.5 + 1 / y)
    for _ in range(8):
        tri = special.polygamma(1, x)
        x = x + tri * (1.0 - tri / y) / special.polygamma(2, x)
    x = np.where(y > 1e7, 1.0 / np.sqrt(y), x)
    return np.where(y < 1e-6, 1.0 / y, x)


class Shrunk(NamedTuple):
    """Variances after shrinking, and the degrees of freedom they are worth."""

    variance: Array
    df: Array


def squeeze(
    variance: Array, df: Array, *, cap: float, fit: NDArray[np.bool_], use: NDArray[np.bool_]
) -> Shrunk:
    """Empirical Bayes: each variance (last axis: metrics) moves towards what the metrics have in common.

    A scaled inverse chi-square prior is fitted by moments of the log variances (Smyth 2004, doi:10.2202/
    1544-6115.1027; limma's fitFDist), worth at most `cap` degrees of freedom. It is fitted to the entries with
    `fit` and applied to those with `use`; the others come back as they are. Fewer than three entries cannot tell
    how far variances differ: no shrinking.
    """
    able = (df > 0) & (variance > 0)
    apply, use = use & able, fit & able
    n = use.sum(axis=-1, keepdims=True)
    safe_df = np.where(use, df, 1.0)
    safe_var = np.where(use, variance, 1.0)
    z = np.log(safe_var) - special.digamma(safe_df / 2) + np.log(safe_df / 2)
    z = np.where(use, z, 0.0)
    centre = z.sum(axis=-1, keepdims=True) / np.maximum(n, 1)
    spread = np.where(use, (z - centre) ** 2, 0.0).sum(axis=-1, keepdims=True) / np.maximum(n - 1, 1)
    noise = np.where(use, special.polygamma(1, safe_df / 2), 0.0).sum(axis=-1, keepdims=True) / np.maximum(
        n, 1
    )
    excess = spread - noise
    finite = excess > 1e-9
    prior_df = np.where(finite, 2 * trigamma_inverse(np.where(finite, excess, 1.0)), NO_LIMIT)
    pooled = np.where(use, variance, 0.0).sum(axis=-1, keepdims=True) / np.maximum(n, 1)
    fitted = np.exp(centre + special.digamma(prior_df / 2) - np.log(prior_df / 2))
    prior = np.where(finite, fitted, pooled)
    prior_df = np.where(n >= 3, np.minimum(prior_df, cap), 0.0)
    total = prior_df + df
    shrunk = (prior_df * prior + df * variance) / np.where(total > 0, total, 1.0)
    return Shrunk(np.where(apply, shrunk, variance), np.where(apply, total, df))


def satterthwaite(parts: list[tuple[Array, Array]], total: Array) -> Array:
    """Degrees of freedom of a sum of variance estimates, each given with its own."""
    below = sum((part**2 / np.maximum(df, 1e-9) for part, df in parts), start=np.zeros_like(total))
    return np.where(below > 0, total**2 / np.where(below > 0, below, 1.0), NO_LIMIT)


def t_tail(t: Array, df: Array) -> Array:
    """P(T > t) of Student's t."""
    return np.asarray(special.stdtr(df, -t))


def t_quantile(p: Array | float, df: Array) -> Array:
    """The p-quantile of Student's t. Below one degree of freedom there is nothing to say: infinity.

    From the inverse of the incomplete beta function (Abramowitz and Stegun 26.7.1), which is four times as fast as
    scipy's stdtrit and agrees with it to 14 digits.
    """
    level = np.asarray(p, dtype=float)
    tails = 2 * np.minimum(level, 1 - level)
    freedom = np.maximum(df, 1.0)
    x = special.betaincinv(freedom / 2, 0.5, tails)
    with np.errstate(divide="ignore"):
        size = np.sqrt(freedom * (1 / x - 1))
    return np.where(df >= 1, np.copysign(size, level - 0.5), np.inf)


def holm(p: Array, alpha: float) -> NDArray[np.bool_]:
    """Which hypotheses along the last axis Holm's step-down procedure rejects at `alpha`; NaN is no hypothesis."""
    count = np.sum(~np.isnan(p), axis=-1, keepdims=True)
    order = np.argsort(p, axis=-1)  # NaNs go last
    ordered = np.take_along_axis(p, order, axis=-1)
    left = np.maximum(count - np.arange(p.shape[-1]), 1)
    passed = np.logical_and.accumulate(ordered <= alpha / left, axis=-1)
    rejected = np.zeros(p.shape, dtype=bool)
    np.put_along_axis(rejected, order, passed, axis=-1)
    return rejected
