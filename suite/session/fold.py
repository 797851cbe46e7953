"""From a run's journal to the session that the gate judges: the same in the run itself, afterwards, and of half a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from suite.gate import Asked, Event, Facts, Launch, Outcome, Plan, Reference, Series, Session, speedup
from suite.session.entries import (
    Answering,
    Begun,
    Closed,
    Complete,
    Entry,
    Failed,
    Item,
    Launching,
    Measured,
    Note,
    Ready,
    Resumed,
    RoundDone,
    WorkloadBegun,
)
from suite.session.plan import CANDIDATE, REFERENCE, LaunchId
from suite.session.recording import joined
from suite.session.stopping import StoppedEarly

ENOUGH = 0.5
"""Share of the planned rounds that a workload must have been played for to be judged, where it was cut short."""


@dataclass(slots=True)
class Work:
    """The rounds of one workload in one launch. ``measured`` is there once all of them were played."""

    launch: int
    samples: dict[int, Launch] = field(default_factory=dict)
    planned: int = 0
    identity: Facts | None = None
    subject: Facts = field(default_factory=dict)
    measured: Measured | None = None

    def sample(self) -> Launch:
        """All rounds as one launch, with what was found wrong with them together."""
        rounds = [sample for _, sample in sorted(self.samples.items())]
        found = self.measured
        return joined(rounds, found.invalid if found else (), found.clocks if found else None)

    @property
    def answered(self) -> bool:
        """Was any request answered, so that there is something to judge?"""
        return any(
            value is not None
            for sample in self.samples.values()
            for values in sample.rounds.values()
            for value in values
        )

    @property
    def enough(self) -> bool:
        """Were so many rounds played that they stand for the launch?"""
        return self.answered and len(self.samples) >= max(1, ENOUGH * self.planned)

    @property
    def whole(self) -> bool:
        """Were all rounds played, to the end?"""
        return self.answered and self.measured is not None and self.measured.rounds >= self.planned

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Which of two launches of one number stands for it: one that was finished, then the longer, then the newer."""
        return self.whole, 0 if self.whole else len(self.samples), self.launch


