"""What must hold of two builds measured in one interleaved session, and of a search over such sessions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial

from proofs.calibrate import bisecting, duet_claims
from proofs.calibrate.cells import BESIDE, CVS, LAUNCHES, NAMED, UNEQUAL
from proofs.calibrate.claims import Claim, Lines, summary
from proofs.calibrate.noise import Noise
from proofs.calibrate.trajectories import Trajectories
from proofs.calibrate.upgrades import (
    FirstPairFigures,
    PartingFigures,
    UpgradeFigures,
    measure_first_pair,
    measure_parting,
    measure_upgrade,
)

Job = tuple[Noise, int, tuple[int, ...]]
LOOKS = (2, 4, 6)
DRIFT = 0.05
SAME = 0.5
"""Percentage points by which a drift may change a figure."""
WORST = 10
AGAIN = 10_000
ODD = "unequal noise"
"""Three of ten metrics four times as noisy: what they learn from the others misleads, which the gate's own line allows for, too."""
SPREADS = (0.03, 0.06, 0.10)


def measured(pool: Executor, n: int, quick: bool) -> list[Claim]:
    """Play all campaigns of upgrades, `n` a cell, and say what held."""
    jobs = upgrade_jobs(quick)
    waiting = {name: pool.submit(_upgrade, job, n) for name, job in jobs.items()}
    parting = {name: pool.submit(job, n=min(n, 1000)) for name, job in parting_jobs(quick).items()}
    rows = bisecting.rows(min(n, 100))
    searches = {row: pool.submit(bisecting.measure_row, row) for row in rows}
    pairs = {
        noise.name: pool.submit(measure_first_pair, noise, n)
        for noise in dict.fromkeys(j[0] for j in jobs.values())
    }
    duets = duet_claims.measured(pool, n, quick)
    upgrades = {name: future.result() for name, future in waiting.items()}
    again = {} if quick else _again(pool, jobs, upgrades)
    return [
        *upgrade_claims(upgrades, again, quick),
        *first_pair_claims({name: future.result() for name, future in pairs.items()}, quick),
        *parting_claims({name: future.result() for name, future in parting.items()}, quick),
        *duets,
        *bisecting.bisect_claims({row: future.result() for row, future in searches.items()}, quick),
    ]


def _upgrade(job: Job, n: int, stream: int = 0) -> UpgradeFigures:
    noise, pairs, looks = job
    return measure_upgrade(noise, pairs, n, looks=looks, stream=stream)


def _again(
    pool: Executor, jobs: Mapping[str, Job], figures: Mapping[str, UpgradeFigures]
) -> dict[str, UpgradeFigures]:
    """The cells with most false alarms, with more campaigns and other random numbers."""
    alike = [name for name in figures if ODD not in name]
    worst = sorted(alike, key=lambda name: -figures[name].no_go)[:WORST]
    waiting = {name: pool.submit(_upgrade, jobs[name], AGAIN, 1) for name in worst}
    return {name: future.result() for name, future in waiting.items()}


def upgrade_jobs(quick: bool) -> dict[str, Job]:
    """Sessions of 4+4 launches and of looks at 2+2, 4+4, 6+6 in every noise model; what differs from one session to
    another is common to both builds, so models that differ in that alone are one."""
    models = [
        Noise(cv, launch, 0.0, rounds)
        for cv in (CVS[1:2] if quick else CVS)
        for launch in (LAUNCHES[1:] if quick else LAUNCHES)
        for rounds in ("normal", "t3", "ar1", "bimodal")
    ]
    models += [_alone(BESIDE["A, launches of an arm alike"]), _alone(UNEQUAL)]
    jobs: dict[str, Job] = {}
    for noise in models:
        for drift, random in ((0.0, False), (DRIFT, False), (DRIFT, True)):
            if quick and random:
                continue
            drifting = _drifting(noise, drift, random)
            jobs[f"4+4 {drifting.name}"] = (drifting, 4, ())
            jobs[f"looks {drifting.name}"] = (drifting, 6, LOOKS)
    jobs["2+2"] = (_alone(NAMED["A"]), 2, ())
    jobs["6+6 launch 1 %"] = (Noise(0.01, 0.01, 0.0), 6, ())
    return jobs


