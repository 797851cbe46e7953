"""Duets: two builds up at once and asked in turn, on a machine that wanders, favours a place, and is cold at first."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from proofs.calibrate.noise import Noise, _rounds, even_layout
from suite.gate.duet import LAUNCH_SD, RoundPairs, Rounds, beside, pairs_of
from suite.gate.layout import Layout
from suite.gate.robust import Array, t_quantile
from suite.gate.upgrade import compare_pairs, shares
from suite.session.turns import UNCOUNTED, begins

WANDER = 0.2
"""SD of what the machine does to both builds from round to round."""
COLD, WARMS = 0.5, 0.1
"""A server's first round of a workload takes up to half as long again; each further one a tenth of that."""


@dataclass(frozen=True)
class Duet:
    """One kind of duet, relative sizes. place: what being asked first is worth at most, either way; drift: of a whole launch.

    launches: of each build at each look; effects: losses that are looked for; tails: of what launches differ by;
    stated: what they are said to differ by; margin: of all figures.
    """

    noise: Noise
    launches: tuple[int, ...] = (1,)
    rounds: int = 4
    place: float = 0.1
    drift: float = 0.05
    effects: tuple[float, ...] = (0.03, 0.05, 0.10, 0.20)
    tails: Literal["normal", "t3"] = "normal"
    stated: float = LAUNCH_SD
    margin: float = 0.02

    @property
    def name(self) -> str:
        """As lines show it."""
        looks = ", ".join(f"{n}+{n}" for n in self.launches)
        tails = f", launches {self.tails}" if self.tails != "normal" else ""
        tails += ", unequal noise" if self.noise.scales else ""
        tails += f", margin {100 * self.margin:g} %" if self.margin != 0.02 else ""
        return f"{looks} launches of {self.rounds} rounds, cv {100 * self.noise.cv:g} % launch {100 * self.noise.launch:g} %{tails}"


@dataclass(frozen=True)
class DuetFigures:
    """Percent of duets: without a change no-go and go (all metrics); with one in one metric, found; 95 % intervals of
    the first look that hold the truth."""

    no_go: float
    go: float
    found: dict[float, float]
    held: float


def measure_duet(duet: Duet, n: int) -> DuetFigures:
    """Judge `n` duets without a change, and with one in one metric."""
    rng = np.random.default_rng(zlib.crc32(f"duet {duet}".encode()))
    layout = Layout(tuple(replace(column, margin=duet.margin) for column in even_layout().columns))
    old, new = played(duet, layout, n, rng)
    told = [_told(old[:, :many], new[:, :many], duet.stated) for many in duet.launches]
    picked = np.zeros((n, len(layout.columns)))
    picked[np.arange(n), np.arange(n) % len(layout.columns)] = 1.0

    def judged(effect: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        no_go, go = (np.zeros(picked.shape, dtype=bool) for _ in range(2))
        for pairs, share in zip(told, shares(len(told)), strict=True):
            moved = pairs._replace(change=pairs.change + np.log1p(effect) * picked)
            part = compare_pairs(moved, layout, share=share)
            still = ~(no_go | go)
            no_go |= still & part.no_go
            go |= still & (part.go | part.better)
        return no_go, go

    no_go, go = judged(0.0)
    first = compare_pairs(told[0], layout)
    held = np.abs(first.change) <= t_quantile(0.975, first.df) * first.se
    return DuetFigures(
        100 * float(no_go.any(axis=1).mean()),
        100 * float(go.all(axis=1).mean()),
        {e: 100 * float(judged(e)[0][picked > 0].mean()) for e in duet.effects},
        100 * float(held.mean()),
    )


def played(duet: Duet, layout: Layout, n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Signed logs (N, launches, G, rounds) of the reference and the candidate, alike, of the rounds that count."""
    launches, metrics = duet.launches[-1], len(layout.columns)
    numbers = np.arange(UNCOUNTED, duet.rounds)
    shape = (n, launches, metrics, len(numbers))
    wander = WANDER * rng.standard_normal(shape)
    place = duet.place * rng.uniform(-1, 1, (n, 1, metrics, 1))
    slope = duet.drift * rng.uniform(-1, 1, (n, launches, 1, 1)) / (2 * len(numbers))
    # the first launch's item is the reference's, the second's the candidate's; workloads begin with either build
    other_first = (np.arange(launches)[:, None] + np.arange(metrics)) % 2 == 1
    reversed_ = np.array(
        [[[begins(int(r), other_first=bool(o)) for r in numbers] for o in row] for row in other_first]
    )
    sides = []
    for candidate in (False, True):
        second = reversed_ != candidate
        turn = 2 * np.arange(len(numbers)) + second
        scale = np.array(duet.noise.scales or (1.0,) * metrics)[:, None]
        rounds = wander + place * ~second + slope * turn
        rounds = rounds + (duet.noise.launch * _luck(duet, shape[:3], rng))[..., None]
        rounds = rounds + duet.noise.cv * scale * _rounds(duet.noise, shape, rng)
        rounds = rounds + (COLD * rng.random(shape[:3]))[..., None] * WARMS ** np.arange(len(numbers))
        sides.append(np.asarray(rounds[..., numbers != UNCOUNTED]))
    return sides[0], sides[1]


def _luck(duet: Duet, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """What each launch is off by, of unit SD."""
    if duet.tails == "t3":
        return np.asarray(rng.standard_t(3, shape) / np.sqrt(3))
    return rng.standard_normal(shape)


def _told(old: Array, new: Array, stated: float) -> RoundPairs:
    """What the pairs of each run tell (N, G)."""
    rows = [
        beside(
            [
                pairs_of(Rounds(list(before), list(after)), launch_sd=stated)
                for before, after in zip(*sides, strict=True)
            ]
        )
        for sides in zip(old.swapaxes(1, 2), new.swapaxes(1, 2), strict=True)
    ]
    return RoundPairs(*(np.concatenate(parts) for parts in zip(*rows, strict=True)))
