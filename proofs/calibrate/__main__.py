"""`python -m proofs.calibrate`: measure our rule and the peers' rules on the same campaigns; exit 0 only if all lines hold."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from proofs.calibrate import histories, plan, table, upgrade_claims
from proofs.calibrate.build_claims import build_claims, cells
from proofs.calibrate.cells import NAMED
from proofs.calibrate.claims import Results, gate_claims, history_claims, summary
from proofs.calibrate.histories import OtavaFigures
from proofs.calibrate.measure import Figures, Task, measure
from proofs.calibrate.trajectories import BuildFigures, Trajectories, measure_builds

WORST = 10
SESSION_SDS = (0.003, 0.007, 0.011)


def main(argv: list[str] | None = None) -> int:
    """Run the calibration; the exit status is 0 only if every must-hold line held."""
    parser = argparse.ArgumentParser(prog="python -m proofs.calibrate", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few models and campaigns: half a minute, wide tolerances"
    )
    parser.add_argument("--campaigns", type=int, help="campaigns a model (default 2000, quick 200)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="DIR")
    arguments = parser.parse_args(argv)
    n = arguments.campaigns or (200 if arguments.quick else 2000)
    start = time.monotonic()
    with ProcessPoolExecutor(arguments.workers) as pool:
        results = _measured(pool, plan.tasks(n, arguments.quick))
        if not arguments.quick:
            results |= _measured(pool, plan.again(_worst(results), 5 * n))
        upgrade_lines = upgrade_claims.measured(pool, n, arguments.quick)
        builds = _builds(pool, max(n // 2, 5), arguments.quick)
    rows = {sd: histories.ours(sd, 40 if arguments.quick else 200) for sd in SESSION_SDS}
    claims = [
        *gate_claims(results, arguments.quick),
        *build_claims(builds, arguments.quick),
        *upgrade_lines,
        *history_claims(rows),
    ]
    page = table.page(results, builds, claims, _otava(arguments.quick), n, time.monotonic() - start)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "table.md").write_text(page, encoding="utf-8")
    why = table.plot(results, arguments.out / "table.png")
    print(page)
    print("\n".join(summary(claims)))
    if why:
        print(f"no plot: {why}")
    missed = sum(not c.held for c in claims)
    print(f"{len(claims) - missed} of {len(claims)} lines held")
    return 1 if missed else 0


def _measured(
    pool: ProcessPoolExecutor, tasks: Mapping[str, Task]
) -> dict[str, tuple[Task, dict[str, Figures]]]:
    waiting = {pool.submit(measure, task): name for name, task in tasks.items()}
    done: dict[str, tuple[Task, dict[str, Figures]]] = {}
    for future in as_completed(waiting):
        done[waiting[future]] = future.result()
        if sys.stderr.isatty():
            print(f"\r{len(done)} of {len(waiting)}", end="", file=sys.stderr, flush=True)
    return {name: done[name] for name in tasks}


def _builds(pool: ProcessPoolExecutor, n: int, quick: bool) -> dict[str, tuple[Trajectories, BuildFigures]]:
    planned = cells(n, quick)
    return {
        cell.name: (cell, figures)
        for cell, figures in zip(planned, pool.map(measure_builds, planned), strict=True)
    }


def _worst(results: Results) -> list[Task]:
    """The ten tasks of the grid with most false alarms, with at least three launches."""
    alarms = [
        (f["ours"].false_alarm, name)
        for name, (t, f) in results.items()
        if name.startswith("grid") and t.launches >= 3
    ]
    return [results[name][0] for _, name in sorted(alarms, reverse=True)[:WORST]]


def _otava(quick: bool) -> dict[str, OtavaFigures] | str:
    if not histories.has_otava():
        return "it is not installed (it pins an old numpy; `pip install --no-deps apache-otava==0.8.0` is enough here)"
    return {
        cell: histories.otava((v.session**2 + v.launch**2 / 3 + v.cv**2 / 15) ** 0.5, 20 if quick else 100)
        for cell, v in NAMED.items()
        if cell != "D"
    }


if __name__ == "__main__":
    sys.exit(main())
