"""How much has to be measured to see a change of a given size: told before a run, and asked again during it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import special

from suite.gate.decide import ALPHA_OWN, SDC_POWER
from suite.gate.robust import Array, t_quantile, trimmed_mean
from suite.metrics.registry import MARGIN

TRAJECTORY_SD, TRAJECTORY_TOKENS = 0.06, 256
"""SD of the log acceptance of one prompt between two builds of equal quality, with answers of so many tokens."""
FEWEST_ROUNDS = 3
MOST_PROMPTS = 4096
TRIM_COST = 1.15
"""Variance of a 20 % trimmed mean of normal values, in units of the plain mean's (Maronna et al. 2019, table 2.1)."""

Why: TypeAlias = Literal["too few", "not precise yet", "precise", "as many as may be"]


class Precision(NamedTuple):
    """What the rounds so far say: go on or stop, for how many in all, and the standard error reached (relative)."""

    go_on: bool
    rounds: int
    standard_error: float | None
    why: Why


def smallest_detectable(standard_error: float, df: float, tests: int = 1, margin: float = MARGIN) -> float:
    """The relative loss that is called in nine runs of ten, by a test with that standard error (in logs) and df.

    tests: gated metrics of the run, over which Holm's procedure spends the error rate.
    """
    df_ = np.array(float(df))
    critical = float(t_quantile(1 - ALPHA_OWN / max(tests, 1), df_)) * standard_error
    size = max(math.log1p(margin), critical) + float(t_quantile(SDC_POWER, df_)) * standard_error
    return -math.expm1(-size)


def foreseen(prompts: int, tokens: int, tests: int = 1, *, margin: float = MARGIN) -> float:
    """The smallest loss of acceptance length that so many prompts of so many tokens will show, before any is asked.

    From the usual spread of a prompt between builds (6 % at 256 tokens, less for longer answers: a mean of more
    steps); the verdict states it from what was measured. Infinite below two prompts.
    """
    if prompts < 2:
        return math.inf
    spread = TRAJECTORY_SD * math.sqrt(TRAJECTORY_TOKENS / max(tokens, 1))
    return smallest_detectable(spread * math.sqrt(2 / prompts), prompts - 1, tests, margin)


def rounds_wanted(values: Sequence[float | None], goal: float, most: int) -> Precision:
    """Whether the rounds of a launch go on, so that its value has a standard error of `goal` (relative, 0.003 = 0.3 %).

    values: one metric, one value per round, so far; a round without one counts as played. most: rounds the budget allows.
    The spread of few rounds is itself uncertain, so it is taken at its upper one-sided 80 % limit (chi-square).
    """
    played = len(values)
    logs = np.array([math.log(v) for v in values if v is not None and 0 < v < math.inf])
    if played >= most:
        return Precision(False, played, _standard_error(logs), "as many as may be")
    if len(logs) < FEWEST_ROUNDS:
        return Precision(True, min(max(FEWEST_ROUNDS, played + 1), most), None, "too few")
    error = _standard_error(logs)
    if error is None or error <= goal:
        return Precision(False, played, error, "precise")
    wanted = math.ceil(len(logs) * (error / goal) ** 2)
    return Precision(True, min(max(wanted, played + 1), most), error, "not precise yet")


def _standard_error(logs: Array) -> float | None:
    """Of the launch's value, cautiously; None below two rounds."""
    if len(logs) < 2:
        return None
    df = len(logs) - 1
    about = logs - float(trimmed_mean(logs))
    variance = float((about**2).sum()) / (2 * float(special.gammaincinv(df / 2, 0.2)))
    return math.sqrt(variance * (TRIM_COST if len(logs) >= 5 else 1.0) / len(logs))
