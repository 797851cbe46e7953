"""What a run's journal holds, line by line: the plan, each launch, each round, and how each item ended."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from suite.gate import Asked, Facts, Invalid, Launch, Outcome, Plan

FORMAT, VERSION = "sglang-perf-journal", 1


class _Entry(msgspec.Struct, frozen=True, omit_defaults=True, tag_field="what", tag=str.lower):
    """A line of the journal; ``what`` names its kind. Times ``at`` are Unix seconds."""


class Planned(msgspec.Struct, frozen=True, omit_defaults=True):
    """An item of a plan: its id in pytest, what it asks, the marker it goes by, and the launch it is put to.

    build: which of two that are compared; empty where there is one.
    """

    item: str
    question: str
    kind: str
    arm: str
    number: int
    build: str = ""


class Shard(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which part of a plan a run measures, and the whole plan, by which the parts know each other and what is missing.

    number: counted from 1 of ``len(arms)``; arms: those of every shard; items: of the whole plan, in its order; asked,
    ratios: likewise, as in :class:`Begun`; judges: ids in pytest of the items that judge, in the order of ``asked``;
    whole: whether the plan puts every question of its budget; build, lock, place: what is installed where this part is
    measured, as far as it is seen before anything is launched, its pins, and where it is run from.
    """

    number: int
    arms: list[list[str]]
    items: list[Planned] = []
    asked: list[Asked] = []
    ratios: dict[str, str] = {}
    judges: list[str] = []
    whole: bool = False
    build: Facts = {}
    lock: list[str] = []
    place: dict[str, str] = {}

    @property
    def of(self) -> int:
        """How many shards there are."""
        return len(self.arms)

    def __str__(self) -> str:
        return f"shard {self.number}/{self.of}"

    def of_arm(self, arm: str) -> int:
        """The number of the shard that an arm is in."""
        return next(number for number, arms in enumerate(self.arms, 1) if arm in arms)


class Begun(_Entry, frozen=True, omit_defaults=True):
    """The plan, before anything is launched.

    options: the command line's, by which the run can be taken up again; arms: what each is (flags and
    variables, secrets hidden); items: ids in the order in which they were to be run; left_out: items that
    ``--minutes`` left no time for; host: the machine that measures. asked: the series to be judged; ratios: of those
    that are ratios of two arms, by question the metric that is divided. shard: where this is a part of a plan that
    several hosts measure; the arms are then those of the whole plan.
    builds: where two are compared, how ``reference`` and ``candidate`` were asked for.
    """

    format: str
    version: int
    run_id: str
    started_at: str
    target: str
    plan: Plan
    host: str = ""
    options: dict[str, Any] = {}
    arms: dict[str, str] = {}
    items: list[str] = []
    left_out: list[str] = []
    asked: list[Asked] = []
    ratios: dict[str, str] = {}
    shard: Shard | None = None
    builds: dict[str, str] = {}


class Resumed(_Entry, frozen=True, omit_defaults=True):
    """The run was taken up again; what was not finished before is launched anew."""

    at: float
    host: str = ""


class Launching(_Entry, frozen=True, omit_defaults=True):
    """A launch begins. ``launch`` counts all launches of a run, ``number`` those that count within the arm.

    build: ``reference`` or ``candidate`` of two that are compared; empty where there is one. number 0: to warm what a
    build's first start warms, not to measure. host: where the server runs.
    """

    launch: int
    arm: str
    number: int
    at: float
    host: str = ""
    build: str = ""


class Ready(_Entry, frozen=True, omit_defaults=True):
    """It is up: after ``ready_s`` seconds, and these were its phases. build: what is installed there; box: on what."""

    launch: int
    ready_s: float
    phases: dict[str, float] = {}
    build: Facts = {}
    box: Facts = {}


class Failed(_Entry, frozen=True, omit_defaults=True):
    """It did not come up, and why."""

    launch: int
    reason: str
    seconds: float = 0.0


class ServerEnded(_Entry, frozen=True, omit_defaults=True, tag="ended"):
    """The server is down again, which took ``seconds``."""

    launch: int
    seconds: float


class Complete(_Entry, frozen=True, omit_defaults=True):
    """All that was to be asked in this launch of the arm has been: it is not launched again."""

    arm: str
    number: int
    build: str = ""


class WorkloadBegun(_Entry, frozen=True, omit_defaults=True, tag="workload"):
    """A workload is about to be played, with what makes its rounds comparable."""

    launch: int
    workload: str
    identity: Facts
    subject: Facts


class Answering(_Entry, frozen=True, omit_defaults=True):
    """The rounds of a workload answer a question, whether they were played for it or are there already.

    metrics: what is judged of it. ratio: of what metric, for the ratio of two arms; parts: those, numerator first.
    """

    launch: int
    arm: str
    number: int
    workload: str
    question: str
    metrics: list[str] = []
    ratio: str = ""
    parts: list[str] = []


class RoundDone(_Entry, frozen=True, omit_defaults=True, tag="round"):
    """A round, whole: its samples as a launch of one round, and all that makes them fit to be judged or not.

    Names what it belongs to by itself, so that a damaged line spoils no other. ``round`` counts from 0 of ``of``.
    """

    launch: int
    arm: str
    number: int
    workload: str
    round: int
    of: int
    seconds: float
    sample: Launch
    question: str = ""


class Measured(_Entry, frozen=True, omit_defaults=True):
    """All rounds of a workload were played: what is known only then, beside identity and subject once more."""

    launch: int
    workload: str
    rounds: int
    identity: Facts
    subject: Facts
    invalid: list[Invalid] = []
    clocks: dict[str, float] = {}
    warmup_s: float = 0.0


class Item(_Entry, frozen=True, omit_defaults=True):
    """How a scenario item ended, and what it leaves for others.

    item: its id in pytest; number: the launch within the arm. rows, notes: (title, row or sentence) of tables.
    kept: what later items compare with, by name. build: as in ``Launching``.
    """

    item: str
    number: int
    outcome: Outcome
    at: float
    seconds: float = 0.0
    rows: list[tuple[str, dict[str, Any]]] = []
    notes: list[tuple[str, str]] = []
    kept: dict[str, Any] = {}
    build: str = ""


OTHERS_FAILED = "an item failed that is no scenario"
"""Noted at the end of a run in which that was so: it is no question of the gate, and the run does not end well for it."""


class Note(_Entry, frozen=True, omit_defaults=True):
    """A sentence about the run as a whole. kind: of an event that bears on how far the run may be trusted."""

    text: str
    kind: str = ""


class Closed(_Entry, frozen=True, omit_defaults=True):
    """The end of a try. why: empty if all was done, otherwise what ended it early."""

    at: float
    why: str = ""


Entry: TypeAlias = (
    Begun
    | Resumed
    | Launching
    | Ready
    | Failed
    | ServerEnded
    | Complete
    | WorkloadBegun
    | Answering
    | RoundDone
    | Measured
    | Item
    | Note
    | Closed
)
