"""Stored samples: one readable JSON file per question, arm and workload, moved only when a person says so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from suite.gate import plausible, workload
from suite.gate.errors import (
    BadMeasurement,
    CorruptFile,
    ForeignFile,
    GateError,
    IdentityMismatch,
    StoredFileError,
)
from suite.gate.files import locked, read, render, write_together
from suite.gate.records import Facts, Launch, Scalar, Series, Session, check_session, differing
from suite.gate.stored_sessions import StoredSession, folded, unfolded
from suite.gate.undo import undo, undoable
from suite.gate.values import untrusted
from suite.sglang import config_diff

FORMAT, VERSION = "sglang-perf-baseline", 2


class BaselineSession(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one recorded run measured of this series.

    generation: sessions of one number are samples of one build; the highest gives the level a run is compared
    with, all of them tell how far sessions of one build differ.
    """

    run_id: str
    started_at: str
    subject: Facts
    launches: list[Launch]
    generation: int = 1

    @property
    def date(self) -> str:
        """The day the session was recorded, YYYY-MM-DD."""
        return self.started_at[:10]


class Baseline(msgspec.Struct, frozen=True, omit_defaults=True):
    """The recorded sessions of one series, oldest first, all of one identity."""

    question: str
    arm: str
    identity: Facts
    sessions: list[BaselineSession]
    derived_from: list[str] = []

    @property
    def generation(self) -> int:
        """The generation a run is compared with."""
        return max(s.generation for s in self.sessions)

    @property
    def current(self) -> BaselineSession:
        """The newest session of the current generation: the one verdicts name."""
        return next(s for s in reversed(self.sessions) if s.generation == self.generation)


class _StoredBaseline(msgspec.Struct, frozen=True, omit_defaults=True):
    question: str
    arm: str
    identity: Facts
    sessions: list[StoredSession]
    derived_from: list[str] = []


class _BaselineFile(msgspec.Struct, frozen=True):
    format: str
    version: int
    target: str
    baseline: _StoredBaseline


def _folded(target: str, baseline: Baseline) -> bytes:
    """The text of a baseline's file."""
    parts = zip(baseline.sessions, folded([s.subject for s in baseline.sessions]), strict=True)
    sessions = [
        StoredSession(s.run_id, s.started_at, s.launches, whole, changed, gone, s.generation)
        for s, (whole, changed, gone) in parts
    ]
    b = baseline
    kept = _StoredBaseline(b.question, b.arm, b.identity, sessions, b.derived_from)
    return render(_BaselineFile(FORMAT, VERSION, target, kept))


def _unfolded(b: _StoredBaseline) -> Baseline:
    parts = zip(b.sessions, unfolded(b.sessions), strict=True)
    sessions = [
        BaselineSession(s.run_id, s.started_at, subject, s.launches, s.generation) for s, subject in parts
    ]
    return Baseline(b.question, b.arm, b.identity, sessions, b.derived_from)


