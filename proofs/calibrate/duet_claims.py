"""What must hold of two builds asked in turn (`--duet`), and of a run that one pair of launches ends."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from typing import Literal

from proofs.calibrate.cells import UNEQUAL
from proofs.calibrate.claims import Claim, Lines
from proofs.calibrate.duets import Duet, DuetFigures, measure_duet
from proofs.calibrate.noise import Noise
from proofs.calibrate.upgrades import FirstPairFigures, measure_first_pair

LOOKS = ((1,), (2,), (4,), (1, 2), (2, 4, 6))
"""Launches of each build at each look: `sglang-cpu` looks at 1+1 and 2+2, other targets at 2+2, 4+4 and 6+6."""
CVS, LAUNCHES, ROUNDS = (0.003, 0.01, 0.05), (0.005, 0.01), (4, 5, 8)
SHARED = Duet(Noise(0.03, 0.02, 0), (1, 2, 3), 6, stated=0.02, margin=0.05)
"""As `sglang-cpu`: genuine SGLang on two shared cores, what was seen there, its budget and its margin."""
HEAVY: tuple[tuple[Literal["normal", "t3"], float], ...] = (
    ("normal", 0.03),
    ("t3", 0.01),
    ("t3", 0.02),
    ("t3", 0.03),
)


def measured(pool: Executor, n: int, quick: bool) -> list[Claim]:
    """Play all duets, `n` a cell, and say what held."""
    waiting = {duet: pool.submit(measure_duet, duet, n) for duet in duets(quick)}
    pairs = {
        f"launches {tails} {100 * launch:g} %": pool.submit(
            measure_first_pair, Noise(0.01, launch, 0), n, tails=tails
        )
        for tails, launch in HEAVY
    }
    return [
        *duet_claims({duet: future.result() for duet, future in waiting.items()}, quick),
        *first_pair_claims({name: future.result() for name, future in pairs.items()}, quick),
    ]


def duets(quick: bool) -> list[Duet]:
    """All cells: order effects of up to 10 %, first rounds up to half as slow again, a machine that wanders by 20 %."""
    even = [
        Duet(Noise(cv, launch, 0), looks, rounds)
        for cv in (CVS[1:] if quick else CVS)
        for launch in LAUNCHES
        for looks in LOOKS
        for rounds in (ROUNDS[:1] if quick else ROUNDS)
    ]
    odd = [
        Duet(Noise(cv, 0.01, 0, scales=UNEQUAL.scales), looks)
        for cv in (0.01, 0.05)
        for looks in ((1,), (2,))
    ]
    tailed = [Duet(Noise(0.01, launch, 0), tails="t3") for launch in LAUNCHES]
    return [*even, *odd, *tailed, SHARED]


def duet_claims(figures: Mapping[Duet, DuetFigures], quick: bool) -> list[Claim]:
    """Lines about two builds asked in turn, on a machine that favours a place and is cold at first."""
    slack, wide = (1.5, 5.0) if quick else (0.0, 0.0)

    def lines(
        *looks: tuple[int, ...], launch: float | None = None, cv: float = 0.05, rounds: int = 1
    ) -> Lines[DuetFigures]:
        return Lines(
            {
                duet.name: told
                for duet, told in figures.items()
                if duet.tails == "normal"
                and not duet.noise.scales
                and duet is not SHARED
                and duet.launches in (looks or LOOKS)
                and launch in (None, duet.noise.launch)
                and duet.noise.cv <= cv
                and duet.rounds >= rounds
            },
            "duet, ",
        )

    unequal = Lines({d.name: told for d, told in figures.items() if d.noise.scales}, "duet, ")
    tailed = Lines({d.name: told for d, told in figures.items() if d.tails != "normal"}, "duet, ")
    shared = Lines({SHARED.name: figures[SHARED]}, "duet, as on two shared cores, ")
    found = {e: partial(_found, e) for e in (0.03, 0.05, 0.10, 0.20)}
    return [
        lines().at_most(
            "places worth 10 %, cold first rounds, no change: no-go (1 % meant)", "", _no_go, 1.0 + slack
        ),
        unequal.at_most("fourfold unequal noise, no change: no-go (1 % meant)", "", _no_go, 3.0 + slack),
        tailed.at_most("launches of heavy tails, no change: no-go", "", _no_go, 1.0 + slack),
        lines((1,), cv=0.01).at_least("1+1, CV <= 1: 20 % found", "", found[0.20], 90 - wide),
        lines((1, 2), cv=0.01).at_least("looks to 2+2, CV <= 1: 10 % found", "", found[0.10], 90 - wide),
        lines((2,), cv=0.01, launch=0.005).at_least(
            "2+2, CV <= 1, launch 0.5: 5 % found", "", found[0.05], 75 - wide
        ),
        lines((4,), cv=0.01, launch=0.005).at_least(
            "4+4, CV <= 1, launch 0.5: 3 % found", "", found[0.03], 65 - wide
        ),
        lines((2, 4, 6), cv=0.01, launch=0.005).at_least(
            "looks to 6+6, CV <= 1, launch 0.5: 3 % found", "", found[0.03], 80 - wide
        ),
        lines((2, 4, 6), cv=0.01).at_least("looks to 6+6, CV <= 1: go", "", lambda f: f.go, 95 - wide),
        shared.at_most("no change: no-go (1 % meant)", "", _no_go, 1.0 + slack),
        shared.at_least("no change: go", "", lambda f: f.go, 95 - wide),
        shared.at_least("10 % in one figure found", "", found[0.10], 80 - wide),
        lines().at_least("95 % intervals that hold the truth", "", lambda f: f.held, 93 - wide),
    ]


def first_pair_claims(figures: Mapping[str, FirstPairFigures], quick: bool) -> list[Claim]:
    """Lines about a run that one pair of launches ends, where launches differ by much."""
    lines = Lines(figures, "upgrade, 1+1, ")
    slack = 1.5 if quick else 0.0
    return [
        lines.at_most(
            "launches of 3 % as stated, no change: no-go (0.1 % meant)",
            ["launches normal 3 %"],
            _no_go,
            0.3 + slack,
        ),
        lines.at_most(
            "launches of 1 %, heavy tails, no change: no-go", ["launches t3 1 %"], _no_go, 0.3 + slack
        ),
        lines.at_most(
            "launches of 2 %, heavy tails, no change: no-go", ["launches t3 2 %"], _no_go, 1.5 + slack
        ),
        lines.at_most(
            "launches of 3 %, heavy tails, no change: no-go", ["launches t3 3 %"], _no_go, 4.0 + slack
        ),
        lines.at_least(
            "launches of 3 %, heavy tails or not: 20 % lost ends it", "", lambda f: f.found, 95.0 - 3 * slack
        ),
    ]


def _found(effect: float, figures: DuetFigures) -> float:
    return figures.found[effect]


def _no_go(figures: DuetFigures | FirstPairFigures) -> float:
    return figures.no_go