@dataclass(slots=True)
class JournalIndex:
    """A journal, entry by entry, sorted by what it is about."""

    begun: Begun | None = None
    works: dict[tuple[int, str], Work] = field(default_factory=dict)
    asked: dict[tuple[str, str], dict[int, list[tuple[int, str]]]] = field(default_factory=dict)
    """By question and arm, and by the launch's number within the arm: (launch, workload) of the answers."""
    questions: dict[tuple[str, str], Asked] = field(default_factory=dict)
    """By question and arm (each of two, for a ratio) what is judged of the answers."""
    ratios: dict[str, str] = field(default_factory=dict)
    """By question the metric that is divided, where a ratio is judged."""
    launches: dict[int, Launching] = field(default_factory=dict)
    ready: dict[int, Ready] = field(default_factory=dict)
    failed: dict[int, Failed] = field(default_factory=dict)
    complete: set[LaunchId] = field(default_factory=set)
    items: dict[str, Item] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    ended: str = ""
    """Why the run was ended before its end, where it says so."""
    reference: JournalIndex | None = None
    """Where two builds are compared, all of the other build; the rest is the candidate's, but for ``launches``."""
    beside: JournalIndex | None = field(default=None, repr=False, compare=False)
    """The other build's side, whose launches of the same numbers are compared with these."""

    def session(self, run_id: str = "", up_to: int | None = None) -> Session:
        """Everything measured, as the gate judges it.

        Args:
            run_id: for a journal whose plan is lost; its text then stands for the rest as well.
            up_to: leave out launches of higher numbers: the run as it was at an earlier look.
        """
        begun = self.begun
        measured = {
            key: made
            for key in self.asked
            if (made := self._series(key, self._numbers(key, up_to))) is not None
        }
        return Session(
            run_id=begun.run_id if begun else run_id,
            started_at=begun.started_at if begun else "",
            target=begun.target if begun else "",
            plan=begun.plan if begun else self._guessed_plan(),
            series=[*self._plain(measured), *self._ratios(measured, up_to)],
            asked=self._asked(up_to),
            outcomes=self._outcomes(up_to),
            events=list(self.events),
            reference=self._reference(up_to),
            environment=self._environment(),
        )

    def _environment(self) -> Facts:
        """The box that all was measured on; the names of several."""
        boxes = [ready.box for _, ready in sorted(self.ready.items()) if ready.box]
        names = dict.fromkeys(str(box.get("host", "")) for box in boxes)
        if len(names) > 1:
            return {"hosts": ", ".join(names)}
        return boxes[-1] if boxes else {}

    def measured(self, item: Item) -> Launch | None:
        """What an item measured in its launch; ``None`` where it measured nothing, or too little."""
        side = self.reference if item.build == REFERENCE and self.reference is not None else self
        key, number = (item.outcome.item, item.outcome.arm), item.number
        if number not in side.asked.get(key, {}) or (work := side._answer(key, number)) is None:
            return None
        return work.sample()

    def item(self, item: str) -> Item | None:
        """How an item ended, of whichever build it was asked."""
        return self.items.get(item) or (
            self.reference.items.get(item) if self.reference is not None else None
        )

    def _reference(self, up_to: int | None) -> Reference | None:
        """The build that is compared with, as far as it was measured."""
        if self.reference is None or self.begun is None:
            return None
        side = self.reference.session(up_to=up_to)
        builds = self.begun.builds
        return Reference(builds[REFERENCE], builds[CANDIDATE], side.series, side.outcomes)

    def _outcomes(self, up_to: int | None) -> list[Outcome]:
        """How items ended, in the order of the plan: taken up again, a run tells them as if it had never stopped."""
        place = {item: number for number, item in enumerate(self.begun.items if self.begun else [])}
        there = [item for item in self.items.values() if up_to is None or item.number <= up_to]
        there.sort(key=lambda item: (place.get(item.item, len(place)), item.item))
        return [item.outcome for item in there]

    def _plain(self, measured: Mapping[tuple[str, str], Series]) -> list[Series]:
        return [series for key, series in measured.items() if key[0] not in self.ratios]

    def _ratios(self, measured: Mapping[tuple[str, str], Series], up_to: int | None) -> list[Series]:
        """The ratio of two arms in place of its parts, over the launches that both have."""
        made: dict[tuple[str, str], Series] = {}
        for question, arm in measured:
            asks = self._asks((question, arm))
            if question not in self.ratios or len(asks.parts) != 2:
                continue
            sides = [(question, part) for part in asks.parts]
            both = self._numbers(sides[0], up_to) & self._numbers(sides[1], up_to)
            above, below = (self._series(side, both) for side in sides)
            if above is not None and below is not None:
                made[sides[0]] = speedup(
                    question, above, below, metric=self.ratios[question], name=asks.metrics[0]
                )
        return list(made.values())

    def _asks(self, key: tuple[str, str]) -> Asked:
        return self.questions.get(key) or Asked(*key, metrics=[])

    def _numbers(self, key: tuple[str, str], up_to: int | None) -> set[int]:
        """The launches of an arm, by number, in which a question was answered; of two builds, by both if by both at all."""
        own = self._own_numbers(key, up_to)
        others = self.beside._own_numbers(key, up_to) if self.beside is not None else set()
        return own & others or own

    def _own_numbers(self, key: tuple[str, str], up_to: int | None) -> set[int]:
        return {
            number
            for number in self.asked.get(key, {})
            if (up_to is None or number <= up_to) and self._answer(key, number) is not None
        }

    def _series(self, key: tuple[str, str], numbers: set[int]) -> Series | None:
        best = [work for number in sorted(numbers) if (work := self._answer(key, number)) is not None]
        known = next((work for work in best if work.identity is not None), None)
        if known is None or known.identity is None:
            return None
        return Series(
            question=key[0],
            arm=key[1],
            identity=known.identity,
            subject=known.subject,
            launches=[work.sample() for work in best],
            judged=list(self._asks(key).metrics),
        )

    def _answer(self, key: tuple[str, str], number: int) -> Work | None:
        """The work that stands for a question in one launch of its arm."""
        there = [self.works[place] for place in self.asked[key][number] if place in self.works]
        best = max(there, key=lambda work: work.rank, default=None)
        return best if best is not None and best.enough else None

    def _asked(self, up_to: int | None) -> list[Asked]:
        """All that was to be judged; for what was not measured, how far it came."""
        planned = self.begun.asked if self.begun else []
        return [
            msgspec.structs.replace(one, unmeasured=self._how_far(one)) if self._open(one, up_to) else one
            for one in planned
        ]

    def _open(self, asked: Asked, up_to: int | None) -> bool:
        """Is a question without an answer, and without an item that says why?

        One that was broken off in the middle says that it was, and not how far it came.
        """
        arms = asked.parts or [asked.arm]
        if all(self._numbers((asked.question, arm), up_to) for arm in arms):
            return False
        outcomes = [item.outcome for item in self.items.values()]
        told = [o for o in outcomes if o.item == asked.question and o.arm in arms and o.word != "kept"]
        return not told or (
            all(o.name == StoppedEarly.__name__ for o in told) and any(map(self._begun_on, told))
        )

    def _begun_on(self, outcome: Outcome) -> bool:
        """Was a round of it played in the launch that was broken off?"""
        places = self.asked.get((outcome.item, outcome.arm), {}).get(outcome.launch, ())
        return any(self.works[place].samples for place in places if place in self.works)

    def _how_far(self, asked: Asked) -> str:
        reached = [self._rounds((asked.question, arm)) for arm in asked.parts or [asked.arm]]
        return "; ".join([*filter(None, reached), *filter(None, [self.ended])])

    def _rounds(self, key: tuple[str, str]) -> str:
        works = [
            self.works[place]
            for places in self.asked.get(key, {}).values()
            for place in places
            if place in self.works
        ]
        if not works:
            return f"{key[1]} was not asked"
        best = max(works, key=lambda work: work.rank)
        if best.enough:
            return ""
        if best.samples and not best.answered:
            return f"{key[1]}: no request was answered"
        if not best.samples:
            return f"{key[1]}: no round was played"
        return f"{key[1]}: {len(best.samples)} of {best.planned or '?'} rounds were played"

    def _guessed_plan(self) -> Plan:
        numbers = [number for of in self.asked.values() for number in of] or [1]
        rounds = [work.planned for work in self.works.values()] or [1]
        return Plan("unknown", max(numbers), max(rounds), [max(numbers)])


