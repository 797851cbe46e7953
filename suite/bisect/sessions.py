"""A session of two builds as the judge of a search: `pytest -m perf --reference --candidate`, read from its verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from suite.bisect.journal import Search, Task
from suite.bisect.search import Ask, Step, Word
from suite.foreign import one_line
from suite.gate import GateError, status
from suite.gate.attribution import is_unmeasured
from suite.gate.runs import StoredVerdicts, load_verdicts
from suite.gate.verdicts import Verdict
from suite.metrics.registry import METRICS

WORDS: dict[str, Word] = {"pass": "go", "improvement": "better", "regression": "no-go", "invalid": "invalid"}
"""Every other word is one that does not tell."""
SCENARIOS = {
    "decode": "decode",
    "latency": "prefill",
    "count": "acceptance",
    "ratio": "speedup",
    "tail": "decode",
}
"""The scenarios that measure a kind of metric: more is not asked in a search."""
LOG = "pytest.log"
USAGE = 4
"""Of pytest: a build that cannot be had is told as wrong usage, before anything is launched."""
JUDGED = (status.GOOD, status.BROKEN, status.UNDECIDED)
LAST_CHARS = 2000


class SearchStopped(GateError):
    """A session could not be had for a reason that is no build's; the search goes on with --resume."""


@dataclass
class Sessions:
    """Measures what a search asks, one folder a session below `folder`; `followed` is set by the first no-go.

    directory: from which pytest runs: where the scenarios are; say: takes a sentence.
    """

    search: Search
    folder: Path
    directory: Path
    suite_config: Path
    say: Callable[[str], None] = field(default=lambda line: None)

    def __call__(self, ask: Ask) -> Step:
        """Play the session, or what of it is missing.

        Raises SearchStopped where host, disk or usage are at fault, or the run was stopped.
        """
        place = self.folder / f"{ask.reference}-{ask.candidate}-{ask.attempt + 1}"
        place.mkdir(parents=True, exist_ok=True)
        task = self.search.task
        self.say(
            f"session {len(self.search.steps) + 1}: {task.builds[ask.candidate]} against {task.builds[ask.reference]}"
            + (f", again ({ask.attempt + 1})" if ask.attempt else "")
        )
        code = self._play(ask, place)
        runs = sorted(place.glob("*/verdicts.json"))
        if code == USAGE and not runs and not _misused(place / LOG):
            return Step(ask.reference, ask.candidate, "cannot start", why=_last_words(place / LOG))
        if code not in JUDGED or not runs:
            raise SearchStopped(
                f"the session ended with status {code}: {_last_words(place / LOG)}; go on with --resume {self.folder}"
            )
        return self._read(ask, load_verdicts(runs[-1]), str(runs[-1].parent))

    def _play(self, ask: Ask, place: Path) -> int:
        task = self.search.task
        begun = sorted(path.parent for path in place.glob("*/journal.jsonl"))
        command = [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *(f"--suite-config={self.suite_config}", f"--target={task.target}", f"--results={place}"),
            *(f"--reference={task.builds[ask.reference]}", f"--candidate={task.builds[ask.candidate]}"),
            *(["--resume", str(begun[-1])] if begun else []),
            *_selection(task, self.search.followed),
            *task.options,
        ]
        with (place / LOG).open("ab") as log:
            return subprocess.run(
                command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=False,
                env=_environment(),
            ).returncode

    def _read(self, ask: Ask, said: StoredVerdicts, where: str) -> Step:
        """What the verdicts say of the value that is followed; the gravest of them where none is followed yet."""
        found = [v for v in said.verdicts if v.metric == self.search.task.metric and self._fits(v)]
        if all(v.word == "unjudged" or is_unmeasured(v) for v in found):
            causes = [c.text for c in said.causes if c.kind in ("launch", "promise")]
            if causes:
                return Step(
                    ask.reference, ask.candidate, "cannot start", why=one_line(causes[0]), where=where
                )
            raise SearchStopped(
                f"{where}: there is no verdict on {self.search.task.metric}: {one_line(said.sentence)}; is it measured by "
                "what is asked (--arm, --question, pytest's options after --)?"
            )
        worst = max(found, key=_gravity)
        word = WORDS.get(worst.word, "inconclusive")
        if self.search.followed is None and word == "no-go":
            self.search.followed = (worst.question, worst.arm)
        return _step(ask, worst, word, where)

    def _fits(self, verdict: Verdict) -> bool:
        if self.search.followed is not None:
            return (verdict.question, verdict.arm) == self.search.followed
        task = self.search.task
        return task.question in (None, verdict.question) and task.arm in (None, verdict.arm)


def _selection(task: Task, followed: tuple[str, str] | None) -> list[str]:
    """What of the scenarios is asked: those that measure the metric, of the arm that is searched."""
    words = ["-m", f"perf and {SCENARIOS[METRICS[task.metric].kind]}"]
    arm = followed[1] if followed else task.arm
    return [*words, "-k", arm] if arm else words


def _gravity(verdict: Verdict) -> tuple[int, float]:
    """A loss before what is not decided, before what is not to be trusted, before what is well; of two the larger."""
    rank = {"regression": 3, "inconclusive": 2, "invalid": 1}.get(verdict.word, 0)
    return rank, _losses(verdict)[0] or 0.0


def _losses(verdict: Verdict) -> tuple[float | None, float | None, float | None]:
    """The change and its interval as a loss: + = worse."""
    told = verdict.estimate
    if METRICS[verdict.metric].better == "higher":
        change, low, high = (None if x is None else -x for x in (told.change, told.ci_high, told.ci_low))
        return change, low, high
    return told.change, told.ci_low, told.ci_high


def _step(ask: Ask, verdict: Verdict, word: Word, where: str) -> Step:
    loss, low, high = _losses(verdict)
    return Step(ask.reference, ask.candidate, word, loss, low, high, one_line(verdict.headline), where)


def _environment() -> dict[str, str]:
    """Without what a pytest that runs this one would hand down."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def _misused(log: Path) -> bool:
    """Did pytest not understand what it was given? That is no build's fault."""
    text = log.read_bytes()[-LAST_CHARS:].decode("utf-8", "replace") if log.exists() else ""
    return any(
        sign in text for sign in ("unrecognized arguments", "file or directory not found", "invalid choice")
    )


def _last_words(log: Path) -> str:
    """The last lines of a session that say something."""
    try:
        text = log.read_bytes()[-LAST_CHARS:].decode("utf-8", "replace")
    except OSError:
        return "it printed nothing"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return one_line((errors or lines or ["it printed nothing"])[-1])
