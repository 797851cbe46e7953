"""What a run measured: sessions of series of metrics, by launch and round, with identity and subject.

A *question* (a scenario with its parameters) put to an *arm* gives a *series*. A series holds launches, a
launch holds for each metric one value per round. All values are in SI units (seconds, tokens, tokens/s).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from suite.gate.errors import BadMeasurement

Scalar: TypeAlias = str | int | float | bool | None
Facts: TypeAlias = dict[str, Scalar]

DIGITS = 6
"""Significant digits kept of a measured value: a clock resolves far less of a round than one part in 10^6."""


class Key(NamedTuple):
    """What one verdict is about."""

    question: str
    arm: str
    metric: str

    @property
    def said(self) -> str:
        """As causes name a figure."""
        return f"{self.question}, {self.arm}: {self.metric}"


class Counts(msgspec.Struct, frozen=True, omit_defaults=True):
    """Counts behind a ratio metric in one round, one entry per request (so that requests can be clusters).

    For acceptance length: `numerator` = correct drafts, `denominator` = verify steps.
    """

    numerator: list[int]
    denominator: list[int]


class Answers(msgspec.Struct, frozen=True, omit_defaults=True):
    """What each prompt of a launch was answered with; all lists are of one length, or empty where it is not known.

    prompts: what was asked, unique in the launch and the same in every run and build, so that two builds can be
    compared prompt by prompt; asked again in a later round it is `name@2`. steps, drafts: verify steps and correct
    drafts of the answer (0 steps say nothing of acceptance); tokens: its length; texts: a hash of its text.
    """

    prompts: list[str]
    steps: list[int] = []
    drafts: list[int] = []
    tokens: list[int] = []
    texts: list[str] = []


class Tail(msgspec.Struct, frozen=True):
    """Of the `n` values of a latency in one round, the largest, in falling order: enough for a high quantile."""

    n: int
    top: list[float]


class Invalid(msgspec.Struct, frozen=True, omit_defaults=True):
    """A named reason not to trust a launch (`round` None) or one of its rounds (counted from 0)."""

    name: str
    evidence: str
    round: int | None = None


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """One life of one server: for each metric the value of every round, in the order they were played.

    A value that could not be had is None; `missing` says why, by metric. answers: what each prompt
    was answered with, over all good requests. beside: of a ratio of two arms, what else the numerator's rounds were
    measured as, needed to tell its steps from its acceptance; no metrics of this series. clocks: of the slowest busy
    GPU, as `invalid.clocks` tells; to be compared, never to be judged. tails: by metric, of every round.
    """

    rounds: dict[str, list[float | None]]
    counts: dict[str, list[Counts]] = {}
    missing: dict[str, str] = {}
    invalid: list[Invalid] = []
    answers: Answers | None = None
    beside: dict[str, list[float | None]] = {}
    clocks: dict[str, float] = {}
    tails: dict[str, list[Tail]] = {}


class Series(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answers of one arm to one question. `launches` are in the order in which they were started.

    identity: what must be equal for two series to be comparable; subject: what an upgrade may change.
    derived_from: for a ratio of two arms, the two arms (numerator first); empty for a measured series.
    judged: the metrics that this question is about; of the others none is gated here. Empty: all that the rules gate.
    """

    question: str
    arm: str
    identity: Facts
    subject: Facts
    launches: list[Launch]
    derived_from: list[str] = []
    judged: list[str] = []

    @property
    def metrics(self) -> list[str]:
        """Names of all metrics that any launch speaks of, in a stable order."""
        names = {
            name for launch in self.launches for name in (*launch.rounds, *launch.counts, *launch.missing)
        }
        return sorted(names)


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a metric must be at least, whatever the baseline says; `otherwise` is what it means if it is not."""

    metric: str
    floor: float
    otherwise: str


class Asked(msgspec.Struct, frozen=True, omit_defaults=True):
    """One series that this run was asked to judge.

    parts: the arms whose measurement it is made of, where it is a ratio. unmeasured: why it was not measured, where
    that is known.
    """

    question: str
    arm: str
    metrics: list[str]
    claims: list[Claim] = []
    parts: list[str] = []
    unmeasured: str = ""


OutcomeWord: TypeAlias = Literal["kept", "broken", "unproven", "infrastructure", "skipped"]
"""kept: what was promised holds, or was measured. broken: the server does not do what it must. unproven: nothing was
shown either way. infrastructure: host, driver, key or disk. skipped: not to be asked here."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one item of a run ended.

    item: the scenario with its sizes, as `Series.question`; kind: the marker it goes by (`activation`), or `launch`
    where the server did not start or died; name: of the exception that ended it; text: what it said; short: the same
    for a sentence about the whole run.
    """

    item: str
    kind: str
    arm: str
    launch: int
    word: OutcomeWord
    text: str = ""
    name: str = ""
    short: str = ""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened beside the measurements and bears on how far they may be trusted.

    kind: `leftover` (of a dead run, ended), `supervisor` (lost, or not all it should have done), `log` (not copied),
    `death` (of a server, which was launched again), `faults` (requests that failed or stood still in no used round),
    `disk`, `stopped`; text: what happened, for people.
    """

    kind: str
    text: str


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """How much was to be measured. `look_launches`: launches per arm after which the run is judged, ascending.

    The error rate is spent over these looks, so they belong to the record: judging again must spend it alike.
    require_baseline: a figure without a baseline is an error; recording: the run was made to be recorded, so what it
    leaves undecided is no fault of it; accepted: why its regressions are taken as the new level, empty if they are not.
    duet: two builds were up at once and got the same requests in turn: their rounds are pairs.
    """

    budget: str = "gate"
    launches: int = 3
    rounds: int = 5
    look_launches: list[int] = msgspec.field(default_factory=lambda: [3])
    require_baseline: bool = False
    recording: bool = False
    accepted: str = ""
    duet: bool = False


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The build that a candidate is compared with, measured in the same run, launch by launch in turn.

    name, candidate: as they were asked for; series: its answers to the same questions; outcomes: how its items ended.
    """

    name: str
    candidate: str
    series: list[Series] = []
    outcomes: list[Outcome] = []

    def find(self, question: str, arm: str) -> Series | None:
        """Its series of this question and arm, or None."""
        return next((s for s in self.series if s.question == question and s.arm == arm), None)


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run: everything needed to judge it, and to judge it again years later.

    run_id: unique; started_at: ISO 8601 date and time; environment: facts about the run that are neither
    identity nor subject (host name, command line of the suite) and are never compared.
    asked: all that the run was to judge, measured or not; outcomes: how its items ended; events: what else happened.
    reference: where two builds are compared, the other one; all else is of the candidate.
    """

    run_id: str
    started_at: str
    target: str
    plan: Plan
    series: list[Series]
    environment: Facts = {}
    asked: list[Asked] = []
    outcomes: list[Outcome] = []
    events: list[Event] = []
    reference: Reference | None = None

    @property
    def against(self) -> str:
        """What its figures are compared with, in a word."""
        return "baseline" if self.reference is None else "reference"

    def find(self, question: str, arm: str) -> Series | None:
        """The series of this question and arm, or None."""
        return next((s for s in self.series if s.question == question and s.arm == arm), None)

    def rounded(self) -> Session:
        """The same session with every value as it is stored, so that judging before and after storing agree."""
        reference = self.reference
        if reference is not None:
            reference = msgspec.structs.replace(reference, series=_all_rounded(reference.series))
        return msgspec.structs.replace(self, series=_all_rounded(self.series), reference=reference)