@dataclass(frozen=True)
class Found:
    """Baselines of a run's series.

    problems: by series, of a file that is there and cannot be used; asked_otherwise: for a series without a baseline,
    how the question was asked where it was recorded.
    """

    baselines: dict[tuple[str, str], Baseline] = field(default_factory=dict)
    problems: dict[tuple[str, str], str] = field(default_factory=dict)
    asked_otherwise: dict[tuple[str, str], str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recorded:
    """What recording did to one file: `text` is for a person.

    generation: the one that the run was put into; starts: when each of its sessions began, this run's among them;
    build: what of the build had changed where that began a generation.
    """

    path: Path
    text: str
    generation: int = 1
    starts: tuple[str, ...] = ()
    build: str = ""


def slug(text: str) -> str:
    """A file name for a question or arm: `decode_throughput[c1]` -> `decode_throughput-c1`."""
    return re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("-.") or "unnamed"


class BaselineStore:
    """The folder `root/<target>/`, one file per series: `<question>--<arm>--<workload>--<host>.json`.

    Two budgets ask the same question with other lengths or other numbers of requests; their baselines lie beside each
    other, and so do those of two hosts. A series whose identity says nothing of a workload or a host, and one recorded
    before these were part of the name, has a file without that part.
    """

    def __init__(self, root: Path, target: str) -> None:
        self.target = target
        self.folder = root / slug(target)

    def path(self, question: str, arm: str, identity: Mapping[str, Scalar] | None = None) -> Path:
        """Where the series of this question, arm, workload and host is, or would be, stored."""
        facts = identity or {}
        host = slug(str(facts["host"])) if "host" in facts else ""
        parts = [slug(question), slug(arm), workload.label(facts), host]
        return self.folder / f"{'--'.join(part for part in parts if part)}.json"

    def load(self, question: str, arm: str, identity: Mapping[str, Scalar] | None = None) -> Baseline:
        """The baseline of a series. Raises the errors of `files.read`, or ForeignFile if it is of another series."""
        return self._of(self.path(question, arm, identity), question, arm)

    def _of(self, path: Path, question: str, arm: str) -> Baseline:
        stored = self._load(path)
        if (stored.question, stored.arm) != (question, arm):
            raise ForeignFile(
                path,
                f"holds {stored.question}, arm {stored.arm}; rename {question!r} or {arm!r}: their files collide",
            )
        return stored

    def _load(self, path: Path) -> Baseline:
        stored = read(path, FORMAT, VERSION, _BaselineFile)
        if not stored.baseline.sessions:
            raise CorruptFile(path, "holds no session; drop it and record it again")
        if stored.target != self.target:
            raise ForeignFile(
                path, f"is of target {stored.target!r}, not {self.target!r}; move it to its folder"
            )
        baseline = _unfolded(stored.baseline)
        wrong = plausible.twice((s.run_id, s.started_at) for s in baseline.sessions)
        for session in baseline.sessions:
            if found := plausible.impossible(session.launches):
                wrong = wrong or f"run {session.run_id}: {found}"
        if wrong:
            raise CorruptFile(path, f"{wrong}; restore it from version control, or drop that session")
        return baseline

    def all(self) -> tuple[list[Baseline], list[StoredFileError]]:
        """Every baseline of the target, in order of file names, and the files that cannot be used."""
        good: list[Baseline] = []
        bad: list[StoredFileError] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                good.append(self._load(path))
            except StoredFileError as error:
                bad.append(error)
        return good, bad

    def sessions_for(self, session: Session) -> Found:
        """What `session` is to be judged against. A run that is itself recorded is left out of its own baseline."""
        found = Found()
        for series in session.series:
            key = (series.question, series.arm)
            try:
                _, baseline = self._find(series)
            except StoredFileError as error:
                found.problems[key] = str(error)
                continue
            if baseline is None:
                if elsewhere := self._other_workloads(series):
                    found.asked_otherwise[key] = elsewhere
                continue
            others = [s for s in baseline.sessions if s.run_id != session.run_id]
            if others:
                found.baselines[key] = msgspec.structs.replace(baseline, sessions=others)
        self._told_one_time(found)
        return found

    def _told_one_time(self, found: Found) -> None:
        """Leave out baselines that disagree on when a run was."""
        times: dict[str, set[str]] = {}
        for baseline in found.baselines.values():
            for session in baseline.sessions:
                times.setdefault(session.run_id, set()).add(session.started_at)
        for key, baseline in list(found.baselines.items()):
            of_its = {s.run_id: times[s.run_id] for s in baseline.sessions}
            if wrong := plausible.dated_twice(of_its):
                found.problems[key] = (
                    f"{self.folder}: {wrong} in different files; restore them from version control"
                )
                del found.baselines[key]

    def _find(self, series: Series) -> tuple[Path, Baseline | None]:
        """Where a series is recorded or would be, and its baseline if there is one of the same workload."""
        path = self.path(series.question, series.arm, series.identity)
        if path.exists():
            return path, self._of(path, series.question, series.arm)
        unnamed = self.path(series.question, series.arm)
        if unnamed.exists():
            old = self._of(unnamed, series.question, series.arm)
            if workload.filed_by(old.identity) == workload.filed_by(series.identity):
                return unnamed, old
        return path, None

    def _other_workloads(self, series: Series) -> str:
        """How, or where, the same question was asked of the same arm where it was recorded: `max_tokens 48, not 96`."""
        mine, told = workload.filed_by(series.identity), []
        for path in sorted(self.folder.glob(f"{slug(series.question)}--{slug(series.arm)}*.json")):
            try:
                other = workload.filed_by(self._of(path, series.question, series.arm).identity)
            except StoredFileError:
                continue  # of another arm, or damaged: told where it is asked for
            changed = differing(other, mine)
            told.append(", ".join(f"{name} {old}, not {new}" for name, (old, new) in changed.items()))
        return "; or ".join(told)

    def record(self, session: Session, *, promote: bool = False, only: Iterable[str] = ()) -> list[Recorded]:
        """Add a run to the baselines of its series (`only`: of these questions), all files or none.

        promote: the run's level becomes what later runs are compared with (a new generation). Without it that
        happens only where the subject differs, because sessions of two builds must not be mixed into one level.
        Raises BadMeasurement for an invalid run, IdentityMismatch, StoredFileError, WriteFailed.
        """
        check_session(session)
        wanted = set(only)
        series = [s for s in session.rounded().series if not wanted or s.question in wanted]
        if not series:
            raise GateError(f"run {session.run_id} has no series to record")
        with locked(self.folder):
            changed = [self._with(session, s, promote) for s in series]
            done = "promotion" if promote else "recording"
            with undoable(self.folder, f"{done} of run {session.run_id}", [note.path for note, _ in changed]):
                write_together({note.path: _folded(self.target, baseline) for note, baseline in changed})
        return [note for note, _ in changed]

    def _with(self, session: Session, series: Series, promote: bool) -> tuple[Recorded, Baseline]:
        where = f"run {session.run_id}, {series.question}, arm {series.arm}"
        _refuse_invalid(series, where)
        path, old = self._find(series)
        generation, text, build = 1, f"{where}: first session recorded", ""
        kept: list[BaselineSession] = []
        if old is not None:
            differences = differing(old.identity, series.identity)
            if differences:
                what = f"{where}: not comparable with the baseline (`baseline drop` it to start again)"
                raise IdentityMismatch(what, differences)
            kept = [s for s in old.sessions if s.run_id != session.run_id]
        if old is not None and kept:
            generation, text, build = _generation(kept, series, promote, where)
        kept.append(
            BaselineSession(session.run_id, session.started_at, series.subject, series.launches, generation)
        )
        kept.sort(key=lambda s: (s.generation, s.started_at, s.run_id))
        facts = dict(sorted(series.identity.items()))
        baseline = Baseline(series.question, series.arm, facts, kept, series.derived_from)
        starts = tuple(s.started_at for s in kept if s.generation == generation)
        return Recorded(path, text, generation, starts, build), baseline

    def drop(self, question: str, arm: str | None = None, run_id: str | None = None) -> list[Path]:
        """Remove a question's baselines (of one arm), or only the session `run_id` in them. Returns what changed."""
        named = f"{slug(question)}--{slug(arm) if arm else '*'}"
        with locked(self.folder):
            paths = sorted({*self.folder.glob(f"{named}.json"), *self.folder.glob(f"{named}--*.json")})
            what = f"drop of {' '.join(filter(None, [question, arm, run_id]))}"
            with undoable(self.folder, what, paths):
                return [path for path in paths if self._drop(path, run_id)]

    def undo(self) -> tuple[str, list[Path]]:
        """Take back the last change. See :func:`suite.gate.undo.undo`."""
        return undo(self.folder)

    def _drop(self, path: Path, run_id: str | None) -> bool:
        if run_id is None:
            path.unlink()
            return True
        baseline = self._load(path)
        kept = [s for s in baseline.sessions if s.run_id != run_id]
        if len(kept) == len(baseline.sessions):
            return False
        if not kept:
            path.unlink()
            return True
        smaller = msgspec.structs.replace(baseline, sessions=kept)
        write_together({path: _folded(self.target, smaller)})
        return True


def _refuse_invalid(series: Series, where: str) -> None:
    reason = untrusted(series)
    if reason:
        raise BadMeasurement(f"{where}: {reason}; an invalid run cannot be a baseline")
    if not any(v is not None for launch in series.launches for r in launch.rounds.values() for v in r):
        raise BadMeasurement(f"{where}: holds no value; there is nothing to record")


def _generation(
    kept: list[BaselineSession], series: Series, promote: bool, where: str
) -> tuple[int, str, str]:
    newest = max(s.generation for s in kept)
    current = [s for s in kept if s.generation == newest]
    differences = config_diff.changed(current[-1].subject, series.subject)
    if not promote and not differences:
        return newest, f"{where}: session {len(current) + 1} of generation {newest} recorded", ""
    build = config_diff.told(differences, 3) if differences else ""
    why = f" (another build: {build})" if build else ""
    return (
        newest + 1,
        f"{where}: starts generation {newest + 1}{why}; later runs are compared with this level",
        build,
    )