def _alone(noise: Noise) -> Noise:
    return Noise(
        noise.cv, noise.launch, 0.0, noise.rounds, launch_shared=noise.launch_shared, scales=noise.scales
    )


def _drifting(noise: Noise, drift: float, random: bool) -> Noise:
    return Noise(
        noise.cv,
        noise.launch,
        0.0,
        noise.rounds,
        launch_shared=noise.launch_shared,
        scales=noise.scales,
        drift=drift,
        random_drift=random,
    )


def upgrade_claims(
    figures: Mapping[str, UpgradeFigures], again: Mapping[str, UpgradeFigures], quick: bool
) -> list[Claim]:
    """Lines about speeds of two builds. With few campaigns the tolerances are wider."""
    slack, wide = (1.5, 5.0) if quick else (0.0, 0.0)
    lines = Lines(figures)
    quiet = [f"4+4 {Noise(cv, launch, 0.0).name}" for cv in CVS[:2] for launch in LAUNCHES[:2]]
    fitting = [name for name in quiet if name in figures]
    drifting = [name for name in (f"{name} drift 5%" for name in fitting) if name in figures]
    ar1 = f"4+4 {Noise(0.01, 0.005, 0.0, 'ar1').name}"
    launchy = f"looks {Noise(0.01, 0.01, 0.0).name}"
    alike = Lines({name: f for name, f in figures.items() if ODD not in name})
    odd = [name for name in figures if ODD in name]
    claims = [
        *(
            alike.at_most(
                f"{what}, every noise model, no change: no-go (1 % meant)", where, _no_go, 1.5 + slack
            )
            for what, where in (("4+4 launches", "4+4 "), ("looks at 2+2, 4+4, 6+6", "looks "))
        ),
        lines.at_most("fourfold unequal noise, no change: no-go (1 % meant)", odd, _no_go, 2.0 + slack),
    ]
    if again:
        claims.append(
            Lines(again).at_most("the ten worst of these again with 10,000: no-go", "", _no_go, 1.3)
        )
    claims += [
        lines.at_least("4+4, CV <= 1, launch <= 0.5: go", fitting + drifting, _go, 95 - wide),
        lines.at_least("4+4, CV <= 1, launch <= 0.5: 3 % found", fitting + drifting, _found, 95 - wide),
        *_drift_claims(figures, fitting),
        lines.at_least("6+6, launch 1 %: 3 % found", "6+6", _found, 85 - wide),
        lines.at_least("4+4: printed SDC found", "4+4 ", lambda f: f.sdc_found, 85 - wide),
        lines.at_least("4+4, autocorrelated: go", [ar1], _go, 95 - wide),
        lines.at_least("4+4, autocorrelated: 3 % found", [ar1], _found, 85 - wide),
        lines.at_least("looks to 6+6, launch 1 %: go", [launchy], _go, 95 - wide),
    ]
    return claims


def _drift_claims(figures: Mapping[str, UpgradeFigures], names: Sequence[str]) -> list[Claim]:
    """A drift of the machine over the session changes nothing: the same sessions with and without it."""
    claims = []
    for what, value in (("no-go", _no_go), ("go", _go), ("3 % found", _found)):
        moved = {
            name: abs(value(figures[drift]) - value(figures[name]))
            for name in names
            if (drift := f"{name} drift 5%") in figures
        }
        worst = max(moved, key=lambda name: moved[name])
        text = f"upgrade, 4+4, drift of 5 % over the session changes {what} by <= {SAME:g} points"
        claims.append(Claim(text, f"highest {moved[worst]:.2f} ({worst})", moved[worst] <= SAME))
    return claims


