"""What the gate says: verdicts with the numbers, the reason and the way forward, as data and as one line."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from suite.gate.records import Key
from suite.terminal.figures import interval, percent

Word: TypeAlias = Literal[
    "pass", "regression", "improvement", "inconclusive", "invalid", "unjudged", "broken promise"
]


class Factor(msgspec.Struct, frozen=True):
    """What one part of a product did to the whole: relative change with its 95 % interval, + = a higher value."""

    name: Literal["steps", "acceptance"]
    change: float | None
    ci_low: float | None
    ci_high: float | None


class Estimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """A metric against its baseline. Values in the metric's unit; changes are relative, + = a higher value.

    change with its 95 % interval is what verdict and headline rest on: against the baseline as it stands, or,
    where `relative`, after removing what the other arms of the same session moved by (`raw_change` is before).
    sdc: minimum detectable effect of this metric at 90 % power, in a run like this.
    factors: of a speed with speculation on, what steps and what acceptance did to it: `change` is their product, over
    all prompts that acceptance was measured on; value and `raw_change` are of the few that were timed; `sdc` is of
    the steps.
    """

    label: str
    unit: str
    value: float | None
    baseline_value: float | None = None
    change: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    relative: bool = False
    raw_change: float | None = None
    sdc: float | None = None
    factors: list[Factor] = []


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """The judgement of one gated metric. `needs` says what would settle it, or what to do about it.

    stated: a pass that holds if sessions differ by no more than is stated of them: too few are recorded to learn it.
    """

    question: str
    arm: str
    metric: str
    word: Word
    headline: str
    reason: str
    estimate: Estimate
    margin: float
    needs: str = ""
    look: int = 1
    stated: bool = False

    @property
    def key(self) -> Key:
        """Question, arm and metric."""
        return Key(self.question, self.arm, self.metric)

    @property
    def change(self) -> float | None:
        """Relative change of the value, + = higher."""
        return self.estimate.change

    @property
    def value(self) -> float | None:
        """The run's value in the metric's unit."""
        return self.estimate.value

    @property
    def baseline_value(self) -> float | None:
        """The baseline's value in the metric's unit."""
        return self.estimate.baseline_value


class Cause(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong once, and everything that follows from it.

    kind: `promise`, `launch`, `machine`, `acceptance`, `steps`, `prefill`, `figure` (no factor explains it),
    `infrastructure`, `invalid` or `undecided`; text: for the sentence of the run; figures: verdicts that follow, as
    `question, arm: metric`; others: items without a figure that follow, as `item, arm`.
    """

    kind: str
    text: str
    arms: list[str] = []
    figures: list[str] = []
    others: list[str] = []


class Judgement(msgspec.Struct, frozen=True):
    """Everything the gate says of one run.

    verdicts: of gated metrics; informational: estimates of the others; changes: what differs in the subject, by
    `question, arm`; undecided: (question, arm) of series that the next look could settle, empty if none is left;
    extend: what to launch again for it: the undecided questions put to every arm, since an arm is judged beside the
    others of its session;
    next_launches: launches per arm that the next look is taken at; notes: for the run as a whole;
    causes: what is behind all that is not well, the gravest first; sentence: the run in one sentence; status: the exit
    status it calls for; against: what figures were compared with, `baseline` or `reference`.
    """

    verdicts: dict[Key, Verdict]
    informational: dict[Key, Estimate]
    changes: dict[tuple[str, str], str]
    undecided: list[tuple[str, str]]
    extend: list[tuple[str, str]]
    next_launches: int | None
    notes: list[str]
    causes: list[Cause] = []
    sentence: str = ""
    status: int = 0
    against: str = "baseline"

    def of(self, question: str, arm: str) -> list[Verdict]:
        """The verdicts of one series, worst first."""
        found = [v for v in self.verdicts.values() if (v.question, v.arm) == (question, arm)]
        return sorted(found, key=lambda v: (SEVERITY.index(v.word), v.metric))

    @property
    def worst(self) -> Word:
        """The gravest word of all; `unjudged` for a run without gated metrics."""
        return min((v.word for v in self.verdicts.values()), key=SEVERITY.index, default="unjudged")


SEVERITY: tuple[Word, ...] = (
    "broken promise",
    "regression",
    "invalid",
    "inconclusive",
    "unjudged",
    "improvement",
    "pass",
)
"""What a person must look at first."""


def change_line(estimate: Estimate, margin: float, against: str) -> str:
    """`output tokens/s -4.8 % (95 % CI -5.4..-4.2, margin 2 %) against baseline of 2026-11-29, sglang 0.5.23`."""
    if estimate.change is None or estimate.ci_low is None or estimate.ci_high is None:
        raise ValueError(f"{estimate.label} was not compared with anything")
    relative = " relative to the other arms" if estimate.relative else ""
    within = f"95 % CI {interval(estimate.ci_low, estimate.ci_high)}, margin {100 * margin:g} %"
    return f"{estimate.label} {percent(estimate.change)}{relative} ({within}) against {against}"
