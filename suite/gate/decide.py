"""The rule: from launch values to decisions, on arrays, for one run or for thousands of simulated runs at once.

docs/gate.md says in prose what is computed here and why. Shapes: N runs, S baseline sessions, B launches a
session, L new launches, G columns of a layout. Values are y = +/- ln(value), signed so that larger is worse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from suite.gate.layout import Layout, control_cost
from suite.gate.shrink import Array, Shrunk, holm, mean, median, satterthwaite, squeeze, t_quantile, t_tail

ALPHA_OWN = 0.006
ALPHA_COMMON = 0.002
GUARD = 0.75
PASS_WIDTH = 2.0
CAP_BETWEEN, CAP_WITHIN = 12.0, 24.0
FLOOR = 5e-4
"""No launch is trusted to agree with another better than 0.05 %, however quiet a simulator is."""
OWN_PRIOR, COMMON_PRIOR = 0.005, 0.01
"""What one session alone is said to move by: a metric of its own accord, and the machine as a whole."""
OWN_PRIOR_FEW, COMMON_PRIOR_ALONE = 0.015, 0.03
"""The same where too few controls, or none at all, could show that this machine is worse than that."""
PRIOR_DF = 60.0
LAUNCH_PRIOR_DF = 12.0
YARDSTICK_PRIOR_DF = 1.0
MIN_YARDSTICK_DF = 3


@dataclass(frozen=True)
class Decision:
    """What the rule says of each run (N) and column (G); changes and standard errors in log units, + = worse."""

    change: Array
    relative: Array
    common: Array
    raw_se: Array
    raw_df: Array
    se: Array
    df: Array
    p_worse: Array
    p_better: Array
    regression: NDArray[np.bool_]
    improvement: NDArray[np.bool_]
    by_common: NDArray[np.bool_]
    passed: NDArray[np.bool_]
    common_shift: NDArray[np.bool_]
    sdc: Array
    sdc_common: Array
    between: Array
    within: Array
    sessions: Array
    inverse_launches: Array


@dataclass(frozen=True)
class _Parts:
    """The data once centred, shared by the steps below."""

    layout: Layout
    d: Array
    dev: Array
    c_d: Array
    c_dev: Array
    sessions: Array
    session_df: Array
    h: Array
    launches: Array
    k: Array
    within: Shrunk

    @property
    def many(self) -> NDArray[np.bool_]:
        """Whether the baseline's own sessions say how far sessions differ (three of one level, or as good)."""
        return self.session_df >= 2

    @property
    def r(self) -> Array:
        return self.d - self.c_d

    @property
    def own_noise(self) -> Array:
        """Launch variance of a metric alone (`within` is that of a metric minus its controls)."""
        return self.within.variance / self.k

    @property
    def launch_share(self) -> Array:
        """Of the variance between launches, what the difference of the two means keeps."""
        return self.inverse_new + self.h / self.sessions

    @property
    def inverse_new(self) -> Array:
        """1 / new launches, for the part of `within` that is the metric's own and the part that is its controls'."""
        own = 1 / self.launches
        beside = _beside(own, self.layout)
        return own / self.k + beside * (1 - 1 / self.k)


def decide(
    base: Array,
    new: Array,
    layout: Layout,
    *,
    share: float = 1.0,
    within_prior: Array | None = None,
    generation: NDArray[np.intp] | None = None,
) -> Decision:
    """Judge `new` (N, L, G) against `base` (N, S, B, G).

    share: part of the error rate this look may spend. within_prior (N, G): variance of one launch's value, used
    only where no two launches of one session exist. generation (S, G): which baseline sessions belong together;
    the level is that of the highest, the spread is learned within all. A column without any baseline or new value comes out as NaN
    with every flag False.
    """
    if generation is None:
        generation = np.zeros(base.shape[1::2], dtype=np.intp)
    parts = _centre(base, new, layout, within_prior, generation)
    own_var, own_df, between = _own_variance(parts)
    wide_var, wide_df = _yardstick(parts, own_var)
    raw_var, raw_df = _raw_variance(parts, own_var, own_df)
    common = _common(parts)
    return _conclude(parts, (own_var, own_df, between), (wide_var, wide_df), (raw_var, raw_df), common, share)


