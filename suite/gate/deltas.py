"""A run and its baseline as changes: centred on the baseline's level, with what the controls moved by beside it.

Shapes: N runs, S baseline sessions, B launches per session, L new launches, G columns of a layout. Values are
y = +/- ln(value), signed so that larger is worse; NaN is "not measured".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from suite.gate.layout import Layout
from suite.gate.neighbours import about_one_step
from suite.gate.robust import Array, Shrunk, mean, median, squeeze

Flags: TypeAlias = NDArray[np.bool_]

FLOOR = 5e-4
"""No launch is trusted to agree with another better than 0.05 %, however quiet a simulator is."""
OWN_PRIOR = 0.005
"""What a metric is said to move by of its own accord, from launch to launch and from session to session."""
CAP_WITHIN = 24.0
STATED_WITHIN_DF = 12.0
MIN_WITHIN_DF = 4
CLEARLY_NOISIER = 3.0
"""Times the baseline's round variance: with five rounds, chance reaches it in one launch of forty."""
LAUNCHES_PER_ROUND = 2.5
"""Variance between launches, times what rounds leave in a launch's value; 1.7 to 2.1 in the calibration's named models."""


class Levels(NamedTuple):
    """Means of the sessions' generations: `of_session` (N, S, G), of the `current` one (N, G), and their `number` (N, G)."""

    of_session: Array
    current: Array
    number: Array


class RoundNoise(NamedTuple):
    """Variance of one launch's value as its own rounds tell it; NaN where a launch has one round.

    base: (N, G), mean over the baseline's launches; new: (N, L, G).
    """

    base: Array
    new: Array


class WithinDf(NamedTuple):
    """Degrees of freedom of the variance between launches: of the baseline alone, and with the new run; (N, G)."""

    base: Array
    whole: Array


@dataclass(frozen=True)
class Deltas:
    """Changes against the baseline. All are (N, G) unless said otherwise.

    change: new mean minus the level of the current generation; session: (N, S, G), each session minus the level of
    its generation; path: the same minus the level of all; sessions: of the current generation; session_df: degrees of
    freedom of the spread between sessions, over all generations; across: it is learned across neighbouring builds,
    because too few sessions are of one build; launches: new ones; inverse_launches: mean of 1 / launches of a baseline session;
    within: variance between launches of one session, of a column minus its controls; within_df: what the
    baseline (`base`) and the whole data say of it, before shrinking; 0: it is a stated one. round_base,
    round_new: variance of a launch's value as its rounds tell it, NaN where they do not.
    """

    layout: Layout
    change: Array
    session: Array
    path: Array
    sessions: Array
    session_df: Array
    across: Flags
    launches: Array
    inverse_launches: Array
    within: Shrunk
    within_df: WithinDf
    round_base: Array
    round_new: Array

    @cached_property
    def relative(self) -> Array:
        """The change minus what the controls of the same run moved by."""
        return self.change - shift_of_controls(self.change, self.layout)

    @cached_property
    def relative_session(self) -> Array:
        """The same for each baseline session, (N, S, G)."""
        return self.session - shift_of_controls(self.session, self.layout)

    @cached_property
    def session_squares(self) -> Array:
        """Sum of squares of sessions, (N, G): over `session_df` it is their variance."""
        return self._squares(self.session, self.path)

    @cached_property
    def relative_squares(self) -> Array:
        """The same of sessions minus what their controls moved by."""
        path = self.path - shift_of_controls(self.path, self.layout)
        return self._squares(self.relative_session, path)

    def _squares(self, session: Array, path: Array) -> Array:
        of_one_build = np.asarray(np.nansum(session**2, axis=1))
        if not self.across.any():
            return of_one_build
        return np.asarray(np.where(self.across, about_one_step(path).total, of_one_build))

    @property
    def many(self) -> Flags:
        """Whether the baseline's own sessions say how far sessions differ (three of one level, or as good)."""
        return self.session_df >= 2

    @property
    def grow(self) -> Array:
        """Variance of (a new session - mean of the recorded ones), in units of one session's."""
        return 1 + 1 / self.sessions

    @property
    def own_within(self) -> Array:
        """Launch variance of a column alone, without its controls."""
        return self.within.variance / self.layout.cost

    @property
    def launch_floor(self) -> Array:
        """What launches alone make a change vary by. A stated variance is no floor: sessions may know better."""
        known = np.where(self.within_df.whole > 0, self.own_within, FLOOR**2)
        return known * self.launch_share

    @cached_property
    def excess_variance(self) -> Array:
        """Variance of the new mean beyond what the baseline's launches explain, where this run is clearly noisier.

        Rounds tell: if theirs is more than three times the baseline's, launches are taken to differ by as much more.
        Without it a disturbed run against a quiet baseline would be called a regression.
        """
        usual = np.where(np.isnan(self.round_base), self.own_within, self.round_base)
        ratio = self.round_new / np.maximum(usual, FLOOR**2)
        known = np.where(self.within_df.whole > 0, self.own_within * (ratio - 1), 0.0)
        more = np.maximum(known, LAUNCHES_PER_ROUND * self.round_new) / self.launches
        return np.where(ratio > CLEARLY_NOISIER, more, 0.0)

    @property
    def excess_variance_df(self) -> Array:
        """Degrees of freedom of `excess_variance`, counting four for the rounds of each launch."""
        return 4.0 * self.launches

    @property
    def spare(self) -> Array:
        """Launch variance that the new mean does not have and the sessions' means had, per `within`.

        Subtracted only where the baseline itself has shown what launches differ by.
        """
        less = np.maximum(self.inverse_launches - self.inverse_new, 0.0)
        return np.where(self.within_df.base >= MIN_WITHIN_DF, less, 0.0)

    @cached_property
    def inverse_new(self) -> Array:
        """1 / new launches: a mean of the column's and its controls' in the ratio in which they make up `within`."""
        own = 1 / self.launches
        return own / self.layout.cost + of_controls(own, self.layout) * (1 - 1 / self.layout.cost)

    @property
    def launch_share(self) -> Array:
        """What the difference of the two means keeps of the variance between launches."""
        return self.inverse_new + self.inverse_launches / self.sessions