def told(entries: Iterable[Entry]) -> JournalIndex:
    """Sort the entries of a journal. Any of them may be lost: the others still tell what they tell."""
    found = JournalIndex()
    for entry in entries:
        take(found, entry)
    return found


def take(found: JournalIndex, entry: Entry) -> None:
    """Take in one more entry."""
    if found.reference is not None:
        if isinstance(entry, Launching | Complete) or _of_launch(found, entry) == REFERENCE:
            _take(found.reference, entry)
        if _of_launch(found, entry) == REFERENCE and not isinstance(entry, Ready | Failed):
            return
    _take(found, entry)


def _of_launch(found: JournalIndex, entry: Entry) -> str:
    """Which build an entry is about; empty where it is about none in particular."""
    if isinstance(entry, Item):
        return entry.build
    launch = found.launches.get(getattr(entry, "launch", -1))
    return launch.build if launch is not None and not isinstance(entry, Launching) else ""


def _take(found: JournalIndex, entry: Entry) -> None:
    match entry:
        case Begun():
            found.begun = entry
            if entry.builds and found.beside is None:
                found.reference = JournalIndex(beside=found)
                found.beside = found.reference
                _take(found.reference, entry)
            found.ratios |= entry.ratios
            for asked in entry.asked:
                for arm in asked.parts or [asked.arm]:
                    found.questions[asked.question, arm] = asked
        case Resumed():
            found.ended = ""
        case Closed():
            found.ended = entry.why
        case Launching():
            found.launches[entry.launch] = entry
        case Ready():
            found.ready[entry.launch] = entry
        case Failed():
            found.failed[entry.launch] = entry
        case Complete():
            found.complete.add(LaunchId(entry.arm, entry.number, entry.build))
        case Answering():
            _asks(found, entry)
        case RoundDone():
            _round(found, entry)
        case WorkloadBegun() | Measured():
            work = found.works.setdefault((entry.launch, entry.workload), Work(entry.launch))
            work.identity, work.subject = entry.identity, entry.subject
            if isinstance(entry, Measured):
                work.measured = entry
        case Item():
            found.items[entry.item] = entry
        case Note():
            if entry.kind:
                found.events.append(Event(entry.kind, entry.text))
        case _:
            pass


def _asks(found: JournalIndex, entry: Answering) -> None:
    key = (entry.question, entry.arm)
    arm = entry.parts[0] if entry.parts else entry.arm
    found.questions.setdefault(key, Asked(entry.question, arm, entry.metrics, parts=entry.parts))
    if entry.ratio:
        found.ratios.setdefault(entry.question, entry.ratio)
    _answered_by(found, key, entry.number, (entry.launch, entry.workload))


def _round(found: JournalIndex, entry: RoundDone) -> None:
    work = found.works.setdefault((entry.launch, entry.workload), Work(entry.launch))
    work.samples[entry.round] = entry.sample
    work.planned = entry.of
    if entry.question:
        key = (entry.question, entry.arm)
        _answered_by(found, key, entry.number, (entry.launch, entry.workload))


def _answered_by(found: JournalIndex, key: tuple[str, str], number: int, place: tuple[int, str]) -> None:
    places = found.asked.setdefault(key, {}).setdefault(number, [])
    if place not in places:
        places.append(place)
