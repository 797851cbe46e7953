"""Interleaved sessions of two builds: what the upgrade's comparison calls, with and without drift."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from proofs.calibrate.noise import Noise, _rounds, even_layout
from suite.gate.shrink import Array, trimmed_mean
from suite.gate.upgrade import LOOK_SHARES, compare_builds, order


@dataclass(frozen=True)
class UpgradeFigures:
    """Percent of runs: without a change no-go and go (all metrics); with one, found; of the printed SDC, found."""

    no_go: float
    go: float
    found: dict[float, float]
    sdc_found: float
    pairs: float


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


def _launches(noise: Noise, n: int, launches: int, metrics: int, rng: np.random.Generator) -> Array:
    level = noise.launch * rng.standard_normal((n, launches, metrics))
    if noise.drift:
        slope = rng.uniform(-1, 1, (n, 1, 1)) if noise.random_drift else 1.0
        level = level + noise.drift * slope * (np.arange(launches) / (launches - 1))[:, None]
    return trimmed_mean(level[..., None] + noise.cv * _rounds(noise, (*level.shape, 5), rng))