def _centre(
    base: Array, new: Array, layout: Layout, within_prior: Array | None, generation: NDArray[np.intp]
) -> _Parts:
    base = base[:, :, : new.shape[1]]  # launches warm a machine: compare those of the same position
    m = mean(base, 2)
    levels, groups, centre = _levels(m, generation)
    dev = m - levels
    d = mean(new, 1) - centre
    x_base, x_new = base - levels[:, :, None], new - centre[:, None]
    per_session = np.sum(~np.isnan(base), axis=2)
    there = per_session > 0
    session_df = there.sum(axis=1) - groups
    there = there & (generation == generation.max(axis=0))
    sessions = np.sum(there, axis=1).astype(float)
    h = np.where(there, 1 / np.maximum(per_session, 1), 0.0).sum(axis=1) / np.maximum(sessions, 1)
    launches = np.sum(~np.isnan(new), axis=1).astype(float)
    u_base, u_new = x_base - _controls(x_base, layout), x_new - _controls(x_new, layout)
    k = np.where(layout.machine, control_cost(layout.n_controls()), _ratio_cost(layout))
    within = _within(u_base, u_new, layout, within_prior, k)
    nothing = (sessions == 0) | (launches == 0)
    d = np.where(nothing, np.nan, d)
    one = np.ones_like(sessions)
    return _Parts(
        layout=layout,
        d=d,
        dev=dev,
        c_d=_controls(d, layout),
        c_dev=_controls(dev, layout),
        sessions=np.where(nothing, one, sessions),
        session_df=np.where(nothing, 0.0, session_df),
        h=np.where(nothing, one, h),
        launches=np.where(nothing, one, launches),
        k=np.broadcast_to(k, d.shape),
        within=within,
    )


def _levels(m: Array, generation: NDArray[np.intp]) -> tuple[Array, Array, Array]:
    """For each session the mean of its generation; how many generations there are; the mean of the current one."""
    current = generation.max(axis=0)
    levels, groups = np.full_like(m, np.nan), np.zeros((m.shape[0], m.shape[2]))
    centre = np.full_like(groups, np.nan)
    for number in np.unique(generation):
        inside = generation == number
        level = mean(m, 1) if inside.all() else mean(np.where(inside, m, np.nan), 1)
        levels = np.where(inside, level[:, None], levels)
        groups += ~np.isnan(level)
        centre = np.where(current == number, level, centre)
    return levels, groups, centre


def _controls(x: Array, layout: Layout) -> Array:
    """For each column (last axis) the median over its controls; 0 where it has none."""
    result = np.zeros_like(x)
    for a, controls in enumerate(layout.controls):
        mine = np.flatnonzero((layout.arm == a) & layout.machine)
        if len(mine) and len(controls):
            shift = median(x[..., controls], -1)
            result[..., mine] = np.where(np.isnan(shift), 0.0, shift)[..., None]
    return result


def _beside(x: Array, layout: Layout) -> Array:
    """For each column the mean of `x` over its controls; its own where it has none."""
    result = np.array(x)
    for a, controls in enumerate(layout.controls):
        if len(controls):
            result[:, (layout.arm == a) & layout.machine] = x[:, controls].mean(axis=1, keepdims=True)
    return result


def _ratio_cost(layout: Layout) -> Array:
    return np.array([2.0 if c.kind == "ratio" else 1.0 for c in layout.columns])


def _squares(x: Array, axis: int) -> tuple[Array, Array]:
    """Sum of squares about the mean, and its degrees of freedom, without the NaNs."""
    about = x - np.expand_dims(mean(x, axis), axis)
    count = np.sum(~np.isnan(x), axis=axis)
    return np.nansum(about**2, axis=axis), np.maximum(count - 1, 0).astype(float)


def _within(u_base: Array, u_new: Array, layout: Layout, prior: Array | None, k: Array) -> Shrunk:
    """Variance between launches of one session, of a column minus its controls."""
    ss_base, df_base = _squares(u_base, 2)
    ss_new, df_new = _squares(u_new, 1)
    df = df_base.sum(axis=1) + df_new
    variance = (ss_base.sum(axis=1) + ss_new) / np.maximum(df, 1)
    floor = k * FLOOR**2
    shrunk = _squeeze(layout, variance, df, CAP_WITHIN, variance > floor)
    stated = k * (prior if prior is not None else np.full(df.shape, OWN_PRIOR**2))
    return Shrunk(
        np.maximum(np.where(df > 0, shrunk.variance, stated), floor),
        np.where(df > 0, shrunk.df, LAUNCH_PRIOR_DF),
    )


