"""Plays pytest against a simulator with a fault, and reads how every scenario ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 400.0
BUDGETS = {"simulator": "matrix", "sglang-cpu": "quick"}
BAD = frozenset(
    {
        "regression",
        "not in effect",
        "broken promise",
        "invalid",
        "inconclusive",
        "unavailable",
        "infrastructure",
        "error",
    }
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How one item ended, and what it said."""

    scenario: str
    parameters: str
    word: str
    text: str

    @property
    def first_line(self) -> str:
        """The first line of what it said, after the exception's name."""
        return self.text.split("\n", 1)[0]

    @property
    def bad(self) -> bool:
        """Did it fail in any way?"""
        return self.word in BAD


@dataclass(frozen=True, slots=True)
class Run:
    """One pytest run: its exit status, its items, the tables it showed, what it printed, and its one sentence.

    recorded: the files of baselines that it wrote. page: summary.md. top: the name of what stands on top in Allure.
    """

    status: int
    ended: tuple[Ended, ...]
    tables: str
    printed: str
    sentence: str = ""
    recorded: tuple[str, ...] = ()
    page: str = ""
    top: str = ""


def play(
    fault: str,
    kinds: Sequence[str],
    baselines: Path,
    work: Path,
    options: Sequence[str] = (),
    target: str = "simulator",
    variables: Sequence[tuple[str, str]] = (),
) -> Run:
    """Run the scenarios of ``kinds`` on the simulator with ``fault`` (empty: none), or on another target as it is.

    Args:
        baselines: the directory of baselines to judge against, or to record into.
        work: an empty directory for what the run leaves behind.
        options: more options for pytest.
        variables: more of its environment.
    """
    work.mkdir(parents=True, exist_ok=True)
    record = work / "record.jsonl"
    selected = f"perf and ({' or '.join(kinds)})" + ("" if "spellings" in kinds else " and not spellings")
    command = [
        *(
            sys.executable,
            "-m",
            "pytest",
            "-m",
            selected,
            "-q",
            "-p",
            "proofs.faults.recorder",
            "-p",
            "no:cacheprovider",
        ),
        *(
            f"--target={target}",
            f"--budget={BUDGETS[target]}",
            f"--baselines={baselines}",
            f"--results={work / 'results'}",
            f"--alluredir={work / 'allure'}",
        ),
        *options,
    ]
    before = _contents(baselines)
    env = {**os.environ, "FAULTS_RECORD": str(record), "SIMULATED_FAULT": fault, "PYTHONPATH": str(ROOT)}
    env.update(variables)
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        status, printed = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        status, printed = -1, f"not done within {TIMEOUT_S:g} s"
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    tables = "".join(path.read_text(encoding="utf-8") for path in sorted(work.glob("results/*/tables.json")))
    said = [
        json.loads(path.read_text(encoding="utf-8")) for path in sorted(work.glob("results/*/verdicts.json"))
    ]
    pages = [path.read_text(encoding="utf-8") for path in sorted(work.glob("results/*/summary.md"))]
    ended = tuple(Ended(**json.loads(line)) for line in lines)
    recorded = tuple(sorted(name for name, text in _contents(baselines).items() if before.get(name) != text))
    sentence = said[-1].get("sentence", "") if said else ""
    page = pages[-1] if pages else ""
    return Run(status, ended, tables, printed, sentence, recorded, page, _top(work / "allure"))


def _top(allure: Path) -> str:
    """The name of the run's own result, which a report lists first."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(allure.glob("*-result.json"))]
    return next((r["name"] for r in results if r.get("fullName", "").startswith("verdict.")), "")


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