def first_pair_claims(figures: Mapping[str, FirstPairFigures], quick: bool) -> list[Claim]:
    """Lines about a run that has one launch of each build: all but sure of a 20 % loss, and never of one that is none."""
    lines = Lines(figures)
    return [
        lines.at_most("1+1, every noise model, no change: no-go (0.1 % meant)", "", lambda f: f.no_go, 0.3),
        lines.at_least(
            "1+1, every noise model: 20 % lost ends it", "", lambda f: f.found, 95 - (5 if quick else 0)
        ),
    ]


def _no_go(figures: UpgradeFigures | PartingFigures) -> float:
    return figures.no_go


def _go(figures: UpgradeFigures | PartingFigures) -> float:
    return figures.go


def _found(figures: UpgradeFigures) -> float:
    return figures.found[0.03]


def parting_jobs(quick: bool) -> dict[str, Callable[..., PartingFigures]]:
    """Two builds as good as each other whose answers part: all trajectory cells of one recorded session."""
    jobs: dict[str, Callable[..., PartingFigures]] = {}
    for spread in (0.06,) if quick else SPREADS:
        for within in (0.0, spread):
            for drift in (0.0, DRIFT):
                noise = Noise(0.01, 0.005, 0, drift=drift)
                cell = Trajectories(noise, spread, within, sessions=1, launches=4)
                jobs |= _named(cell, within, drift)
    noise = Noise(0.01, 0.005, 0)
    for odd in (
        Trajectories(noise, sessions=1, launches=4, tails="t4"),
        Trajectories(noise, sessions=1, launches=4, same=0.5),
    ):
        jobs |= _named(odd, 0.0, 0.0)
    usual = Trajectories(noise, 0.06, sessions=1, launches=6)
    jobs["s_t 6 %, looks"] = partial(measure_parting, usual, 6, looks=LOOKS)
    return jobs


def _named(cell: Trajectories, within: float, drift: float) -> dict[str, Callable[..., PartingFigures]]:
    name = f"s_t {100 * cell.spread:g} %"
    name += ", launches as far apart" if within else ""
    name += f", {cell.tails} tails" if cell.tails != "normal" else ""
    name += ", half the same text" if cell.same else ""
    name += f", drift {100 * drift:g} %" if drift else ""
    return {name: partial(measure_parting, cell, 4)}


def parting_claims(figures: Mapping[str, PartingFigures], quick: bool) -> list[Claim]:
    """Lines about two interleaved builds whose answers part."""
    slack, wide = (1.5, 5.0) if quick else (0.0, 0.0)
    lines = Lines(figures, "upgrade, answers part, ")
    one = [name for name in figures if "looks" not in name]
    return [
        lines.at_most("every trajectory, no change: no-go (1 % meant)", "", _no_go, 1.5 + slack),
        lines.at_least("s_t 6 %: go", "s_t 6 %", _go, 95 - wide),
        lines.at_least("s_t 6 %: acceptance 5 % lower found", "s_t 6 %", lambda f: f.less_found, 99 - wide),
        lines.at_least("steps 3 % longer found", "", lambda f: f.longer_found, 95 - wide),
        lines.at_least("95 % intervals of acceptance that hold the truth", one, lambda f: f.held, 93 - wide),
        lines.at_most("and not more often", one, lambda f: f.held, 97 + wide),
    ]


def main(argv: list[str] | None = None) -> int:
    """Only these lines, without the page."""
    parser = argparse.ArgumentParser(prog="python -m proofs.calibrate.upgrade_claims", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--campaigns", type=int)
    arguments = parser.parse_args(argv)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        claims = measured(pool, arguments.campaigns or (200 if arguments.quick else 2000), arguments.quick)
    print("\n".join(summary(claims)))
    return 0 if all(claim.held for claim in claims) else 1


if __name__ == "__main__":
    sys.exit(main())