def round_value(value: float | None) -> float | None:
    """To `DIGITS` significant digits; NaN and infinities become None (JSON has no word for them)."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{DIGITS}g}")


def _all_rounded(series: Sequence[Series]) -> list[Series]:
    return sorted((_rounded(s) for s in series), key=lambda s: (s.question, s.arm))


def _rounded(series: Series) -> Series:
    launches = [
        msgspec.structs.replace(
            launch,
            rounds=_rounded_values(launch.rounds),
            beside=_rounded_values(launch.beside),
            tails={
                name: [_rounded_tail(tail) for tail in launch.tails[name]] for name in sorted(launch.tails)
            },
        )
        for launch in series.launches
    ]
    return msgspec.structs.replace(
        series, launches=launches, identity=plain_facts(series.identity), subject=plain_facts(series.subject)
    )


def _rounded_tail(tail: Tail) -> Tail:
    return Tail(tail.n, [v for value in tail.top if (v := round_value(value)) is not None])


def _rounded_values(rounds: Mapping[str, list[float | None]]) -> dict[str, list[float | None]]:
    return {name: [round_value(v) for v in rounds[name]] for name in sorted(rounds)}


def plain_facts(facts: Mapping[str, object]) -> Facts:
    """Facts in order of their keys; a list or table becomes its JSON text, so that every value is one scalar."""
    return {
        key: value if value is None or isinstance(value, str | int | bool) else _as_text(value)
        for key, value in sorted(facts.items())
    }


def _as_text(value: object) -> float | str:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return json.dumps(value, sort_keys=True, default=str)


def check_session(session: Session) -> None:
    """Raise BadMeasurement if a session contradicts itself (two series of one name, counts that cannot be)."""
    seen: set[tuple[str, str]] = set()
    for series in session.series:
        where = f"run {session.run_id}, {series.question}, arm {series.arm}"
        if (series.question, series.arm) in seen:
            raise BadMeasurement(
                f"{where}: this series is there twice; a question and arm may be recorded once"
            )
        seen.add((series.question, series.arm))
        for number, launch in enumerate(series.launches, 1):
            for name, rounds in launch.counts.items():
                _check_counts(f"{where}, launch {number}, {name}", rounds)
            if launch.answers is not None:
                _check_answers(f"{where}, launch {number}, answers", launch.answers)


def _check_counts(where: str, rounds: Sequence[Counts]) -> None:
    for counts in rounds:
        if len(counts.numerator) != len(counts.denominator):
            raise BadMeasurement(
                f"{where}: {len(counts.numerator)} numerators, {len(counts.denominator)} denominators"
            )
        if any(n < 0 for n in (*counts.numerator, *counts.denominator)):
            raise BadMeasurement(f"{where}: a count is negative")


def _check_answers(where: str, answers: Answers) -> None:
    asked = len(answers.prompts)
    for name in ("steps", "drafts", "tokens", "texts"):
        column = getattr(answers, name)
        if column and len(column) != asked:
            raise BadMeasurement(f"{where}: {asked} prompts, {len(column)} {name}")
    if len(answers.steps) != len(answers.drafts):
        raise BadMeasurement(f"{where}: verify steps without correct drafts, or the other way round")
    if len(set(answers.prompts)) < asked:
        twice = next(p for p in answers.prompts if answers.prompts.count(p) > 1)
        raise BadMeasurement(f"{where}: prompt {twice!r} is there twice; a later round's is told by @2")
    if any(n < 0 for n in (*answers.steps, *answers.drafts, *answers.tokens)):
        raise BadMeasurement(f"{where}: a count is negative")


def differing(old: Mapping[str, Scalar], new: Mapping[str, Scalar]) -> dict[str, tuple[Scalar, Scalar]]:
    """Keys whose values differ, with both values; a key that is absent counts as None."""
    return {k: (old.get(k), new.get(k)) for k in sorted({*old, *new}) if old.get(k) != new.get(k)}
