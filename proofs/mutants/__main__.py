"""``python -m proofs.mutants``: mutants of the verdict's core against its tests; status 1 if too many survive."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from proofs.mutants.making import Mutant, mutants
from proofs.mutants.places import PLACES
from proofs.mutants.playing import End, play
from proofs.mutants.table import MOST_SURVIVE, Result, report, unkilled

FOLDER = Path(__file__).parent
KEPT = Path(".mutants.json")
"""What became of each mutant when its file was last played: of the files that ``--only`` leaves out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play every mutant of the chosen files, write the report of all, judge the share that is left."""
    options = _options(argv)
    kept = _kept()
    for place in PLACES.values():
        chosen = [path for path in place.files if not options.only or path in options.only]
        if chosen:
            kept |= _played(chosen, options.tests or place.tests, options.jobs)
        if chosen and not options.tests:
            KEPT.write_text(json.dumps({name: [r._asdict() for r in kept[name]] for name in kept}), "utf-8")
    explained = tomllib.loads((FOLDER / "explained.toml").read_text("utf-8"))
    found = {
        name: {path: kept[path] for path in place.files if path in kept} for name, place in PLACES.items()
    }
    text = report(found, explained)
    print(text)
    if options.tests:
        return 0
    (FOLDER / "report.md").write_text(text, "utf-8")
    return 1 if any(_too_many(files.values()) for files in found.values()) else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proofs.mutants", description=__doc__)
    parser.add_argument(
        "--only",
        nargs="*",
        metavar="FILE",
        choices=[path for place in PLACES.values() for path in place.files],
        help="files to play; of the others the report tells what the run before found (default: all files)",
    )
    parser.add_argument(
        "--tests",
        nargs="*",
        metavar="FILE",
        help="tests to play in place of the usual ones; writes no report",
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: one a core)"
    )
    return parser.parse_args(argv)


def _kept() -> dict[str, list[Result]]:
    if not KEPT.exists():
        return {}
    return {path: [Result(**r) for r in results] for path, results in json.loads(KEPT.read_text()).items()}


def _played(paths: Sequence[str], tests: Sequence[str], jobs: int) -> dict[str, list[Result]]:
    """The mutants of some files and what became of each, by file and line."""
    found: dict[str, list[Result]] = {path: [] for path in paths}
    begun = time.monotonic()

    def tell(mutant: Mutant, end: End, by: str) -> None:
        found[mutant.path].append(Result(mutant.key, mutant.line, mutant.before, mutant.after, end, by))
        if end is not End.KILLED:
            print(f"  {end}: {mutant.path}:{mutant.line}: {mutant.before} -> {mutant.after}", flush=True)

    play(tests, [mutant for path in paths for mutant in mutants(Path(path))], jobs, tell)
    for path, results in found.items():
        results.sort(key=lambda result: (result.line, result.after))
        print(f"{path}: {unkilled(results)} of {len(results)} not killed", flush=True)
    print(f"{time.monotonic() - begun:.0f} s", flush=True)
    return found


def _too_many(files: Iterable[list[Result]]) -> bool:
    results = [result for found in files for result in found]
    return unkilled(results) > MOST_SURVIVE * len(results)


if __name__ == "__main__":
    sys.exit(main())
