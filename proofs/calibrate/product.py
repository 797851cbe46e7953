"""`python -m proofs.calibrate.product`: unchanged runs of the product itself; do its 95 % intervals hold 0, and is nothing said?

Whole runs of pytest on the modelled server: sessions are recorded, then come runs of the same build, half of them while
the machine is kept busy, and runs of builds that are as good and round otherwise. What the statistics promise on
synthetic campaigns (`python -m proofs.calibrate`) must hold for what a person reads.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from proofs.faults.playing import play
from suite.gate import BaselineStore, load_run
from suite.gate.runs import load_verdicts
from suite.gate.verdicts import Verdict

KINDS = ("decode", "acceptance", "speedup")
OPTIONS = ("--concurrency=1",)
COVERED = (0.92, 0.98)
ALARMS = ("regression", "improvement", "broken promise")


@dataclass(frozen=True, slots=True)
class Played:
    """One run: what kind it was, what it said of each figure, how it ended, and what it printed last."""

    kind: str
    verdicts: tuple[Verdict, ...]
    status: int
    end: str


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence that must hold, whether it does, and what was seen."""

    text: str
    held: bool
    seen: str

    def __str__(self) -> str:
        return f"{'holds' if self.held else 'FAILS'}: {self.text}: {self.seen}"


def main(argv: Sequence[str] | None = None) -> int:
    """Record, play, count; 0 only if every line held."""
    parser = argparse.ArgumentParser(prog="python -m proofs.calibrate.product", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=50, help="unchanged runs; as many again of other builds (50)"
    )
    parser.add_argument("--sessions", type=int, default=5, help="recorded sessions (5)")
    parser.add_argument("--jobs", type=int, default=2, help="runs side by side; a simulator mostly waits (2)")
    parser.add_argument("--minutes", type=float, default=40.0, help="start no run after so many minutes (40)")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="product-") as place:
        played = _all(Path(place), options)
    lines = judged(played)
    print("\n".join(_table(played)), "\n".join(map(str, lines)), sep="\n\n")
    return 0 if all(line.held for line in lines) else 1


def judged(played: Sequence[Played]) -> list[Line]:
    """What must hold of these runs."""
    lines = []
    for name, kinds in (("unchanged runs", ("quiet", "busy")), ("other builds", ("other build",))):
        chosen = [run for run in played if run.kind in kinds]
        words = [f"{v.headline}" for run in chosen for v in run.verdicts if v.word in ALARMS]
        lines.append(Line(f"{name} say nothing", not words, "; ".join(words) or f"{len(chosen)} runs"))
        lines.append(_covered(f"95 % intervals of {name} hold 0", chosen))
    return lines


def _covered(text: str, runs: Sequence[Played]) -> Line:
    """The share of intervals that hold 0; one run's figures are no independent ones, so runs are the clusters."""
    counts = [
        [
            low <= 0 <= high
            for v in run.verdicts
            if (low := v.estimate.ci_low) is not None and (high := v.estimate.ci_high) is not None
        ]
        for run in runs
    ]
    counts = [held for held in counts if held]
    total = sum(map(len, counts))
    if len(counts) < 2:
        return Line(text, False, "too few runs were judged")
    share = sum(map(sum, counts)) / total
    residual = sum((sum(held) - share * len(held)) ** 2 for held in counts)
    error = math.sqrt(residual * len(counts) / (len(counts) - 1)) / total
    low, high = COVERED
    seen = f"{100 * share:.1f} % of {total} in {len(counts)} runs (standard error {100 * error:.1f} %)"
    return Line(
        f"{text} in {100 * low:g} to {100 * high:g} %", low - 2 * error <= share <= high + 2 * error, seen
    )


def _all(place: Path, options: argparse.Namespace) -> list[Played]:
    begun = time.monotonic()
    baselines = place / "baselines"
    with ThreadPoolExecutor(options.jobs) as pool:
        folders = [place / f"session-{n}" for n in range(options.sessions)]
        list(pool.map(lambda folder: play("", KINDS, place / "none", folder, OPTIONS), folders))
        store = BaselineStore(baselines, target="simulator")
        for number, folder in enumerate(folders):
            session = load_run(_run_of(folder))
            store.record(msgspec.structs.replace(session, run_id=f"{session.run_id}-{number}"))
        print(f"{options.sessions} sessions recorded in {time.monotonic() - begun:.0f} s", flush=True)
        quiet, busy = options.runs - options.runs // 2, options.runs // 2
        wanted = [
            *((f"quiet-{n}", "quiet", "") for n in range(quiet)),
            *((f"other-{n}", "other build", f"other-rounding={n + 1}") for n in range(options.runs)),
        ]
        late = begun + 60 * options.minutes
        played = list(pool.map(lambda one: _one(place, baselines, late, *one), wanted))
        with _busy_machine():
            loaded = [(f"busy-{n}", "busy", "") for n in range(busy)]
            played += pool.map(lambda one: _one(place, baselines, late, *one), loaded)
    return [run for run in played if run is not None]


def _one(place: Path, baselines: Path, late: float, name: str, kind: str, fault: str) -> Played | None:
    if time.monotonic() > late:
        return None
    run = play(fault, KINDS, baselines, place / name, OPTIONS)
    if not list((place / name).glob("results/*/verdicts.json")):
        return Played(kind, (), run.status, run.printed[-500:])
    verdicts = load_verdicts(_run_of(place / name)).verdicts
    return Played(kind, tuple(verdicts), run.status, "")


def _run_of(folder: Path) -> Path:
    return next((folder / "results").glob("*/run.json")).parent


@contextmanager
def _busy_machine() -> Iterator[None]:
    """As many processes that only count as there are cores: others have work to do on this machine, too."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            counting = subprocess.Popen([sys.executable, "-c", "while True: sum(range(10**6))"])
            stack.callback(counting.wait)
            stack.callback(counting.kill)
        yield


def _table(played: Sequence[Played]) -> list[str]:
    """By kind of run and figure: how often the interval held 0, and the words."""
    lines = []
    for kind in dict.fromkeys(run.kind for run in played):
        runs = [run for run in played if run.kind == kind]
        lines.append(
            f"{kind}: {len(runs)} runs, {sum(not run.verdicts for run in runs)} of them without a verdict"
        )
        for key in sorted({(v.question, v.arm, v.metric) for run in runs for v in run.verdicts}):
            found = [v for run in runs for v in run.verdicts if (v.question, v.arm, v.metric) == key]
            told = [
                v.estimate for v in found if v.estimate.ci_low is not None and v.estimate.ci_high is not None
            ]
            held = sum(e.ci_low <= 0 <= e.ci_high for e in told)  # type: ignore[operator]
            words = {
                word: sum(v.word == word for v in found) for word in dict.fromkeys(v.word for v in found)
            }
            shown = ", ".join(f"{count} {word}" for word, count in words.items())
            lines.append(f"  {' '.join(key):<64} holds 0 in {held} of {len(told)}; {shown}")
    return lines


if __name__ == "__main__":
    sys.exit(main())