def _squeeze(layout: Layout, variance: Array, df: Array, cap: float, use: NDArray[np.bool_]) -> Shrunk:
    """Shrink within each family; the full cap is deserved by ten columns that are no copies of each other."""
    whole = Shrunk(variance, df)
    for family in layout.families():
        speak = family & layout.speaks
        breadth = float(np.clip((speak.sum() - 1.5) / 8.5, 0.0, 1.0))
        whole = squeeze(*whole, cap=cap * breadth, fit=use & speak, use=use & family)
    return whole


def _own_variance(parts: _Parts) -> tuple[Array, Array, Array]:
    """Variance of r and its degrees of freedom; and the variance between sessions it rests on."""
    s, u = parts.sessions, parts.within
    residual = parts.dev - parts.c_dev
    spare_df = np.maximum(parts.session_df, 1)
    v = np.nansum(residual**2, axis=1) / spare_df
    layout = parts.layout
    pooled = ~layout.machine | (layout.n_controls() > 0)
    negligible = (FLOOR * np.sqrt(parts.k)) ** 2
    use = pooled & (v > negligible) & parts.many
    shrunk = _squeeze(layout, v, spare_df, CAP_BETWEEN, use)
    grow = 1 + 1 / s
    spare = np.maximum(parts.h - parts.inverse_new, 0.0)
    short = np.maximum(parts.inverse_new - parts.h, 0.0)
    seen = np.maximum(shrunk.variance, negligible) * grow
    learned = seen - u.variance * spare
    floor = parts.own_noise * parts.launch_share
    bound = learned < floor
    several = np.where(bound, floor, learned) + u.variance * short
    df = satterthwaite(
        [
            (np.where(bound, floor, learned), np.where(bound, np.minimum(2 * shrunk.df, u.df), shrunk.df)),
            (u.variance * short, u.df),
        ],
        several,
    )
    prior = parts.k * _own_prior(layout) ** 2 * grow
    launch = u.variance * parts.launch_share
    single = prior + launch
    single_df = satterthwaite([(prior, np.full_like(prior, PRIOR_DF)), (launch, u.df)], single)
    many = parts.many
    between = np.maximum(np.where(many, shrunk.variance - u.variance * parts.h, prior / grow), 0.0)
    return np.where(many, several, single), np.where(many, df, single_df), between


def _own_prior(layout: Layout) -> Array:
    enough = _yardstick_df(layout) >= MIN_YARDSTICK_DF
    usual = np.where(enough, OWN_PRIOR, OWN_PRIOR_FEW)
    machine = np.where(layout.n_controls() > 0, usual, COMMON_PRIOR_ALONE)
    count = np.array([c.kind == "count" for c in layout.columns])
    return np.where(layout.machine, machine, np.where(count, OWN_PRIOR, usual))


def _yardstick_arms(layout: Layout) -> list[NDArray[np.intp]]:
    spoken = layout.speakers()
    return [spoken[layout.arm[spoken] == a] for a in range(len(layout.arms))]


def _yardstick_df(layout: Layout) -> Array:
    spare = np.array([max(len(members) - 1, 0) for members in _yardstick_arms(layout)], dtype=float)
    others = spare.sum() - spare[layout.arm]
    ratio = np.array([c.kind == "ratio" for c in layout.columns])
    return np.where(ratio, spare.sum(), np.where(layout.machine, others, 0.0))


def _yardstick(parts: _Parts, own_var: Array) -> tuple[Array, Array]:
    """With fewer than three sessions: how far the metrics inside each other arm moved apart in this very run."""
    layout, squares = parts.layout, []
    for members in _yardstick_arms(layout):
        squares.append(_squares(parts.d[:, members], 1)[0] if len(members) else np.zeros(len(parts.d)))
    by_arm = np.stack(squares, axis=1)
    total = by_arm.sum(axis=1, keepdims=True)
    ratio = np.array([c.kind == "ratio" for c in layout.columns])
    df = np.broadcast_to(_yardstick_df(layout), parts.d.shape)
    pooled = np.where(ratio, total, total - by_arm[:, layout.arm]) / np.maximum(df, 1)
    in_use = (df >= MIN_YARDSTICK_DF) & ~parts.many
    whole = df + YARDSTICK_PRIOR_DF
    mixed = (df * parts.k * pooled + YARDSTICK_PRIOR_DF * own_var) / whole
    return np.where(in_use, mixed, 0.0), np.where(in_use, whole, PRIOR_DF)


