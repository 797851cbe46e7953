"""What a calibration measures: named tasks for the noise models, the layouts and the budgets."""

from __future__ import annotations

from dataclasses import replace

from proofs.calibrate.cells import BESIDE, NAMED, NOISIER, UNEQUAL, grid, small_grid
from proofs.calibrate.measure import Task
from proofs.calibrate.noise import Noise, even_layout, suite_layout

EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.10)
BUDGETS = ((5, 3), (3, 3), (1, 3), (5, 1), (1, 1))
"""Baseline sessions and new launches: `gate` on five, three and one session, `quick` on five and one."""

SUITE_SPEED = (0, 2, 3, 5)
"""Columns of the suite's own layout that a change of one metric is put into: speed and latency of both arms."""


def tasks(n: int, quick: bool) -> dict[str, Task]:
    """All tasks by name. `n`: campaigns each."""
    even = even_layout()
    planned: dict[str, Task] = {}
    for noise in small_grid() if quick else grid():
        for sessions, launches in BUDGETS:
            planned[f"grid S{sessions} L{launches}: {noise.name}"] = Task(
                noise,
                even,
                sessions,
                launches,
                n,
                sdc=launches == 3,
                peers=(sessions, launches) == (5, 3),
            )
        planned[f"on quick S5 L1: {noise.name}"] = Task(noise, even, 5, 1, n, base_launches=1)
    for name, noise in NAMED.items():
        planned[f"{name} S5"] = Task(noise, even, 5, 3, n, EFFECTS, common=(0.05,), sdc=True, peers=True)
        planned[f"on quick S5 L3: {noise.name}"] = Task(noise, even, 5, 3, n, base_launches=1)
        planned[f"{name} S3"] = Task(noise, even, 3, 3, n, EFFECTS)
        planned[f"{name} S1"] = Task(noise, even, 1, 3, n, (*EFFECTS, 0.17), common=(0.05,))
        planned[f"{name} looks"] = Task(noise, even, 5, 3, n, EFFECTS, looks=True)
    for name, noise in BESIDE.items():
        planned[f"{name} S5"] = Task(noise, even, 5, 3, n, EFFECTS, sdc=True)
        planned[f"{name} looks"] = Task(noise, even, 5, 3, n, (0.03, 0.05), looks=True)
    for noise in quiet():
        for sessions in (5, 3):
            planned[f"quiet S{sessions}: {noise.name}"] = Task(noise, even, sessions, 3, n, (0.03, 0.05))
    for noise in moving():
        planned[f"moving S5: {noise.name}"] = Task(noise, even, 5, 3, n, (0.03, 0.05, 0.10))
    for sessions, launches in ((5, 3), (5, 1), (1, 3)):
        for before in (Noise(0.003, 0.0, 0.003), NAMED["A"]):
            planned[f"noisier S{sessions} L{launches}: {before.name}"] = Task(
                before, even, sessions, launches, n, noise_now=NOISIER
            )
    planned["unequal S5"] = Task(UNEQUAL, even, 5, 3, n)
    return planned | _layouts(n, quick)


def _layouts(n: int, quick: bool) -> dict[str, Task]:
    """Runs of other shapes: the suite's own metrics, three, thirty, one arm only."""
    shapes = {
        "suite": (suite_layout(), SUITE_SPEED),
        "3 metrics, 3 arms": (even_layout(3, 3), ()),
        "3 metrics, 1 arm": (even_layout(3, 1), ()),
        "30 metrics": (even_layout(30, 3), ()),
    }
    planned = {}
    for name, (layout, columns) in shapes.items():
        for cell, noise in NAMED.items():
            if quick and cell not in "AC":
                continue
            for sessions in (5, 1) if quick else (5, 3, 1):
                planned[f"{name} {cell} S{sessions}"] = Task(
                    noise,
                    layout,
                    sessions,
                    3,
                    n if len(layout.columns) < 20 else n // 2,
                    EFFECTS[1:],
                    common=(0.05,),
                    columns=columns,
                )
    return planned


def quiet() -> list[Noise]:
    """CV up to 1 %, launches up to 0.5 %, sessions up to 0.3 %."""
    return [Noise(cv, launch, s) for cv in (0.003, 0.01) for launch in (0.0, 0.005) for s in (0.0, 0.003)]


def moving() -> list[Noise]:
    """The same with sessions of 1 and 3 %."""
    return [Noise(cv, launch, s) for cv in (0.003, 0.01) for launch in (0.0, 0.005) for s in (0.01, 0.03)]


def again(worst: list[Task], n: int) -> dict[str, Task]:
    """The tasks with most false alarms, with more campaigns and other random numbers."""
    return {
        f"again S{t.sessions} L{t.launches}: {t.noise.name}": replace(
            t, n=n, sdc=False, peers=False, stream=1
        )
        for t in worst
    }
