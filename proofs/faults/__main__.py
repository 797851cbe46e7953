"""``python -m proofs.faults``: the matrix of faults and scenarios; exit status 0 only if every line is as it must be."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from proofs.faults.checking import disturbed, said, shortcomings
from proofs.faults.lines import LINES, REAL, Line
from proofs.faults.playing import Run, play
from suite.gate import BaselineStore, Session, load_run

SESSIONS = 5
JUDGED = ("decode", "prefill", "acceptance", "speedup", "steptime", "configuration")
"""Kinds whose values are compared with a baseline."""

ATTEMPTS = 3
"""Runs that this machine disturbed are played again, as exit status 8 asks for."""

SHORT = {
    "skipped": "-",
    "passed": ".",
    "unavailable": "x",
    "inconclusive": "?",
    "invalid": "I",
    "not in effect": "N",
    "infrastructure": "X",
    "regression": "R",
    "broken promise": "B",
    "error": "E",
}
"""How the cells of the matrix are written, the gravest last."""


def main(argv: Sequence[str] | None = None) -> int:
    """Record baselines, play every line, print the matrix."""
    begun = time.monotonic()
    options = _options(argv)
    lines = REAL if options.real else LINES
    chosen = [line for line in lines if not options.only or any(word in line.name for word in options.only)]
    work = Path(options.keep or tempfile.mkdtemp(prefix="faults-"))
    try:
        given = options.baselines or (work / "none" if options.real else None)
        baselines = Path(given) if given else _record(work, options.jobs)
        with ThreadPoolExecutor(1 if options.real else options.jobs) as pool:
            runs = list(pool.map(lambda line: _played(line, baselines, work), chosen))
        bad = _print(chosen, runs)
        print(f"in {(time.monotonic() - begun) / 60:.1f} minutes")
    finally:
        if not options.keep:
            shutil.rmtree(work, ignore_errors=True)
    return 1 if bad else 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proofs.faults", description=__doc__)
    parser.add_argument("--only", metavar="WORD", action="append", help="only faults whose name holds this")
    parser.add_argument("--jobs", type=int, default=3, help="runs side by side; a simulator mostly waits (3)")
    parser.add_argument("--keep", metavar="DIR", help="keep what the runs leave behind")
    parser.add_argument(
        "--baselines", metavar="DIR", help="judge against these instead of recording some first"
    )
    parser.add_argument(
        "--real", action="store_true", help="the few lines of genuine SGLang on the CPU instead"
    )
    return parser.parse_args(argv)


def _record(work: Path, jobs: int) -> Path:
    """Baselines of a sound simulator: some sessions, played as the faults will be and then stored one by one."""
    begun = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        sessions = list(pool.map(lambda number: _session(work, number), range(SESSIONS)))
    store = BaselineStore(work / "baselines", target="simulator")
    for number, session in enumerate(sessions):  # two that began in the same second go by the same name
        store.record(msgspec.structs.replace(session, run_id=f"{session.run_id}-{number}"))
    print(f"{SESSIONS} sessions recorded in {time.monotonic() - begun:.0f} s", flush=True)
    return work / "baselines"


def _session(work: Path, number: int) -> Session:
    """What a sound simulator measures; a run that this machine disturbed is played again."""
    why = ""
    for attempt in range(ATTEMPTS):
        folder = work / f"session-{number + 1}-{attempt + 1}"
        run = play("", JUDGED, work / "none", folder)
        bad = [ended.first_line for ended in run.ended if ended.bad]
        if run.ended and not bad:
            return load_run(next((folder / "results").glob("*/run.json")).parent)
        why = bad[0] if bad else run.printed[-2000:]
    sys.exit(f"a sound simulator must pass before faults are tried; session {number + 1}: {why}")


def _played(line: Line, baselines: Path, work: Path) -> Run:
    begun = time.monotonic()
    options = (*line.options, *(("-k", line.keyword) if line.keyword else ()))
    folder = "".join(letter if letter.isalnum() else "-" for letter in line.name)
    for attempt in range(ATTEMPTS):
        kept = work / f"{folder}-{attempt + 1}"
        own = _copied(baselines, kept) if "--record-baseline" in line.options else baselines
        run = play(line.fault, line.kinds, own, kept, options, line.target, line.env)
        if not shortcomings(line, run) or not disturbed(run):
            break
    found = shortcomings(line, run)
    verdict = "NOT as it must be" if found else "as it must be"
    again = f", {attempt + 1} runs" if attempt else ""
    told = [f"  {verdict}: {line.name} ({time.monotonic() - begun:.0f} s{again})", *found]
    print("\n      ".join(told), flush=True)
    return run


def _copied(baselines: Path, kept: Path) -> Path:
    """What is recorded must not be what other lines are judged against."""
    if baselines.exists():
        shutil.copytree(baselines, kept / "baselines", dirs_exist_ok=True)
    return kept / "baselines"


def _print(lines: Sequence[Line], runs: Sequence[Run]) -> int:
    """The matrix, what was said, and what is wrong; returns how many lines are."""
    scenarios = list(dict.fromkeys(ended.scenario for run in runs for ended in run.ended))
    width = max(len(line.name) for line in lines)
    print("\n" + "\n".join(_heads(scenarios, width)))
    for line, run in zip(lines, runs, strict=True):
        cells = "  ".join(_cell(run, scenario) for scenario in scenarios)
        print(f"{line.name:<{width}}  {cells}  {said(line, run)}")
    print(
        "\n"
        + ", ".join(f"{letter} {word}" for word, letter in SHORT.items())
        + "; the worst of a scenario's items\n"
    )
    wrong = [
        (line, run, found)
        for line, run in zip(lines, runs, strict=True)
        if (found := shortcomings(line, run))
    ]
    for line, run, found in wrong:
        print(f"{line.name} (pytest ended with {run.status}):")
        print("\n".join(f"  {sentence}" for sentence in found))
    print(f"{len(lines) - len(wrong)} of {len(lines)} lines are as they must be")
    return len(wrong)


def _heads(scenarios: Sequence[str], width: int) -> list[str]:
    """The scenarios by letters, and the line of letters that stands above the matrix."""
    letters = [chr(ord("a") + place) for place in range(len(scenarios))]
    key = [f"  {letter}  {scenario}" for letter, scenario in zip(letters, scenarios, strict=True)]
    return [*key, "", f"{'fault':<{width}}  " + "  ".join(letters) + "  what was said"]


def _cell(run: Run, scenario: str) -> str:
    words = {ended.word for ended in run.ended if ended.scenario == scenario}
    return next((SHORT[word] for word in reversed(SHORT) if word in words), " ")


if __name__ == "__main__":
    sys.exit(main())