def _raw_variance(parts: _Parts, own_var: Array, own_df: Array) -> tuple[Array, Array]:
    """Variance of d itself, with nothing removed: what the value moved by between the sessions recorded."""
    grow = 1 + 1 / parts.sessions
    floor = parts.own_noise * parts.launch_share
    v = np.nansum(parts.dev**2, axis=1) / np.maximum(parts.session_df, 1)
    spare = np.maximum(parts.h - parts.inverse_new, 0.0) * parts.own_noise
    learned = np.maximum(np.maximum(v, FLOOR**2) * grow - spare, floor)
    stated = (OWN_PRIOR**2 + COMMON_PRIOR**2) * grow + floor
    many = parts.many
    machine = np.where(many, learned, stated), np.where(many, parts.session_df, PRIOR_DF)
    follows = parts.layout.machine
    return np.where(follows, machine[0], own_var), np.where(follows, machine[1], own_df)


@dataclass(frozen=True)
class _Common:
    """The shift of a kind over all arms, given for each column; `tells`: enough arms to call it common."""

    c: Array
    var: Array
    df: Array
    pass_var: Array
    p_worse: Array
    p_better: Array
    tells: NDArray[np.bool_]
    exists: NDArray[np.bool_]


def _common(parts: _Parts) -> _Common:
    layout, shape = parts.layout, parts.d.shape
    kinds = layout.kinds_in_several_arms()
    c, var, pass_var = np.zeros(shape), np.full(shape, np.inf), np.full(shape, np.inf)
    history = parts.session_df.max(axis=1, keepdims=True)
    for i, column in enumerate(layout.columns):
        if not layout.machine[i]:
            continue
        speakers = layout.speakers(column.kind if column.kind in kinds else None)
        c[:, i], var[:, i], pass_var[:, i] = _common_of(parts, speakers)
    df = np.broadcast_to(np.maximum(history, 1.0), shape)
    told = np.array([column.kind in kinds for column in layout.columns])
    tells = told & (history >= 2)
    t = c / np.sqrt(var)
    alone = len(layout.arms) < 2
    return _Common(
        c=c,
        var=var,
        df=df,
        pass_var=pass_var,
        p_worse=t_tail(t, df),
        p_better=t_tail(-t, df),
        tells=np.broadcast_to(tells, shape),
        exists=np.broadcast_to(layout.machine & ~np.bool_(alone), shape),
    )


def _common_of(parts: _Parts, speakers: NDArray[np.intp]) -> tuple[Array, Array, Array]:
    c = median(parts.d[:, speakers], -1)
    history = median(parts.dev[:, :, speakers], -1)
    grow = 1 + 1 / parts.sessions[:, speakers].min(axis=1)
    df = parts.session_df[:, speakers].max(axis=1)
    squares = np.nansum((history - mean(history, 1)[:, None]) ** 2, axis=1)
    share = 1.41 / len(speakers) if len(speakers) > 2 else 1 / len(speakers)
    floor = share * mean((parts.own_noise * parts.launch_share)[:, speakers], -1)
    var = np.maximum(np.maximum(squares / np.maximum(df, 1), FLOOR**2) * grow, floor)
    stated = (2 * COMMON_PRIOR**2 + squares) / (df + 2)
    pass_var = np.where(df >= 2, np.maximum(stated * grow, floor), COMMON_PRIOR**2 * grow)
    return c, var, pass_var