def centre(
    base: Array, new: Array, layout: Layout, rounds: RoundNoise | None, generation: NDArray[np.intp]
) -> Deltas:
    """Centre `new` (N, L, G) and `base` (N, S, B, G); generation: (S, G), the highest of a column is the current."""
    every = base
    base = base[:, :, : new.shape[1]]  # launches warm a machine: compare those of the same position
    means = mean(base, 2)
    levels = _levels(means, generation)
    launches_of = np.sum(~np.isnan(base), axis=2)
    there = launches_of > 0
    session_df = (there.sum(axis=1) - levels.number).astype(float)
    path = means - mean(means, 1)[:, None]
    across = (session_df < 2) & (levels.number > 1) & (about_one_step(path).df >= 2)
    session_df = np.where(across, about_one_step(path).df, session_df)
    there = there & (generation == generation.max(axis=0))
    sessions = np.sum(there, axis=1).astype(float)
    inverse = np.where(there, 1 / np.maximum(launches_of, 1), 0.0).sum(axis=1) / np.maximum(sessions, 1)
    launches = np.sum(~np.isnan(new), axis=1).astype(float)
    nothing = (sessions == 0) | (launches == 0)
    unknown = np.full(sessions.shape, np.nan)
    round_base, round_new = (unknown, unknown) if rounds is None else (rounds.base, mean(rounds.new, 1))
    stated = OWN_PRIOR**2 + np.nan_to_num(round_new, nan=0.0)
    within, within_df = _within(
        every - levels.of_session[:, :, None], new - levels.current[:, None], layout, stated
    )
    return Deltas(
        layout=layout,
        change=np.where(nothing, np.nan, mean(new, 1) - levels.current),
        session=means - levels.of_session,
        path=path,
        across=across & ~nothing,
        sessions=np.where(nothing, 1.0, sessions),
        session_df=np.where(nothing, 0.0, session_df),
        launches=np.where(nothing, 1.0, launches),
        inverse_launches=np.where(nothing, 1.0, inverse),
        within=within,
        within_df=within_df,
        round_base=round_base,
        round_new=round_new,
    )


