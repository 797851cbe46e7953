"""Interleaved sessions of two builds: what the upgrade's comparison calls, with and without drift."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proofs.calibrate.noise import Campaigns, Noise, _rounds, derive, even_layout
from proofs.calibrate.trajectories import GATE, Drawn, Trajectories, draw_pairs
from suite.bisect.search import Word
from suite.gate.layout import Layout
from suite.gate.paired import NO_ACCEPTANCE, AcceptanceColumns
from suite.gate.robust import Array, t_quantile, trimmed_mean
from suite.gate.upgrade import LOOK_SHARES, Comparison, compare_builds, order, outright

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class UpgradeFigures:
    """Percent of runs: without a change no-go and go (all metrics); with one, found; of the printed SDC, found."""

    no_go: float
    go: float
    found: dict[float, float]
    sdc_found: float
    pairs: float


@dataclass(frozen=True)
class FirstPairFigures:
    """Percent of runs that one pair of launches ends as a no-go: without a change, and where all lost 20 %."""

    no_go: float
    found: float


@dataclass(frozen=True)
class PartingFigures:
    """Percent of runs of two builds whose answers part: without a change no-go and go (all metrics); acceptance 5 %
    lower found; steps 3 % longer found; 95 % intervals of acceptance that hold the truth."""

    no_go: float
    go: float
    less_found: float
    longer_found: float
    held: float


@dataclass(frozen=True)
class Looked:
    """What a session that looks after so many pairs, and stops as soon as all is decided, says of each column (N, G).

    pairs: that were spent, (N,); change and half of its 95 % interval: at the look that decided, or the last.
    """

    no_go: Flags
    better: Flags
    go: Flags
    pairs: Array
    change: Array
    half: Array

    def word(self, n: int, g: int) -> Word:
        """As the gate says it, of one column of one run."""
        if self.no_go[n, g]:
            return "no-go"
        if self.better[n, g]:
            return "better"
        return "go" if self.go[n, g] else "inconclusive"


def measure_upgrade(
    noise: Noise,
    pairs: int,
    n: int,
    *,
    effects: tuple[float, ...] = (0.03,),
    looks: tuple[int, ...] = (),
    stream: int = 0,
) -> UpgradeFigures:
    """Judge `n` sessions of `pairs` launches per build; with `looks` (2, 4, 6) stop as soon as all is decided.

    Sessions with and without drift are drawn from the same random numbers, so that drift is all they differ by.
    """
    steady = replace(noise, drift=0.0, random_drift=False)
    rng = np.random.default_rng(zlib.crc32(f"{steady} {pairs} {looks} {stream}".encode()))
    layout = even_layout()
    builds = order(pairs)
    values = session_of(noise, n, builds, layout, rng)
    candidate = np.array([b == "C" for b in builds], dtype=float)
    picked = np.zeros((n, len(layout.columns)))
    picked[np.arange(n), np.arange(n) % len(layout.columns)] = 1.0

    def judged(effect: Array | float) -> Looked:
        changed = values + candidate[:, None] * (np.asarray(effect) * picked)[:, None, :]
        return looked(changed, builds, layout, looks or (pairs,))

    none = judged(0.0)
    found = {e: 100 * float(judged(e).no_go[picked > 0].mean()) for e in effects}
    printed = compare_builds(values, builds, layout).sdc[picked > 0][:, None]
    sdc_found = 100 * float(judged(printed).no_go[picked > 0].mean()) if not looks else float("nan")
    return UpgradeFigures(
        100 * float(none.no_go.any(axis=1).mean()),
        100 * float((none.go | none.better).all(axis=1).mean()),
        found,
        sdc_found,
        float(none.pairs.mean()),
    )


def measure_first_pair(
    noise: Noise, n: int, loss: float = 0.20, *, tails: Literal["normal", "t3"] = "normal"
) -> FirstPairFigures:
    """After one launch of each build only a loss beyond doubt is said: how often without one, and of a large one.

    tails: of what launches differ by.
    """
    rng = np.random.default_rng(
        zlib.crc32(f"first pair {noise}{tails if tails != 'normal' else ''}".encode())
    )
    layout = even_layout()
    values = session_of(noise if tails == "normal" else replace(noise, launch=0.0), n, order(4), layout, rng)
    if tails == "t3":
        values = values + noise.launch * rng.standard_t(3, values.shape) / np.sqrt(3)
    change = values[:, 1] - values[:, 0]  # of the session the first pair is seen
    most = outright(len(layout.columns))
    return FirstPairFigures(
        100 * float((change > most).any(axis=1).mean()),
        100 * float((change + np.log1p(loss) > most).any(axis=1).mean()),
    )


def looked(
    values: Array,
    builds: str,
    layout: Layout,
    looks: tuple[int, ...],
    acceptance: AcceptanceColumns = NO_ACCEPTANCE,
) -> Looked:
    """Judge the first launches of a session, then more of them, until all is decided or the looks are spent."""
    shares = LOOK_SHARES if len(looks) == len(LOOK_SHARES) else (1.0,)
    n, _, columns = values.shape
    no_go, better, go = (np.zeros((n, columns), dtype=bool) for _ in range(3))
    change, half = (np.zeros((n, columns)) for _ in range(2))
    open_ = np.ones((n, columns), dtype=bool)
    spent = np.zeros(n)
    for pairs, share in zip(looks, shares, strict=True):
        running = np.asarray(open_.any(axis=1))
        spent = np.where(running, pairs, spent)
        part = compare_builds(
            values[:, : 2 * pairs],
            builds[: 2 * pairs],
            layout,
            share=share,
            acceptance=acceptance.first(pairs),
        )
        now = open_ & running[:, None]
        change = np.where(now, part.change + part.accepted, change)
        half = np.where(now, t_quantile(0.975, part.df) * np.hypot(part.se, part.accepted_se), half)
        no_go |= now & part.no_go
        better |= now & part.better
        go |= now & part.go
        open_ &= ~(no_go | better | go)
    return Looked(no_go, better, go, spent, change, half)


def measure_parting(cell: Trajectories, pairs: int, n: int, *, looks: tuple[int, ...] = ()) -> PartingFigures:
    """The same with acceptance: another build as good as the reference, whose answers part as the cell says."""
    steady = replace(cell, noise=replace(cell.noise, drift=0.0))
    rng = np.random.default_rng(zlib.crc32(f"parting {steady} {pairs} {looks}".encode()))
    builds = order(pairs)
    values = session_of(cell.noise, n, builds, GATE, rng)
    drawn = Drawn(GATE, Campaigns(values[:, :1, None, :, None], values[..., None]), draw_pairs(cell, n, rng))
    candidate = np.array([b == "C" for b in builds], dtype=float)

    def changed(of: Drawn, slower: float) -> Array:
        steps = slower * np.isin(np.arange(len(GATE.columns)), of.steps)
        return np.asarray(values + candidate[:, None] * steps)

    def judged(of: Drawn, slower: float = 0.0) -> Comparison | Looked:
        if looks:
            return looked(changed(of, slower), builds, GATE, looks, of.rests_on)
        return compare_builds(changed(of, slower), builds, GATE, acceptance=of.rests_on)

    none = judged(drawn)
    less = judged(drawn.less_accepted(-float(np.log1p(-0.05))))
    longer = judged(drawn, float(np.log1p(0.03)))
    return PartingFigures(
        100 * float(none.no_go.any(axis=1).mean()),
        100 * float((none.go | none.better).all(axis=1).mean()),
        100 * float(less.no_go[:, drawn.acceptance[0]].mean()),
        100 * float(longer.no_go[:, drawn.steps].any(axis=1).mean()),
        100 * float(_held(none)[:, drawn.acceptance].mean()),
    )


def _held(none: Comparison | Looked) -> Flags:
    """Whether the 95 % interval of each column holds the truth, 0."""
    if isinstance(none, Looked):
        return np.asarray(np.abs(none.change) <= none.half)
    half = t_quantile(0.975, none.df) * np.hypot(none.se, none.accepted_se)
    return np.asarray(np.abs(none.change + none.accepted) <= half)


def session_of(noise: Noise, n: int, builds: str, layout: Layout, rng: np.random.Generator) -> Array:
    """Signed logs (N, K, G) of the launch values of `n` interleaved sessions, both builds alike.

    What differs from session to session is common to both builds and drops out, so it is left out.
    """
    launches, metrics = len(builds), len(layout.columns)
    slopes = np.random.default_rng(rng.integers(2**32)).uniform(-1, 1, (n, 1, 1))
    scale = np.array(noise.scales or (1.0,) * metrics)
    launch = rng.standard_normal((n, launches, metrics)) * np.sqrt(1 - noise.launch_shared)
    if noise.launch_shared:
        arms = rng.standard_normal((n, launches, len(layout.arms)))
        launch = launch + arms[..., layout.arm] * np.sqrt(noise.launch_shared)
    level = noise.launch * scale * launch
    level = level[..., None] + noise.cv * scale[:, None] * _rounds(noise, (*level.shape, 5), rng)
    if noise.drift:
        slope = slopes if noise.random_drift else 1.0
        over = (np.arange(launches) / (launches - 1))[:, None]
        level = level + (noise.drift * slope * over)[..., None]
    return trimmed_mean(derive(np.asarray(level), layout, rng))
