"""Two builds in one interleaved session: is the new one as fast? The estimate behind an upgrade's go or no-go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from suite.gate.decide import PASS_WIDTH
from suite.gate.deltas import FLOOR
from suite.gate.duet import RoundPairs
from suite.gate.layout import Layout
from suite.gate.paired import NO_ACCEPTANCE, AcceptanceColumns, accepted_by, added, by_prompt, carried
from suite.gate.robust import Array, holm, squeeze
from suite.gate.spread import Spread

Answer: TypeAlias = Literal["go", "no-go", "better", "inconclusive"]

ALPHA = 0.01
LOOK_SHARES = (0.2, 0.3, 0.5)
"""For looks at 2+2, 4+4 and 6+6 launches; a single look spends all."""
CAP = 12.0
OWN_SHARE = 2.0
"""What metrics teach one another of their variance weighs at most so many times what each knows of its own: at 2+2
launches, one degree of freedom, a metric four times as noisy as the others was else called worse in 9 % of runs."""
LAUNCH_SD = 0.03
"""What launches of one build are said to differ by at most, where there is one of each: no calmer machine is claimed."""
OUTRIGHT = 0.15
"""A loss of this much or more may be said after one launch of each build, if it is beyond the launch's own spread too."""


@dataclass(frozen=True)
class Comparison:
    """Candidate against reference for each column; changes and intervals in signed log units, + = worse.

    Of a column that is steps times acceptance, they are of the steps; accepted with its standard error and df is what
    acceptance adds (0 elsewhere); by_acceptance: it alone decided.
    """

    change: Array
    se: Array
    df: Array
    p: Array
    no_go: NDArray[np.bool_]
    better: NDArray[np.bool_]
    go: NDArray[np.bool_]
    sdc: Array
    accepted: Array
    accepted_se: Array
    accepted_df: Array
    by_acceptance: NDArray[np.bool_]

    def answer(self, g: int) -> Answer:
        """The answer for one column of a single run."""
        if self.no_go[0, g]:
            return "no-go"
        if self.better[0, g]:
            return "better"
        return "go" if self.go[0, g] else "inconclusive"


def order(pairs: int) -> str:
    """The order of launches, R(eference) and C(andidate): RCCRRCCR... Both sit at the same mean time."""
    return "".join("RC" if i % 2 == 0 else "CR" for i in range(pairs))


def shares(looks: int) -> list[float]:
    """How the error rate is spent over so many looks."""
    spent = LOOK_SHARES[: max(1, looks)]
    return [share / sum(spent) for share in spent]


def lost_outright(change: float, tests: int) -> bool:
    """Is a change (signed log, + = worse) between one launch of each build a loss beyond any doubt?

    Nothing is known of how launches differ here, so `LAUNCH_SD` is taken for it; of `tests` figures a tenth of the error
    rate is spent. For a 20 % loss two launches more would be an hour of a large machine for nothing.
    """
    return change > outright(tests)


def outright(tests: int) -> float:
    """From which change on (signed log) that is so."""
    critical = float(norm.isf(0.1 * ALPHA / max(1, tests))) * LAUNCH_SD * math.sqrt(2)
    return max(math.log1p(OUTRIGHT), critical)


