"""Interleaved sessions of two builds: what the upgrade's comparison calls, with and without drift."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from proofs.calibrate.noise import Campaigns, Noise, _rounds, derive, even_layout
from proofs.calibrate.trajectories import GATE, Drawn, Trajectories, draw_pairs
from suite.gate.shrink import Array, t_quantile, trimmed_mean
from suite.gate.upgrade import LOOK_SHARES, Comparison, compare_builds, order


@dataclass(frozen=True)
class UpgradeFigures:
    """Percent of runs: without a change no-go and go (all metrics); with one, found; of the printed SDC, found."""

    no_go: float
    go: float
    found: dict[float, float]
    sdc_found: float
    pairs: float


@dataclass(frozen=True)
class PartingFigures:
    """Percent of runs of two builds whose answers part: without a change no-go and go (all metrics); acceptance 5 %
    lower found; steps 3 % longer found; 95 % intervals of acceptance that hold the truth."""

    no_go: float
    go: float
    less_found: float
    longer_found: float
    held: float


def measure_upgrade(
    noise: Noise, pairs: int, n: int, *, effects: tuple[float, ...] = (0.03,), looks: tuple[int, ...] = ()
) -> UpgradeFigures:
    """Judge `n` sessions of `pairs` launches a build; with `looks` (2, 4, 6) stop as soon as all is decided."""
    rng = np.random.default_rng(zlib.crc32(f"{noise} {pairs} {looks}".encode()))
    layout = even_layout()
    builds = order(pairs)
    values = _launches(noise, n, len(builds), len(layout.columns), rng)
    candidate = np.array([b == "C" for b in builds], dtype=float)
    picked = np.zeros((n, len(layout.columns)))
    picked[np.arange(n), np.arange(n) % len(layout.columns)] = 1.0

    def judged(effect: Array | float) -> tuple[Array, Array, Array]:
        changed = values + candidate[:, None] * (np.asarray(effect) * picked)[:, None, :]
        return _looked(changed, builds, looks or (pairs,))

    no_go, go, spent = judged(0.0)
    found = {e: 100 * float(judged(e)[0][picked > 0].mean()) for e in effects}
    printed = compare_builds(values, builds, layout).sdc[picked > 0][:, None]
    sdc_found = 100 * float(judged(printed)[0][picked > 0].mean()) if not looks else float("nan")
    return UpgradeFigures(
        100 * float(no_go.any(axis=1).mean()),
        100 * float(go.all(axis=1).mean()),
        found,
        sdc_found,
        float(spent.mean()),
    )


def _looked(values: Array, builds: str, looks: tuple[int, ...]) -> tuple[Array, Array, Array]:
    layout = even_layout()
    shares = LOOK_SHARES if len(looks) == len(LOOK_SHARES) else (1.0,)
    shape = (len(values), values.shape[2])
    no_go, go = (np.zeros(shape, dtype=bool) for _ in range(2))
    open_ = np.ones(shape, dtype=bool)
    spent = np.zeros(len(values))
    for pairs, share in zip(looks, shares, strict=True):
        running = np.asarray(open_.any(axis=1))
        spent = np.where(running, pairs, spent)
        part = compare_builds(values[:, : 2 * pairs], builds[: 2 * pairs], layout, share=share)
        no_go |= open_ & running[:, None] & part.no_go
        go |= open_ & running[:, None] & (part.go | part.better)
        open_ &= ~(no_go | go)
    return no_go, go, spent


def measure_parting(noise: Noise, spread: float, pairs: int, n: int, *, prompts: int = 256) -> PartingFigures:
    """The same with acceptance: another build as good as the reference, whose answers part (SD `spread` of a prompt's)."""
    rng = np.random.default_rng(zlib.crc32(f"parting {noise} {spread} {pairs}".encode()))
    builds = order(pairs)
    values = _launches(noise, n, len(builds), len(GATE.columns), rng)
    values = derive(values[..., None], GATE, rng)[..., 0]
    cell = Trajectories(noise, spread, sessions=1, launches=pairs, prompts=prompts)
    drawn = Drawn(GATE, Campaigns(values[:, :1, None, :, None], values[..., None]), draw_pairs(cell, n, rng))
    candidate = np.array([b == "C" for b in builds], dtype=float)

    def judged(of: Drawn, slower: float = 0.0) -> Comparison:
        steps = slower * np.isin(np.arange(len(GATE.columns)), of.steps)
        changed = values + candidate[:, None] * steps
        return compare_builds(changed, builds, GATE, acceptance=of.rests_on)

    none = judged(drawn)
    added_se = np.hypot(none.se, none.accepted_se)
    held = (
        np.abs(none.change + none.accepted)[:, drawn.acceptance]
        <= (t_quantile(0.975, none.df) * added_se)[:, drawn.acceptance]
    )
    less = judged(drawn.less_accepted(-float(np.log1p(-0.05))))
    longer = judged(drawn, float(np.log1p(0.03)))
    return PartingFigures(
        100 * float(none.no_go.any(axis=1).mean()),
        100 * float(none.go.all(axis=1).mean()),
        100 * float(less.no_go[:, drawn.acceptance[0]].mean()),
        100 * float(longer.no_go[:, drawn.steps].any(axis=1).mean()),
        100 * float(held.mean()),
    )


def _launches(noise: Noise, n: int, launches: int, metrics: int, rng: np.random.Generator) -> Array:
    level = noise.launch * rng.standard_normal((n, launches, metrics))
    if noise.drift:
        slope = rng.uniform(-1, 1, (n, 1, 1)) if noise.random_drift else 1.0
        level = level + noise.drift * slope * (np.arange(launches) / (launches - 1))[:, None]
    return trimmed_mean(level[..., None] + noise.cv * _rounds(noise, (*level.shape, 5), rng))
