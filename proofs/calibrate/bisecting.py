"""Searches on modelled builds: how often the one that brought the loss is named, and what the sessions cost."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from proofs.calibrate.cells import NAMED
from proofs.calibrate.claims import Claim
from proofs.calibrate.noise import Noise, even_layout
from proofs.calibrate.upgrades import looked, session_of
from suite.bisect.search import Ask, SearchResult, Step, search
from suite.gate.upgrade import order

LOOKS = (2, 4, 6)
FOLLOWED = 0
"""The column whose loss is looked for; others of its arm may have lost as well."""


@dataclass(frozen=True)
class Row:
    """Modelled builds: what each lost against the first, in logs, + = worse; those that cannot start."""

    name: str
    noise: Noise
    losses: tuple[float, ...]
    dead: frozenset[int] = frozenset()
    n: int = 100

    @property
    def culprits(self) -> range:
        """The builds that may be named: the first that lost, with those right before it that cannot start."""
        first = next((i for i, loss in enumerate(self.losses) if loss > 0), 0)
        last = first
        while last in self.dead:
            last += 1
        while first - 1 in self.dead:
            first -= 1
        return range(first, last + 1)


@dataclass(frozen=True)
class SearchFigures:
    """Percent of searches that named the right build (or the right few); that named a wrong one; sessions and pairs
    of launches that a search took, on average."""

    right: float
    wrong: float
    sessions: float
    pairs: float


def rows(n: int = 100) -> list[Row]:
    """Six builds of which the fourth lost 4 %, on quiet machines and a drifting one, and the same with hindrances."""
    fourth = (0.0, 0.0, 0.0, *(float(np.log1p(0.04)),) * 3)
    lost = {
        "A": NAMED["A"],
        "CV 0.3 %": Noise(0.003, 0.0, 0.0),
        "drift 5 %": Noise(0.01, 0.005, 0.0, drift=0.05),
        "autocorrelated": Noise(0.01, 0.005, 0.0, "ar1"),
        "heavy tails": Noise(0.01, 0.005, 0.0, "t3"),
    }
    named = [Row(f"the fourth of six lost 4 %, {name}", noise, fourth, n=n) for name, noise in lost.items()]
    return [
        *named,
        Row("the same, the third cannot start", NAMED["A"], fourth, frozenset({2}), n),
        Row("the same, the fourth cannot start", NAMED["A"], fourth, frozenset({3}), n),
        Row("none of six lost anything", NAMED["A"], (0.0,) * 6, n=n),
        Row("noisy machine, the fourth of six lost 4 %", NAMED["D"], fourth, n=n),
    ]


def measure_row(row: Row) -> SearchFigures:
    """Search `row.n` times, each with its own seed."""
    right = wrong = sessions = pairs = 0.0
    for seed in range(row.n):
        gate = _Gate(row, np.random.default_rng([seed, zlib.crc32(row.name.encode())]))
        outcome, steps = search(len(row.losses), gate)
        right += _is_right(row, outcome)
        wrong += outcome.ending == "found" and outcome.first not in row.culprits
        sessions += len(steps)
        pairs += gate.pairs
    return SearchFigures(100 * right / row.n, 100 * wrong / row.n, sessions / row.n, pairs / row.n)


def _is_right(row: Row, outcome: SearchResult) -> bool:
    if not any(row.losses):
        return outcome.ending == "no loss"
    named = row.culprits
    return outcome == SearchResult("found" if len(named) == 1 else "range", named[0], named[-1])


class _Gate:
    """The gate on synthetic launches of two builds of a row: looks at 2+2, 4+4, 6+6, until all is decided."""

    def __init__(self, row: Row, rng: np.random.Generator) -> None:
        self._row, self._rng = row, rng
        self.pairs = 0

    def __call__(self, ask: Ask) -> Step:
        if ask.candidate in self._row.dead:
            return Step(ask.reference, ask.candidate, "cannot start")
        builds = order(LOOKS[-1])
        loss = self._row.losses[ask.candidate] - self._row.losses[ask.reference]
        layout = even_layout()
        values = session_of(self._row.noise, 1, builds, layout, self._rng)
        of_arm = layout.arm == layout.arm[FOLLOWED]
        values = values + loss * np.array([b == "C" for b in builds])[:, None] * of_arm
        seen = looked(values, builds, layout, LOOKS)
        self.pairs += int(seen.pairs[0])
        change, half = seen.change[0, FOLLOWED], seen.half[0, FOLLOWED]
        low, middle, high = np.expm1([change - half, change, change + half]).tolist()
        word = seen.word(0, FOLLOWED)
        return Step(ask.reference, ask.candidate, word, middle, low, high)


def bisect_claims(measured: dict[Row, SearchFigures], quick: bool) -> list[Claim]:
    """The lines. Of a noisy machine only that no wrong build is named."""
    wide = 10.0 if quick else 0.0
    lines = []
    for row, figures in measured.items():
        cost = f"{figures.sessions:.1f} sessions, {figures.pairs:.1f} pairs of launches"
        if row.noise != NAMED["D"]:
            held = figures.right >= 95 - wide
            lines.append(Claim(f"bisect, {row.name}: right >= 95 %", f"{figures.right:.0f} % ({cost})", held))
        else:
            held = figures.wrong <= 2 + wide
            measured_ = f"{figures.wrong:.0f} % (right {figures.right:.0f} %; {cost})"
            lines.append(Claim(f"bisect, {row.name}: a wrong one named <= 2 %", measured_, held))
    return lines