def _conclude(
    parts: _Parts,
    own: tuple[Array, Array, Array],
    wide: tuple[Array, Array],
    raw: tuple[Array, Array],
    common: _Common,
    share: float,
) -> Decision:
    layout, d, r = parts.layout, parts.d, parts.r
    margin, gated = layout.margin, layout.gated & ~np.isnan(parts.d)
    (own_var, own_df, between), (wide_var, wide_df), (raw_var, raw_df) = own, wide, raw
    own_se, wide_se, raw_se = (np.sqrt(x) for x in (own_var, wide_var, raw_var))
    alpha = ALPHA_OWN * share
    kinds = max(len(layout.kinds_in_several_arms()), 1)

    def worse(sign: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Array]:
        p = t_tail(sign * r / own_se, own_df)
        with np.errstate(divide="ignore", invalid="ignore"):
            p = np.where(wide_se > 0, np.maximum(p, t_tail(sign * r / wide_se, wide_df)), p)
        p = np.where(gated, p, np.nan)
        moved = ~layout.machine | (sign * d > GUARD * margin)
        by_own = holm(p, alpha) & (sign * r > margin) & moved
        p_common = common.p_worse if sign > 0 else common.p_better
        sure = common.tells & (p_common < ALPHA_COMMON * share / kinds) & (sign * common.c > margin)
        return by_own, sure & (sign * d > margin) & gated, p

    own_worse, common_worse, p_worse = worse(1.0)
    own_better, common_better, p_better = worse(-1.0)
    regression = own_worse | common_worse
    improvement = (own_better | common_better) & ~regression
    width = PASS_WIDTH * margin
    reach = np.maximum(
        t_quantile(0.95, own_df) * _pass_se(parts, own_se), t_quantile(0.95, wide_df) * wide_se
    )
    common_df = np.where(parts.many, parts.session_df + 2, PRIOR_DF)
    common_reach = t_quantile(0.95, common_df) * np.sqrt(common.pass_var)
    still = ~common.exists | (common.c + common_reach < width)
    by_relative = (r <= margin) & (r + reach < width) & still
    by_raw = (d <= margin) & (d + t_quantile(0.95, raw_df) * raw_se < width)
    alone = layout.machine & (layout.n_controls() == 0)
    passed = gated & ~regression & ~improvement & (by_raw | (by_relative & ~alone))
    shifted = common.exists & ~regression & ~improvement & (np.abs(common.c) > margin) & ~passed
    hypotheses = np.maximum(gated.sum(axis=-1, keepdims=True), 1)
    sdc, sdc_common = _smallest(parts, own, wide, common, alpha / hypotheses, ALPHA_COMMON * share / kinds)
    return Decision(
        change=d,
        relative=r,
        common=common.c,
        raw_se=raw_se,
        raw_df=raw_df,
        se=np.maximum(own_se, wide_se),
        df=np.where(wide_se > own_se, wide_df, own_df),
        p_worse=p_worse,
        p_better=p_better,
        regression=regression,
        improvement=improvement,
        by_common=common_worse | (common_better & ~regression),
        passed=passed,
        common_shift=shifted,
        sdc=sdc,
        sdc_common=sdc_common,
        between=between,
        within=parts.within.variance,
        sessions=parts.sessions,
        inverse_launches=parts.h,
    )


def _pass_se(parts: _Parts, own_se: Array) -> Array:
    """For passing on fewer than three sessions the usual prior is enough: it is stated, and a pass is not an alarm."""
    usual = parts.k * OWN_PRIOR**2 * (1 + 1 / parts.sessions) + parts.within.variance * parts.launch_share
    return np.where(parts.many, own_se, np.minimum(own_se, np.sqrt(usual)))


def _smallest(
    parts: _Parts,
    own: tuple[Array, Array, Array],
    wide: tuple[Array, Array],
    common: _Common,
    alpha: Array,
    alpha_common: float,
) -> tuple[Array, Array]:
    """Smallest changes that this budget calls in nine runs of ten: of one metric, and of all arms together."""
    margin, (var, df, _), (wide_var, wide_df) = parts.layout.margin, own, wide
    se, wide_se = np.sqrt(var), np.sqrt(wide_var)
    critical = np.maximum(t_quantile(1 - alpha, df) * se, t_quantile(1 - alpha, wide_df) * wide_se)
    reach = np.maximum(t_quantile(0.92, df) * se, t_quantile(0.92, wide_df) * wide_se)
    sdc = np.maximum(margin, critical) + reach
    guard_var = np.where(common.exists, np.where(parts.many, common.var, common.pass_var), 0.0)
    whole = guard_var + var / 1.3
    guard_df = satterthwaite([(guard_var, common.df), (var / 1.3, df)], whole)
    guarded = GUARD * margin + t_quantile(0.92, guard_df) * np.sqrt(whole)
    sdc = np.where(common.exists, np.maximum(sdc, guarded), sdc)
    c_se = np.sqrt(common.var)
    sdc_common = (
        np.maximum(margin, t_quantile(1 - alpha_common, common.df) * c_se) + t_quantile(0.9, common.df) * c_se
    )
    return sdc, np.where(common.tells, sdc_common, np.inf)