def compare_builds(
    values: Array,
    builds: Sequence[str],
    layout: Layout,
    *,
    share: float = 1.0,
    acceptance: AcceptanceColumns = NO_ACCEPTANCE,
) -> Comparison:
    """Judge an interleaved session of two builds.

    values: (N, K, G) signed logs of launch values in the order of the launches; builds: "R" or "C" for each of
    the K launches. Model for each metric: level + build + slope x launch number + error, by least squares, so
    that a drift of the machine is neither taken for a change nor for noise; variances are shrunk over metrics
    (K - 3 degrees of freedom of their own). What is common to all metrics is NOT removed: here it is the answer.
    acceptance: columns that are judged prompt by prompt instead, and those that rest on them.
    Raises ValueError for fewer than two launches per build.
    """
    number = np.arange(len(builds), dtype=float)
    candidate = np.array([b == "C" for b in builds], dtype=float)
    if min(candidate.sum(), len(builds) - candidate.sum()) < 2:
        raise ValueError(
            "two launches of each build are needed to tell a change from the launch it was seen in"
        )
    design = np.stack([np.ones_like(number), candidate, number - number.mean()], axis=1)
    inverse = np.linalg.inv(design.T @ design)
    beta = np.einsum("pk,nkg->npg", inverse @ design.T, values)
    residual = values - np.einsum("kp,npg->nkg", design, beta)
    own_df = np.full(beta[:, 1].shape, float(len(builds) - 3))
    variance = (residual**2).sum(axis=1) / own_df
    shrunk = _shrunk(layout, variance, own_df)
    told = Spread(np.maximum(shrunk[0], FLOOR**2) * inverse[1, 1], shrunk[1])
    change, spread = beta[:, 1].copy(), by_prompt(told, acceptance)
    for g, pairs in acceptance.judged.items():
        change[:, g] = pairs.change[0]
    return _conclude(change, spread, layout, ALPHA * share, acceptance)


def compare_pairs(
    pairs: RoundPairs, layout: Layout, *, share: float = 1.0, acceptance: AcceptanceColumns = NO_ACCEPTANCE
) -> Comparison:
    """Judge two builds that were up at once and asked in turn (`suite.gate.duet`).

    How pairs of rounds scatter is learned of all metrics together, as of launches. One launch of each build may be off by
    more than is stated of them, and nothing in it shows that: of these only a change beyond doubt is said (`outright`).
    """
    change = pairs.change.copy()
    spread = by_prompt(pairs.spread(*_shrunk(layout, pairs.variance, pairs.df)), acceptance)
    certain = (pairs.number > 1) | (np.abs(change) > outright(len(layout.columns)))
    for g, told in acceptance.judged.items():
        change[:, g], certain[:, g] = told.change[0], True
    return _conclude(change, spread, layout, ALPHA * share, acceptance, certain)


def _shrunk(layout: Layout, variance: Array, df: Array) -> tuple[Array, Array]:
    parts = np.where(layout.ratio, 2.0, 1.0)  # a ratio has the noise of two arms
    variance = variance / parts
    most = min(CAP, OWN_SHARE * float(df.max()))
    for family in layout.families():
        speak = family & layout.teaches
        cap = most * float(np.clip((speak.sum() - 1.5) / 8.5, 0.0, 1.0))
        variance, df = squeeze(
            variance, df, cap=cap, fit=speak & (variance > FLOOR**2), use=family & (variance > 0)
        )
    return variance * parts, df


def _conclude(
    change: Array,
    spread: Spread,
    layout: Layout,
    alpha: float,
    acceptance: AcceptanceColumns,
    certain: NDArray[np.bool_] | bool = True,
) -> Comparison:
    margin, gated = layout.margin, layout.gated
    accepted, beside = accepted_by(change.shape, acceptance)
    whole = change + accepted
    p, p_better = (np.where(gated, spread.p(sign * change), np.nan) for sign in (1, -1))
    slower = holm(p, alpha) & (change > margin) & certain
    no_go = slower | carried(slower, acceptance) & (whole > margin) & gated
    faster = holm(p_better, alpha) & (change < -margin) & certain
    better = (faster | carried(faster, acceptance)) & (whole < -margin) & gated & ~no_go
    go = gated & ~no_go & ~better
    for size, noise in ((change, spread), (whole, added(spread, beside))):
        go &= (size <= margin) & (size + noise.bound(0.95) < PASS_WIDTH * margin)
    critical = spread.bound(1 - alpha / max(int(gated.sum()), 1))
    sdc = np.maximum(margin, critical) + spread.bound(0.92)
    by_acceptance = (no_go & ~slower) | (better & ~faster)
    return Comparison(
        change, spread.se, spread.df, p, no_go, better, go, sdc, accepted, beside.se, beside.df, by_acceptance
    )
