"""The rule: from launch values to decisions, on arrays, for one run or for thousands of simulated runs at once.

docs/gate.md says in prose what is computed here and why. Shapes: N runs, S baseline sessions, B launches a
session, L new launches, G columns of a layout. Values are y = +/- ln(value), signed so that larger is worse.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from suite.gate.deltas import Deltas, Flags, RoundNoise, centre
from suite.gate.layout import Layout
from suite.gate.paired import NO_ACCEPTANCE, AcceptanceColumns, accepted_by, added, by_prompt, carried
from suite.gate.robust import Array, holm, satterthwaite
from suite.gate.spread import Spread
from suite.gate.uncertainty import (
    Common,
    arms_alike,
    between_sessions,
    common_shift,
    pass_spread,
    raw_spread,
    relative_excess,
    relative_spread,
    within_run_reference,
)

ALPHA_OWN = 0.006
ALPHA_COMMON = 0.002
"""Error rates of the two tests; together 0.8 %, the rest of 1 % is reserve for what the model does not know."""
GUARD = 0.75
"""Of the margin: how far the value itself must have moved before a change relative to others counts."""
PASS_WIDTH = 2.0
"""Times the margin: the loss that a pass excludes."""
SDC_POWER = 0.92
"""Quantile that gives the printed minimum detectable effect a power of about 90 %."""


@dataclass(frozen=True)
class Decision:
    """What the rule says of each run (N) and column (G); changes and standard errors in log units, + = worse.

    by_common: regression or improvement by the test of all arms together; common_shift: undecided, while every arm
    moved for sure and alike, beyond the margin; between, within: variances between sessions and launches of a column minus controls; excess: what
    this run adds because its rounds are clearly noisier than the baseline's.
    Of a column that is steps times acceptance, everything here is about the steps; accepted with its standard error
    and df is what acceptance adds (0 elsewhere); by_acceptance: the steps did not move, acceptance did. stated: how far
    sessions differ is stated, not learned.
    """

    change: Array
    relative: Array
    common: Array
    raw_se: Array
    raw_df: Array
    se: Array
    df: Array
    p_worse: Array
    p_better: Array
    regression: Flags
    improvement: Flags
    by_common: Flags
    by_acceptance: Flags
    passed: Flags
    common_shift: Flags
    sdc: Array
    between: Array
    within: Array
    excess: Array
    sessions: Array
    inverse_launches: Array
    accepted: Array
    accepted_se: Array
    accepted_df: Array
    stated: Flags


@dataclass(frozen=True)
class _Evidence:
    """Everything the tests need. accepted: what acceptance adds to each column, with its spread."""

    data: Deltas
    relative: Spread
    for_pass: Spread
    wide: Spread
    raw: Spread
    common: Common
    acceptance: AcceptanceColumns
    accepted: tuple[Array, Spread]
    alpha_own: float
    alpha_common: float

    @property
    def gated(self) -> Flags:
        return self.data.layout.gated & ~np.isnan(self.data.change)


def decide(
    base: Array,
    new: Array,
    layout: Layout,
    *,
    share: float = 1.0,
    rounds: RoundNoise | None = None,
    generation: NDArray[np.intp] | None = None,
    acceptance: AcceptanceColumns = NO_ACCEPTANCE,
) -> Decision:
    """Judge `new` (N, L, G) against `base` (N, S, B, G).

    share: part of the error rate this look may spend. rounds: what rounds say of the noise of launches, used where
    no two launches of one session exist and where this run is clearly noisier than the baseline. generation (S, G): which baseline sessions belong together;
    the level is that of the highest, the spread is learned within all. acceptance: which columns are judged prompt
    by prompt, and which rest on them. A column without any baseline or new value comes out as NaN with every flag
    False.
    """
    if generation is None:
        generation = np.zeros(base.shape[1::2], dtype=np.intp)
    data = _compared_by_prompt(centre(base, new, layout, rounds, generation), acceptance)
    learned = relative_spread(data)
    relative = by_prompt(learned, acceptance)
    kinds = max(len(layout.kinds_in_several_arms()), 1)
    evidence = _Evidence(
        data=data,
        relative=relative,
        for_pass=by_prompt(pass_spread(data, learned), acceptance),
        wide=_beside(within_run_reference(data, learned), acceptance),
        raw=by_prompt(raw_spread(data, learned), acceptance),
        common=common_shift(data),
        acceptance=acceptance,
        accepted=accepted_by(data.change.shape, acceptance),
        alpha_own=ALPHA_OWN * share,
        alpha_common=ALPHA_COMMON * share / kinds,
    )
    return _conclude(evidence)


def _compared_by_prompt(data: Deltas, acceptance: AcceptanceColumns) -> Deltas:
    change = data.change.copy()
    for g, pairs in acceptance.judged.items():
        change[:, g] = pairs.change[0]
    return replace(data, change=change)


def _beside(within_run_reference: Spread, acceptance: AcceptanceColumns) -> Spread:
    """The second reference, which is for what sessions alone can tell: not for what prompts tell."""
    variance = np.array(within_run_reference.variance, dtype=float)
    variance[:, list(acceptance.judged)] = 0.0
    return Spread(variance, within_run_reference.df)


@dataclass(frozen=True)
class _Tested:
    """One direction tested: by the column's own change, by the common one, and the own p."""

    own: Flags
    common: Flags
    p: Array


