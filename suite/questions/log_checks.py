"""What only a server's log tells: decoding without CUDA graphs, drafts never accepted, NaNs, errors that were survived."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from suite.session.outcomes import BrokenPromise
from suite.session.running_arm import RunningArm

LINES = 2000
GRAPH_FLAGS = ("disable_cuda_graph", "disable_decode_cuda_graph")


@dataclass(frozen=True, slots=True)
class Symptom:
    """A pattern in the log and what it means. ``graphs``: only where decoding should run from CUDA graphs."""

    pattern: re.Pattern[str]
    meaning: str
    graphs: bool = False


# Read in SGLang 0.5.9 to 0.5.23: scheduler metrics reporter, cuda_graph_runner, sampler, scheduler.
SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(re.compile(r"Decode batch.*cuda graph: False"), "decoding runs without CUDA graphs", graphs=True),
    Symptom(re.compile(r"falling back to eager", re.IGNORECASE), "CUDA graphs are not replayed", graphs=True),
    Symptom(re.compile(r"Decode batch.*accept len: 1\.00\b"), "no draft is accepted"),
    Symptom(re.compile(r"Detected errors during sampling|NaN in the (?:logits|probs)"), "NaN in the logits"),
    Symptom(
        re.compile(r"Scheduler hit an exception|illegal memory access"),
        "an error in a kernel or the scheduler",
    ),
    Symptom(re.compile(r"NVRM: Xid"), "the driver reported a GPU error"),
)


def symptoms(lines: Iterable[str], graphs_expected: bool) -> list[str]:
    """What the lines show that should not be there, a sentence each, with how often and the first such line."""
    counted: Counter[str] = Counter()
    first: dict[str, str] = {}
    for line in lines:
        for symptom in SYMPTOMS:
            if (graphs_expected or not symptom.graphs) and symptom.pattern.search(line):
                counted[symptom.meaning] += 1
                first.setdefault(symptom.meaning, line.strip())
    return [f"{meaning}: {_times(count)}, the first: {first[meaning]}" for meaning, count in counted.items()]


def _times(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


class LogChecks:
    """The log of one server, after it has been asked something."""

    def __init__(self, served: RunningArm) -> None:
        self._served = served

    @property
    def lines(self) -> Sequence[str]:
        """Its last lines, secrets masked; empty for a server whose log is not ours to read."""
        return self._served.server.log_tail(LINES)

    def must_be_clean(self) -> None:
        """Assert that it shows none of the known symptoms.

        Raises:
            BrokenPromise: it does; the text shows each with its first line.
        """
        resolved = self._served.info.resolved
        graphs = resolved.get("device") == "cuda" and not any(resolved.get(flag) for flag in GRAPH_FLAGS)
        found = symptoms(self.lines, graphs)
        if found:
            raise BrokenPromise("the server's log shows trouble that its answers do not: " + "\n".join(found))
