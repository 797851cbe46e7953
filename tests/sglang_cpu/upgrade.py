"""The upgrade gate on genuine SGLang: what it says of builds whose difference is known.

    python -m tests.sglang_cpu.upgrade [--only CASE,CASE]

Each case is `pytest -m perf --reference 0.5.23 --candidate ... --duet` on the CPU: the same release, which must be good
or, on a machine that is too noisy, undecided; 0.5.20, of which nothing is claimed but that it is called nothing without
an interval; a checkpoint whose draft head is of random weights; a plugin that makes every batch take a tenth longer; one
that answers short prompts wrongly. Five minutes a case on two quiet cores, at most as many as `--minutes` says where it
stays undecided; exit status 0 only if all was said as it must be.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from suite.gate.runs import StoredVerdicts, load_verdicts
from tests.sglang_cpu.checkpoint import Options, write_checkpoint
from tests.sglang_cpu.install import DEFAULT_VERSION, ROOT, home

FAMILY = "qwen3_5_moe_vl"
TARGET, RUN_TIMEOUT_S = "sglang-cpu", 1500.0
PLUGINS = ROOT / "tests" / "sglang_cpu" / "plugins"


@dataclass(frozen=True, slots=True)
class Case:
    """A candidate, the statuses that may be said of it, and words of which one must stand in the first line; a word that
    ends in `...` begins it."""

    name: str
    candidate: str
    statuses: tuple[int, ...]
    words: tuple[str, ...] = ()
    table: str = ""


def cases() -> list[Case]:
    """All of them; the noisiest machine may leave what is as good undecided, and nothing that is broken."""
    dead = home() / "upgrade" / "dead" / FAMILY
    return [
        Case("same", f"sglang=={DEFAULT_VERSION}", (0, 8), ("GO for ...", "CANNOT TELL YET ...")),
        Case("other", "sglang==0.5.20", (0, 1, 8), ("0.5.20",)),
        Case(
            "random head",
            "dead",
            (1,),
            ("MTP", "draft"),
            f'[targets.{TARGET}.builds.dead]\nflags = {{ model-path = "{dead}" }}\n',
        ),
        Case("slower", "slower", (1,), ("steps are slower", "slows all"), _plugin("slower")),
        Case("wrong", "wrong", (1,), ("short text completions",), _plugin("wrong")),
    ]


def _plugin(name: str) -> str:
    return f'[targets.{TARGET}.builds.{name}]\nenv = {{ PYTHONPATH = "{PLUGINS / name}" }}\n'


def main(argv: Sequence[str] | None = None) -> int:
    """Play the cases and print the first line of each answer, its figures, and what is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m tests.sglang_cpu.upgrade", description=__doc__)
    parser.add_argument("--only", metavar="CASE,CASE", default="", help="these cases alone")
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="at most, a case (20)")
    parser.add_argument("--keep", metavar="DIR", help="keep the runs there")
    options = parser.parse_args(argv)
    write_checkpoint(FAMILY, Options(mtp_head="random"), home() / "upgrade" / "dead" / FAMILY)
    only = {name.strip() for name in options.only.split(",") if name.strip()}
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="upgrade-") as place:
        for case in cases():
            if not only or case.name in only:
                folder = Path(options.keep or place) / case.name.replace(" ", "-")
                wrong += _played(case, folder, options.minutes)
    print("\n".join(wrong or ["all as it must be"]))
    return 1 if wrong else 0


def _played(case: Case, folder: Path, minutes: float) -> list[str]:
    status, said = _run(case, folder, minutes)
    print(f"{case.name}: exit {status}: {said.sentence}", flush=True)
    for verdict in said.verdicts:
        print(f"  {verdict.word}, {verdict.question}, {verdict.arm}: {verdict.headline}", flush=True)
    for note in said.notes:
        print(f"  {note}", flush=True)
    return [*shortcomings(case, status, said.sentence), *_without_interval(case, said)]


def _without_interval(case: Case, said: StoredVerdicts) -> list[str]:
    """Figures that were compared, and are called something without saying how sure that is."""
    compared = ("pass", "improvement", "inconclusive", "regression")
    return [
        f"{case.name}: {verdict.question}, {verdict.arm}: no interval: {verdict.headline}"
        for verdict in said.verdicts
        if verdict.word in compared and (verdict.estimate.ci_low is None or verdict.estimate.ci_high is None)
    ]


def shortcomings(case: Case, status: int, sentence: str) -> list[str]:
    """What is not as it must be, a sentence each."""
    found = []
    if status not in case.statuses:
        found.append(
            f"{case.name}: must end with {' or '.join(map(str, case.statuses))}, ended with {status}"
        )
    if case.words and not any(_says(sentence, word) for word in case.words):
        found.append(f"{case.name}: its first line must say {' or '.join(map(repr, case.words))}: {sentence}")
    return found


def _says(sentence: str, word: str) -> bool:
    begins = word.removesuffix(" ...")
    return sentence.startswith(begins) if begins != word else word in sentence


def _run(case: Case, folder: Path, minutes: float) -> tuple[int, StoredVerdicts]:
    with _suite_config(case.table) as config:
        command = [
            *(sys.executable, "-m", "pytest", "-m", "perf", "-q", "-p", "no:cacheprovider"),
            *(f"--suite-config={config}", f"--target={TARGET}", f"--results={folder}"),
            *(f"--reference=sglang=={DEFAULT_VERSION}", f"--candidate={case.candidate}", "--duet"),
            f"--minutes={minutes:g}",
        ]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
    runs = sorted(folder.glob("*/verdicts.json"))
    if not runs:
        raise SystemExit(f"{case.name}: nothing was measured\n{(done.stdout + done.stderr)[-3000:]}")
    return done.returncode, load_verdicts(runs[-1])


@contextmanager
def _suite_config(table: str) -> Iterator[Path]:
    """The suite's configuration with one more build; it lies beside the real one, to which paths refer."""
    text = (ROOT / "suite.toml").read_text(encoding="utf-8")
    with tempfile.NamedTemporaryFile(
        "w", dir=ROOT, prefix=".suite-", suffix=".toml", encoding="utf-8"
    ) as file:
        file.write(f"{text}\n{table}")
        file.flush()
        yield Path(file.name)


if __name__ == "__main__":
    sys.exit(main())
