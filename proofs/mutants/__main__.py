"""``python -m proofs.mutants``: mutants of the verdict's core against its tests; status 1 if too many survive."""

from __future__ import annotations

import argparse
import os
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from proofs.mutants.making import Mutant, mutants
from proofs.mutants.places import PLACES
from proofs.mutants.playing import End, ends, load_libraries

MOST_SURVIVE = 0.15
FOLDER = Path(__file__).parent
Results = list[tuple[Mutant, End]]


def main(argv: Sequence[str] | None = None) -> int:
    """Play every mutant of the chosen places, write the report, judge the share that survived."""
    options = _options(argv)
    found: dict[str, Results] = {}
    begun = time.monotonic()
    for name in options.only or PLACES:
        found[name] = _place(name, options.jobs)
        print(f"{name}: {_survived(found[name])} of {len(found[name])} survived", flush=True)
    explained = tomllib.loads((FOLDER / "explained.toml").read_text("utf-8"))
    text = _report(found, explained, time.monotonic() - begun)
    print(text)
    if not options.only:
        (FOLDER / "report.md").write_text(text, "utf-8")
    return 1 if any(_survived(results) > MOST_SURVIVE * len(results) for results in found.values()) else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proofs.mutants", description=__doc__)
    parser.add_argument(
        "--only", nargs="*", choices=list(PLACES), help="places (default: all, and the report is written)"
    )
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="mutants at a time (default: a core each)"
    )
    return parser.parse_args(argv)


def _place(name: str, jobs: int) -> Results:
    """The mutants of one place and what became of each."""
    all_of_them = [mutant for path in PLACES[name].files for mutant in mutants(Path(path))]
    tests = PLACES[name].tests
    load_libraries(tests)
    results: Results = []
    for mutant, end in ends(tests, all_of_them, jobs):
        results.append((mutant, end))
        if end is End.SURVIVED:
            print(f"  survived: {mutant.key}", flush=True)
    return sorted(results, key=lambda result: (result[0].path, result[0].line, result[0].after))


def _survived(results: Results) -> int:
    return sum(end is End.SURVIVED for _, end in results)


def _report(found: Mapping[str, Results], explained: Mapping[str, str], took_s: float) -> str:
    lines = [
        "# Mutants of the verdict's core",
        "",
        f"Written by `tox run -e mutants` ({took_s / 60:.0f} minutes). A mutant is the code with one small change; it is killed",
        "if one of its place's tests fails. What survived is either explained here or asks for a test.",
        "",
        "| place | mutants | killed | survived | share |",
        "|---|---|---|---|---|",
    ]
    for name, results in found.items():
        left = _survived(results)
        share = left / len(results) if results else 0.0
        lines.append(f"| {name} | {len(results)} | {len(results) - left} | {left} | {100 * share:.1f} % |")
    for name, results in found.items():
        lines += ["", f"## Survivors of {name}", ""]
        for mutant in (mutant for mutant, end in results if end is End.SURVIVED):
            why = explained.get(mutant.key, "not explained")
            lines.append(f"- `{mutant.path}:{mutant.line}` `{mutant.before}` -> `{mutant.after}`: {why}")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
