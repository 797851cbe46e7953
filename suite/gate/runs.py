"""A run on disk: run.json (the whole truth, enough to judge it again) and verdicts.json (what was said of it)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from suite.gate.errors import MissingFile
from suite.gate.files import read, render, write_together
from suite.gate.records import Session, check_session
from suite.gate.verdicts import Cause, Estimate, Judgement, Verdict

RUN_FORMAT, VERDICTS_FORMAT, VERSION = "sglang-perf-run", "sglang-perf-verdicts", 1


class Informed(msgspec.Struct, frozen=True, omit_defaults=True):
    """The estimate of a metric that is not gated."""

    question: str
    arm: str
    metric: str
    estimate: Estimate


class _Run(msgspec.Struct, frozen=True):
    format: str
    version: int
    session: Session
    verdicts: list[Verdict]
    sentence: str = ""
    status: int = 0


class StoredVerdicts(msgspec.Struct, frozen=True):
    """verdicts.json: everything the gate said of one run, in a stable order."""

    format: str
    version: int
    run_id: str
    started_at: str
    target: str
    worst: str
    verdicts: list[Verdict]
    informational: list[Informed]
    changes: dict[str, str]
    undecided: list[list[str]]
    next_launches: int | None
    notes: list[str]
    causes: list[Cause] = []
    sentence: str = ""
    status: int = 0


def save_run(folder: Path, session: Session, judgement: Judgement) -> None:
    """Write `folder`/run.json and verdicts.json, both or none. Raises BadMeasurement, WriteFailed."""
    check_session(session)
    stored = session.rounded()
    verdicts = list(judgement.verdicts.values())
    run = _Run(RUN_FORMAT, VERSION, stored, verdicts, judgement.sentence, judgement.status)
    said = StoredVerdicts(
        format=VERDICTS_FORMAT,
        version=VERSION,
        run_id=session.run_id,
        started_at=session.started_at,
        target=session.target,
        worst=judgement.worst,
        verdicts=verdicts,
        informational=[Informed(*key, estimate) for key, estimate in judgement.informational.items()],
        changes={f"{question}, {arm}": text for (question, arm), text in judgement.changes.items()},
        undecided=[list(where) for where in judgement.undecided],
        next_launches=judgement.next_launches,
        notes=judgement.notes,
        causes=judgement.causes,
        sentence=judgement.sentence,
        status=judgement.status,
    )
    write_together({folder / "run.json": render(run), folder / "verdicts.json": render(said)})


def load_run(path: Path) -> Session:
    """The session of a stored run; `path` is run.json or its folder. Raises the errors of `files.read`."""
    file = path / "run.json" if path.is_dir() else path
    if not file.exists():
        raise MissingFile(file, "there is no such run; results/<run>/run.json is what a run writes")
    session = read(file, RUN_FORMAT, VERSION, _Run).session
    check_session(session)
    return session


def load_verdicts(path: Path) -> StoredVerdicts:
    """What was said of a stored run; `path` is verdicts.json or its folder. Raises the errors of `files.read`."""
    return read(path / "verdicts.json" if path.is_dir() else path, VERDICTS_FORMAT, VERSION, StoredVerdicts)