def _test(e: _Evidence, sign: float) -> _Tested:
    """Whether anything got worse (sign +1) or better (-1) beyond margin and chance."""
    layout, change, relative = e.data.layout, sign * e.data.change, sign * e.data.relative
    usual = e.relative.p(relative)
    reference = np.where(e.wide.variance > 0, e.wide.p(relative), usual)
    p = np.where(e.gated, np.maximum(usual, reference), np.nan)
    moved = ~layout.machine | (change > GUARD * layout.margin)
    own = holm(p, e.alpha_own) & (relative > layout.margin) & moved
    shift = sign * e.common.shift
    sure = e.common.tells & (e.common.spread.p(shift) < e.alpha_common) & (shift > layout.margin)
    return _Tested(own, sure & (change > layout.margin) & e.gated, p)


def _passes(e: _Evidence) -> Flags:
    """Whether a loss of twice the margin is excluded, of the steps and of what acceptance makes of them."""
    change, spread = e.accepted
    whole = _excluded(e, change, added(e.for_pass, spread), added(e.raw, spread))
    passed: Flags = _excluded(e, np.zeros_like(change), e.for_pass, e.raw) & whole
    return passed


def _excluded(e: _Evidence, more: Array, for_pass: Spread, raw: Spread) -> Flags:
    """Whether it is, of the change relative to others and of theirs, or of the whole; `more` is added to the change."""
    layout, change, relative = e.data.layout, e.data.change + more, e.data.relative + more
    width = PASS_WIDTH * layout.margin
    reach = np.maximum(for_pass.bound(0.95), e.wide.bound(0.95))
    still = ~e.common.exists | (e.common.shift + e.common.pass_spread.bound(0.95) < width)
    alone = layout.machine & (layout.n_controls == 0)
    by_relative = (relative <= layout.margin) & (relative + reach < width) & still & ~alone
    by_raw = (change <= layout.margin) & (change + raw.bound(0.95) < width)
    excluded: Flags = e.gated & (by_relative | by_raw)
    return excluded


def _by_acceptance(e: _Evidence, moved: Flags, sign: float) -> Flags:
    """Columns that moved beyond their margin because the acceptance they rest on did, which has been tested."""
    whole = sign * (e.data.change + e.accepted[0])
    return carried(moved, e.acceptance) & (whole > e.data.layout.margin) & e.gated


def _worth_telling(e: _Evidence) -> Flags:
    """Faster steps are no improvement of a value that lost as much by acceptance; slower ones are a loss anyway."""
    whole = e.data.change + e.accepted[0]
    worth = np.ones(whole.shape, dtype=bool)
    for g in e.acceptance.borne:
        worth[:, g] = whole[:, g] < -e.data.layout.margin[g]
    return worth


def _conclude(e: _Evidence) -> Decision:
    data, layout = e.data, e.data.layout
    worse, better = _test(e, 1.0), _test(e, -1.0)
    steps_worse = worse.own | worse.common
    accepted_worse = _by_acceptance(e, steps_worse, 1.0)
    regression = steps_worse | accepted_worse
    steps_better = (better.own | better.common) & _worth_telling(e)
    accepted_better = _by_acceptance(e, steps_better, -1.0)
    improvement = (steps_better | accepted_better) & ~regression
    passed = _passes(e) & ~regression & ~improvement
    settled = regression | improvement | passed
    return Decision(
        change=data.change,
        relative=data.relative,
        common=e.common.shift,
        raw_se=e.raw.se,
        raw_df=e.raw.df,
        se=np.maximum(e.relative.se, e.wide.se),
        df=np.where(e.wide.variance > e.relative.variance, e.wide.df, e.relative.df),
        p_worse=worse.p,
        p_better=better.p,
        regression=regression,
        improvement=improvement,
        by_common=worse.common | (better.common & ~regression),
        by_acceptance=(accepted_worse & ~steps_worse) | (accepted_better & ~steps_better & ~regression),
        passed=passed,
        common_shift=~settled & arms_alike(data, e.raw) & (np.abs(e.common.shift) > layout.margin),
        sdc=_smallest(e),
        between=between_sessions(data),
        within=data.within.variance,
        excess=relative_excess(data),
        sessions=data.sessions,
        inverse_launches=data.inverse_launches,
        accepted=e.accepted[0],
        accepted_se=e.accepted[1].se,
        accepted_df=e.accepted[1].df,
        stated=_stated(e),
    )


def _stated(e: _Evidence) -> Flags:
    stated = ~e.data.many
    stated[:, list(e.acceptance.judged)] = False
    return stated


def _smallest(e: _Evidence) -> Array:
    """The smallest loss of one column that this budget calls in nine runs of ten."""
    margin, variance = e.data.layout.margin, e.relative.variance
    hypotheses = np.maximum(e.gated.sum(axis=1, keepdims=True), 1)
    level = 1 - e.alpha_own / hypotheses
    critical = np.maximum(e.relative.bound(level), e.wide.bound(level))
    sdc = np.maximum(margin, critical) + np.maximum(e.relative.bound(SDC_POWER), e.wide.bound(SDC_POWER))
    shift = np.where(e.data.many, e.common.spread.variance, e.common.pass_spread.variance)
    shift = np.where(e.common.exists, shift, 0.0)
    own = variance / e.data.layout.cost
    df = satterthwaite([(shift, e.common.spread.df), (own, e.relative.df)], shift + own)
    guarded = GUARD * margin + Spread(shift + own, df).bound(SDC_POWER)
    return np.where(e.common.exists, np.maximum(sdc, guarded), sdc)
