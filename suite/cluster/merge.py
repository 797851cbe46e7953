"""Shards of one run joined into one journal, in any order: doubles and strangers are refused, what is missing is named."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from suite.gate import Facts, GateError, Outcome
from suite.gate.records import Scalar, differing
from suite.session import journal, stored_runs
from suite.session.comparing import SETTLED
from suite.session.entries import (
    OTHERS_FAILED,
    Begun,
    Closed,
    Complete,
    Entry,
    Item,
    Launching,
    Note,
    Planned,
    Ready,
    Resumed,
    Shard,
)
from suite.session.stopping import StoppedEarly

OF_THE_HOST = ("power_limit_w",)
"""Facts of a build that a host may have for itself."""


@dataclass(frozen=True, slots=True)
class ShardRun:
    """A shard as it was left: its folder and its journal."""

    folder: Path
    begun: Begun
    shard: Shard
    entries: list[Entry]
    damage: list[str]

    @property
    def ended_by(self) -> str | None:
        """Why it was ended before its end; empty if it was not, ``None`` if it died or goes on."""
        last = next((entry for entry in reversed(self.entries) if isinstance(entry, Closed | Resumed)), None)
        return last.why if isinstance(last, Closed) else None

    @property
    def finished(self) -> bool:
        """Did it come to its end?"""
        return self.ended_by == ""

    @property
    def others_failed(self) -> bool:
        """Did an item fail there that is no scenario?"""
        return any(isinstance(entry, Note) and entry.text == OTHERS_FAILED for entry in self.entries)

    @property
    def settled(self) -> bool:
        """Did it leave out all launches after its first pair of two builds, because that said no-go?"""
        return any(isinstance(entry, Note) and entry.text == SETTLED for entry in self.entries)


@dataclass(frozen=True, slots=True)
class Whole:
    """What shards make together. missing: numbers of those that are not there; early: of those that were ended early;
    damaged: of those of which lines are lost."""

    run_id: str
    entries: list[Entry]
    missing: list[int]
    early: list[int]
    damaged: list[int]

    @property
    def complete(self) -> bool:
        """Is every shard there, finished, and whole?"""
        return not self.missing and not self.early and not self.damaged


def read(run: str | Path, results: Path = Path("results")) -> ShardRun:
    """The shard that a run measured.

    Raises:
        GateError: there is no such run, it is no shard, or the line of its plan is lost.
    """
    folder = stored_runs.find(run, results)
    path = folder / journal.NAME
    if not path.exists():
        raise GateError(
            f"{folder} has no {journal.NAME}: no shard; a whole run is judged by python -m suite judge"
        )
    found = journal.read(path)
    begun = found.begun
    if begun is None:
        lost = (
            f"the line of its plan is lost ({'; '.join(found.damage)})"
            if found.damage
            else "its journal is empty"
        )
        raise GateError(
            f"{folder}: {lost}; measure it again, or leave it out: what it was to answer is then named"
        )
    if begun.shard is None:
        raise GateError(f"{folder} is a whole run and no shard; judge it: python -m suite judge {folder}")
    return ShardRun(folder, begun, begun.shard, found.entries, found.damage)


def joined(runs: Iterable[ShardRun]) -> Whole:
    """The journal of the whole, the same in whatever order its shards are given.

    Raises:
        GateError: a shard is there twice, or two are not of one run.
    """
    shards = sorted(runs, key=lambda run: (run.shard.number, str(run.folder)))
    if not shards:
        raise GateError("no shard was given to be merged")
    _refuse_doubles(shards)
    for other in shards[1:]:
        _refuse_strangers(shards[0], other)
    there = {run.shard.number for run in shards}
    missing = [number for number in range(1, shards[0].shard.of + 1) if number not in there]
    early = [run.shard.number for run in shards if not run.finished]
    begun = _begun(shards)
    entries: list[Entry] = [begun, *_renumbered(shards)]
    entries += _untold(shards[0], {run.shard.number: run for run in shards}, entries)
    ends = [entry.at for run in shards for entry in run.entries if isinstance(entry, Closed)]
    entries.append(Closed(max(ends, default=0.0)))
    damaged = [run.shard.number for run in shards if run.damage]
    return Whole(begun.run_id, entries, missing, early, damaged)


def _refuse_doubles(shards: Sequence[ShardRun]) -> None:
    first: dict[int, ShardRun] = {}
    for run in shards:
        other = first.setdefault(run.shard.number, run)
        if other is not run:
            raise GateError(
                f"{run.shard} is there twice: {other.folder} and {run.folder}; leave one of them out"
            )


def _refuse_strangers(one: ShardRun, other: ShardRun) -> None:
    """Raise GateError for a shard of another target, plan or build."""
    found = [
        f"{what} {_shown(a)}, not {_shown(b)}"
        for what, a, b in (
            ("target", other.begun.target, one.begun.target),
            ("plan", other.begun.plan, one.begun.plan),
            ("number of shards", other.shard.of, one.shard.of),
            ("options", _options(other.begun), _options(one.begun)),
            ("arms", other.shard.arms, one.shard.arms),
            ("builds", other.begun.builds, one.begun.builds),
        )
        if a != b
    ]
    if not found:
        found += [
            f"{arm}: {other.begun.arms.get(arm)!r}, not {line!r}"
            for arm, line in one.begun.arms.items()
            if other.begun.arms.get(arm) != line
        ]
        if (one.shard.items, one.shard.asked) != (other.shard.items, other.shard.asked):
            found.append("other scenarios were planned")
        mine, its = _builds(one), _builds(other)
        for whose in mine.keys() & its.keys():
            changed = _changed(mine[whose], its[whose])
            found += [f"build: {name} {new!r}, not {old!r}" for name, (old, new) in changed.items()]
    if found:
        raise GateError(
            f"{other.folder} ({other.shard}) is not of the same run as {one.folder} ({one.shard}): "
            f"{'; '.join(dict.fromkeys(found))}; shards of one run have one target, plan and build"
        )


def _changed(mine: Facts, its: Facts) -> dict[str, tuple[Scalar, Scalar]]:
    """What differs of a build, among the facts that both tell: what one host did not let be seen is no other build."""
    both = mine.keys() & its.keys()
    return differing({name: mine[name] for name in both}, {name: its[name] for name in both})


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(" ".join(map(str, part)) for part in value)
    return str(value)


def _options(begun: Begun) -> dict[str, Any]:
    """What decides about the plan; which shard it is does not."""
    return {name: value for name, value in begun.options.items() if name != "shard"}


def _builds(run: ShardRun) -> dict[str, Facts]:
    """What is installed, and what the servers of each build told; empty where nothing was seen."""
    found: dict[str, Facts] = {"installed": run.shard.build}
    of_launch = {entry.launch: entry.build for entry in run.entries if isinstance(entry, Launching)}
    for entry in run.entries:
        if isinstance(entry, Ready):
            told_by_server = {n: value for n, value in entry.build.items() if n not in OF_THE_HOST}
            found.setdefault(f"running {of_launch.get(entry.launch, '')}", told_by_server)
    return found


def _begun(shards: Sequence[ShardRun]) -> Begun:
    """The plan as it would be of one run."""
    one = shards[0]
    first = min(shards, key=lambda run: (run.begun.started_at, run.shard.number)).begun
    when = datetime.fromisoformat(first.started_at)
    return msgspec.structs.replace(
        one.begun,
        run_id=f"{when:%Y%m%d-%H%M%S}-{one.begun.target}-merged",
        started_at=first.started_at,
        host=", ".join(dict.fromkeys(run.begun.host for run in shards)),
        options=_options(one.begun),
        items=[planned.item for planned in one.shard.items],
        asked=one.shard.asked,
        ratios=one.shard.ratios,
        shard=None,
    )


def _renumbered(shards: Sequence[ShardRun]) -> Iterator[Entry]:
    """Everything that the shards noted, their launches counted on from shard to shard."""
    before = 0
    for run in shards:
        own = 0
        for entry in run.entries:
            if isinstance(entry, Begun | Resumed | Closed):
                continue
            number = getattr(entry, "launch", None)
            if isinstance(number, int):
                own = max(own, number)
                yield msgspec.structs.replace(entry, launch=before + number)
            else:
                yield _named(entry, run)
        before += own


def _named(entry: Entry, run: ShardRun) -> Entry:
    """An entry that says of which shard it is, where nothing else does."""
    if isinstance(entry, Note) and entry.kind:
        return msgspec.structs.replace(entry, text=f"{run.shard}: {entry.text}")
    if isinstance(entry, Item) and not entry.outcome.arm:
        return msgspec.structs.replace(entry, item=f"{entry.item} ({run.shard})")
    return entry


def _untold(one: ShardRun, runs: Mapping[int, ShardRun], entries: Iterable[Entry]) -> Iterator[Item]:
    """Of every planned item that ended nowhere, that it is not known and why: nothing passes because it is missing.

    Later launches of two builds that a shard left out after its first pair are no more missing than in one run.
    """
    items = {entry.item for entry in entries if isinstance(entry, Item)}
    for planned in one.shard.items:
        number = one.shard.of_arm(planned.arm)
        run = runs.get(number)
        last = 1 if run is not None and run.settled else one.begun.plan.launches
        if planned.item in items or planned.number > last:
            continue
        why = _why(f"shard {number}/{one.shard.of}", run)
        yield Item(planned.item, planned.number, _unproven(planned, why), 0.0, build=planned.build)


def _why(shard: str, run: ShardRun | None) -> str:
    if run is None:
        return f"{shard} is missing"
    if run.finished:
        return f"{shard} tells nothing of it"
    return f"{shard} was ended before its end" + (f": {run.ended_by}" if run.ended_by else "")


def _unproven(planned: Planned, why: str) -> Outcome:
    return Outcome(
        planned.question,
        planned.kind,
        planned.arm,
        planned.number,
        "unproven",
        text=why,
        name=StoppedEarly.__name__,
        short=why,
    )


def launches_of(run: ShardRun) -> tuple[int, int]:
    """How many launches of a shard are complete, and how many it takes: all that are planned, and those of later looks."""
    own, planned = run.shard.arms[run.shard.number - 1], run.begun.plan.launches
    of_plan = {
        (item.arm, item.number, item.build)
        for item in run.shard.items
        if item.arm in own and item.number <= planned
    }
    complete, begun = (
        {(entry.arm, entry.number, entry.build) for entry in run.entries if isinstance(entry, kind)}
        for kind in (Complete, Launching)
    )
    return len(complete), len({launch for launch in begun if launch[1] > 0} | of_plan | complete)
