"""How far a change may be off: the variances that each test of the rule rests on, with their degrees of freedom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.gate.deltas import (
    FLOOR,
    OWN_PRIOR,
    Deltas,
    Flags,
    of_controls,
    shrink_in_families,
    squares,
)
from suite.gate.layout import MACHINE_KINDS, Layout
from suite.gate.neighbours import about_one_step
from suite.gate.robust import Array, mean, median, satterthwaite
from suite.gate.spread import Spread

CAP_BETWEEN = 12.0
COMMON_PRIOR = 0.01
"""What the machine as a whole is said to move by from session to session, where one session alone is recorded."""
OWN_PRIOR_FEW, COMMON_PRIOR_ALONE = 0.015, 0.03
"""What a metric is then said to move by where too few others, or no other arm, could show that it is more."""
TAIL_PRIOR = 0.05
"""What a tail of latency is said to move by between sessions."""
PRIOR_DF = 60.0
REFERENCE_PRIOR_DF = 1.0
MIN_REFERENCE_DF = 3
UNANIMOUS = 0.5
"""Of the margin: what every arm must have moved by for a shift to be called common."""
ALIKE = 2.0
"""Times: by more than that arms differ in what they moved by, and the shift is not told to be that of all."""
MEDIAN_COST = 1.41
"""Times variance / n: of the median of n >= 3 normal values (pi/2 for many, less for few)."""


def between_sessions(data: Deltas) -> Array:
    """Variance of a column minus its controls between sessions, launches excluded; the stated one where unknown."""
    learned = _learned(data).variance - data.within.variance * data.inverse_launches
    stated = data.layout.cost * _stated_sd(data.layout) ** 2
    return np.maximum(np.where(data.many, learned, stated), 0.0)


def relative_spread(data: Deltas) -> Spread:
    """Of the change relative to the controls: learned from three sessions or more, else from the stated prior."""
    many, single = _from_sessions(data), _from_prior(data)
    usual = Spread(
        np.where(data.many, many.variance, single.variance), np.where(data.many, many.df, single.df)
    )
    return _with_excess(usual, relative_excess(data), data)


def relative_excess(data: Deltas) -> Array:
    """What a clearly noisier run adds to the variance of a change relative to its controls: theirs too."""
    controls = np.where(data.layout.machine, data.layout.cost - 1, 0.0)
    return np.asarray(data.excess_variance + controls * of_controls(data.excess_variance, data.layout))


def _with_excess(usual: Spread, more: Array, data: Deltas) -> Spread:
    """A spread and what a clearly noisier run adds to it."""
    df = satterthwaite([(usual.variance, usual.df), (more, data.excess_variance_df)], usual.variance + more)
    return Spread(usual.variance + more, np.where(more > 0, df, usual.df))


def _learned(data: Deltas) -> Spread:
    """Variance of session means (launches included) about their level, shrunk, never negligible."""
    df = np.maximum(data.session_df, 1)
    variance = data.relative_squares / df
    layout = data.layout
    negligible = layout.cost * FLOOR**2
    # without controls all columns share the session's effect: many of them know no more of it than one
    pooled = ~layout.machine | (layout.n_controls > 0)
    shrunk = shrink_in_families(
        layout, variance, df, CAP_BETWEEN, pooled & (variance > negligible) & data.many
    )
    return Spread(np.maximum(shrunk.variance, negligible), shrunk.df)


def _from_sessions(data: Deltas) -> Spread:
    learned, within = _learned(data), data.within
    short = np.maximum(data.inverse_new - data.inverse_launches, 0.0)
    variance = learned.variance * data.grow - within.variance * data.spare
    floor = data.launch_floor
    low = variance < floor
    df = np.where(low, np.minimum(2 * learned.df, within.df), learned.df)
    variance, extra = np.where(low, floor, variance), within.variance * short
    return Spread(variance + extra, satterthwaite([(variance, df), (extra, within.df)], variance + extra))


def _from_prior(data: Deltas) -> Spread:
    stated = data.layout.cost * _stated_sd(data.layout) ** 2 * data.grow
    launch = data.within.variance * data.launch_share
    df = satterthwaite([(stated, np.full_like(stated, PRIOR_DF)), (launch, data.within.df)], stated + launch)
    return Spread(stated + launch, df)


def _stated_sd(layout: Layout) -> Array:
    usual = np.where(_reference_df(layout) >= MIN_REFERENCE_DF, OWN_PRIOR, OWN_PRIOR_FEW)
    machine = np.where(layout.n_controls > 0, usual, COMMON_PRIOR_ALONE)
    return np.where(
        layout.machine, machine, np.where(layout.ratio, usual, np.where(layout.tail, TAIL_PRIOR, OWN_PRIOR))
    )


def pass_spread(data: Deltas, relative: Spread) -> Spread:
    """For passing on fewer than three sessions the usual prior is enough: it is stated, and a pass is not an alarm."""
    usual = data.layout.cost * OWN_PRIOR**2 * data.grow + data.within.variance * data.launch_share
    usual = usual + data.layout.cost * data.excess_variance
    stated = np.where(data.many | data.layout.tail, relative.variance, np.minimum(relative.variance, usual))
    return Spread(stated, relative.df)


def within_run_reference(data: Deltas, relative: Spread) -> Spread:
    """With fewer than three sessions: how far the metrics inside each other arm moved apart in this very run.

    Variance 0 where it does not apply. The stated variance counts as one more degree of freedom.
    """
    layout = data.layout
    by_arm = np.stack([squares(data.change[:, members], 1)[0] for members in _reference_arms(layout)], axis=1)
    total = by_arm.sum(axis=1, keepdims=True)
    df = np.broadcast_to(_reference_df(layout), data.change.shape)
    pooled = np.where(layout.ratio, total, total - by_arm[:, layout.arm]) / np.maximum(df, 1)
    whole = df + REFERENCE_PRIOR_DF
    mixed = (df * layout.cost * pooled + REFERENCE_PRIOR_DF * relative.variance) / whole
    applies = (df >= MIN_REFERENCE_DF) & ~data.many
    return Spread(np.where(applies, mixed, 0.0), np.where(applies, whole, PRIOR_DF))


def _reference_arms(layout: Layout) -> list[NDArray[np.intp]]:
    chosen = layout.representatives()
    return [chosen[layout.arm[chosen] == a] for a in range(len(layout.arms))]


def _reference_df(layout: Layout) -> Array:
    spare = np.array([max(len(members) - 1, 0) for members in _reference_arms(layout)], dtype=float)
    others = np.where(layout.machine, spare.sum() - spare[layout.arm], 0.0)
    return np.where(layout.ratio, spare.sum(), others)


def raw_spread(data: Deltas, relative: Spread) -> Spread:
    """Of the change itself, nothing removed: what the value moved by between the sessions recorded."""
    variance = data.session_squares / np.maximum(data.session_df, 1)
    spare = data.spare * data.own_within
    learned, floor = np.maximum(variance, FLOOR**2) * data.grow - spare, data.launch_floor
    # a spread of few sessions below what launches alone explain: then launches tell, and they are many
    learned_df = np.where(learned < floor, np.maximum(data.session_df, data.within.df), data.session_df)
    stated = (OWN_PRIOR**2 + COMMON_PRIOR**2) * data.grow + data.own_within * data.launch_share
    follows = data.layout.machine
    machine = (
        np.where(data.many, np.maximum(learned, floor), stated),
        np.where(data.many, learned_df, PRIOR_DF),
    )
    usual = _with_excess(Spread(*machine), data.excess_variance, data)
    return Spread(
        np.where(follows, usual.variance, relative.variance), np.where(follows, usual.df, relative.df)
    )


@dataclass(frozen=True)
class Common:
    """What a kind of metric moved by in all arms together, given for each of its columns.

    spread: as history tells it; pass_spread: for passing, with a stated part; tells: enough arms and sessions to
    call a change common, and all arms moved; exists: there is more than one arm.
    """

    shift: Array
    spread: Spread
    pass_spread: Spread
    tells: Flags
    exists: Flags


def common_shift(data: Deltas) -> Common:
    """Median change over the arms, for decode speed and for latency separately where two arms measured them."""
    layout, shape = data.layout, data.change.shape
    kinds = layout.kinds_in_several_arms()
    shift, variance, for_pass = np.zeros(shape), np.full(shape, np.inf), np.full(shape, np.inf)
    unanimous = np.zeros(shape, dtype=bool)
    for kind in MACHINE_KINDS:
        members = np.flatnonzero([c.kind == kind for c in layout.columns])
        if len(members):
            found = _median_of(data, layout.representatives(kind if kind in kinds else None))
            for whole, part in zip((shift, variance, for_pass, unanimous), found, strict=True):
                whole[:, members] = part[:, None]
    history = data.session_df.max(axis=1, keepdims=True)
    told = np.array([column.kind in kinds for column in layout.columns])
    return Common(
        shift=shift,
        spread=Spread(variance, np.broadcast_to(np.maximum(history, 1.0), shape)),
        pass_spread=Spread(for_pass, np.where(data.many, data.session_df + 2, PRIOR_DF)),
        tells=told & (history >= 2) & unanimous,
        exists=layout.machine & np.full(shape, len(layout.arms) > 1),
    )


def _median_of(data: Deltas, representatives: NDArray[np.intp]) -> tuple[Array, Array, Array, Flags]:
    """Of some columns: the median over arms of their medians, so that an arm with many columns has one voice.

    With it its variance from history, the one for passing (1 % counts as two sessions), and whether every arm moved
    in that direction by at least a share of the smallest margin.
    """
    layout = data.layout
    arms = [
        representatives[layout.arm[representatives] == a] for a in sorted(set(layout.arm[representatives]))
    ]
    of_arm = np.stack([median(data.change[:, own], -1) for own in arms], axis=-1)
    shift = median(of_arm, -1)
    history = median(np.stack([median(data.session[:, :, own], -1) for own in arms], axis=-1), -1)
    grow = 1 + 1 / data.sessions[:, representatives].min(axis=1)
    df = data.session_df[:, representatives].max(axis=1)
    spread = np.nansum((history - mean(history, 1)[:, None]) ** 2, axis=1)
    across = data.across[:, representatives].any(axis=1)
    if across.any():
        voices = [median(data.path[:, :, own], -1) for own in arms]
        neighbours = about_one_step(median(np.stack(voices, axis=-1), -1)[..., None])
        spread = np.where(across, neighbours.total[:, 0], spread)
    share = _median_cost(len(arms)) * float(np.mean([_median_cost(len(own)) for own in arms]))
    floor = share * mean(data.launch_floor[:, representatives], -1)
    excess_variance = share * mean(data.excess_variance[:, representatives], -1)
    learned = np.maximum(np.maximum(spread / np.maximum(df, 1), FLOOR**2) * grow, floor) + excess_variance
    mixed = np.maximum((2 * COMMON_PRIOR**2 + spread) / (df + 2) * grow, floor) + excess_variance
    least = UNANIMOUS * float(layout.margin[representatives].min())
    moved = np.nan_to_num(of_arm * np.sign(shift)[:, None], nan=0.0).min(axis=-1) > least
    return shift, learned, np.where(df >= 2, mixed, COMMON_PRIOR**2 * grow + excess_variance), moved


def arms_alike(data: Deltas, raw: Spread) -> Flags:
    """Whether each arm that measured a column's kind moved for sure (95 %) and no two of them by twice each other."""
    layout = data.layout
    alike = np.zeros(data.change.shape, dtype=bool)
    kinds = layout.kinds_in_several_arms()
    for kind in MACHINE_KINDS:
        members = np.flatnonzero([c.kind == kind for c in layout.columns])
        representatives = layout.representatives(kind if kind in kinds else None)
        arms = [
            representatives[layout.arm[representatives] == a]
            for a in sorted(set(layout.arm[representatives]))
        ]
        if not len(members) or len(arms) < 2:
            continue
        moved = np.stack([median(data.change[:, own], -1) for own in arms], axis=-1)
        reach = np.stack([median(raw.bound(0.975)[:, own], -1) for own in arms], axis=-1)
        sizes = np.abs(moved)
        together = (np.abs(np.sign(moved).sum(axis=-1)) == len(arms)) & (sizes > reach).all(axis=-1)
        together &= sizes.max(axis=-1) <= ALIKE * sizes.min(axis=-1)
        alike[:, members] = together[:, None]
    return alike


def _median_cost(n: int) -> float:
    """Variance of the median of n normal values, in units of one's."""
    return (MEDIAN_COST if n > 2 else 1.0) / n