def _levels(means: Array, generation: NDArray[np.intp]) -> Levels:
    newest = generation.max(axis=0)
    of_session, count = np.full_like(means, np.nan), np.zeros((means.shape[0], means.shape[2]))
    current = np.full_like(count, np.nan)
    for number in np.unique(generation):
        inside = generation == number
        level = mean(means, 1) if inside.all() else mean(np.where(inside, means, np.nan), 1)
        of_session = np.where(inside, level[:, None], of_session)
        current = np.where(newest == number, level, current)
        count += ~np.isnan(level)
    return Levels(of_session, current, count)


def shift_of_controls(x: Array, layout: Layout) -> Array:
    """For each column (last axis) the median over its controls; 0 where it has none."""
    result = np.zeros_like(x)
    for members, controls in layout.groups:
        if len(controls):
            shift = median(x[..., controls], -1)
            result[..., members] = np.where(np.isnan(shift), 0.0, shift)[..., None]
    return result


def of_controls(x: Array, layout: Layout) -> Array:
    """For each column the mean of `x` over its controls; its own where it has none."""
    result = np.array(x)
    for members, controls in layout.groups:
        if len(controls):
            result[:, members] = x[:, controls].mean(axis=1, keepdims=True)
    return result


def squares(x: Array, axis: int) -> tuple[Array, Array]:
    """Sum of squares about the mean, and its degrees of freedom, without the NaNs."""
    about = x - np.expand_dims(mean(x, axis), axis)
    count = np.sum(~np.isnan(x), axis=axis)
    return np.nansum(about**2, axis=axis), np.maximum(count - 1, 0).astype(float)


def _within(base: Array, new: Array, layout: Layout, stated: Array) -> tuple[Shrunk, WithinDf]:
    """Pooled over the sessions. Subtracting the controls launch by launch takes out a drift of the machine."""
    base = base - shift_of_controls(base, layout)
    new = (new - shift_of_controls(new, layout))[:, : base.shape[2]]
    total, df_base, df = _about_positions(base, new) if base.shape[1] >= 3 else _about_means(base, new)
    variance = total / np.maximum(df, 1)
    floor = layout.cost * FLOOR**2
    shrunk = shrink_in_families(layout, variance, df, CAP_WITHIN, variance > floor)
    known = df > 0
    variance = np.maximum(np.where(known, shrunk.variance, layout.cost * stated), floor)
    return Shrunk(variance, np.where(known, shrunk.df, STATED_WITHIN_DF)), WithinDf(df_base, df)


def _about_means(base: Array, new: Array) -> tuple[Array, Array, Array]:
    """Sum of squares of launches about their session's mean, and degrees of freedom of the baseline and of all."""
    ss_base, df_base = squares(base, 2)
    ss_new, df_new = squares(new, 1)
    of_base = df_base.sum(axis=1)
    return ss_base.sum(axis=1) + ss_new, of_base, of_base + df_new


def _about_positions(base: Array, new: Array) -> tuple[Array, Array, Array]:
    """The same after taking out what launches of one position have in common in all sessions (warming up, order)."""
    inside = base - mean(base, 2)[:, :, None]
    pattern = mean(inside, 1)
    residual = inside - pattern[:, None]
    seen = ~np.isnan(base)
    spent = seen.any(axis=2).sum(axis=1) + np.maximum(seen.any(axis=1).sum(axis=1) - 1, 0)
    df_base = np.maximum(seen.sum(axis=(1, 2)) - spent, 0).astype(float)
    ss_new, df_new = squares(new - pattern[:, : new.shape[1]], 1)
    ss_base = np.where(df_base > 0, np.nansum(residual**2, axis=(1, 2)), 0.0)
    return ss_base + ss_new / (1 + 1 / base.shape[1]), df_base, df_base + df_new


def shrink_in_families(layout: Layout, variance: Array, df: Array, cap: float, use: Flags) -> Shrunk:
    """Shrink variances within each family of columns.

    The full cap is deserved by ten columns that are no copies of each other; three deserve a sixth of it, because
    columns of one run share their controls and are not independent.
    """
    whole = Shrunk(variance / layout.cost, df)
    for family in layout.families():
        speak = family & layout.teaches
        breadth = float(np.clip((speak.sum() - 1.5) / 8.5, 0.0, 1.0))
        whole = squeeze(*whole, cap=cap * breadth, fit=use & speak, use=use & family)
    return Shrunk(whole.variance * layout.cost, whole.df)
