"""Which format a result file has, and how its entries become a session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from suite.foreign import NotJSON, json_of, read_file
from suite.gate.errors import CorruptFile, ForeignFile, FutureVersion, MissingFile
from suite.gate.imports import aiperf, bench_serving, guidellm, pytest_benchmark
from suite.gate.imports.entries import ImportedRound
from suite.gate.records import Invalid, Launch, Plan, Series, Session

FORMATS = ("sglang.bench_serving", "pytest-benchmark", "AIPerf", "GuideLLM")


@dataclass(frozen=True)
class Imported:
    """The run that result files make, and what to tell about them."""

    session: Session
    notes: list[str]


def read_results(paths: Sequence[Path], *, target: str, arm: str, run_id: str | None = None) -> Imported:
    """Read result files as one run of `arm`: each file a launch, its entries of one workload the rounds.

    Raises MissingFile, CorruptFile, ForeignFile (no known format) or FutureVersion.
    """
    if not paths:
        raise MissingFile(Path(), "no result file was given")
    files = [(path, *_entries(path)) for path in paths]
    workloads = sorted({e.workload for _, _, entries in files for e in entries})
    series = [_series(workload, arm, [entries for _, _, entries in files]) for workload in workloads]
    told = [e.started_at for _, _, entries in files for e in entries if e.started_at]
    modified = datetime.fromtimestamp(paths[0].stat().st_mtime, UTC).isoformat(timespec="seconds")
    rounds = max((len(r) for s in series for launch in s.launches for r in launch.rounds.values()), default=1)
    session = Session(
        run_id=run_id or f"imported-{paths[0].stem}",
        started_at=min(told) if told else modified,
        target=target,
        plan=Plan("imported", len(paths), rounds, [len(paths)]),
        series=series,
    )
    return Imported(session, [f"{path}: {name}, {len(entries)} entries" for path, name, entries in files])


def _series(workload: str, arm: str, files: Sequence[Sequence[ImportedRound]]) -> Series:
    of_file = [[e for e in entries if e.workload == workload] for entries in files]
    first = next(e for entries in of_file for e in entries)
    return Series(
        workload, arm, first.identity, first.subject, [_launch(entries) for entries in of_file if entries]
    )


def _launch(entries: Sequence[ImportedRound]) -> Launch:
    names = {name for e in entries for name in (*e.values, *e.rounds)}
    rounds: dict[str, list[float | None]] = {}
    for name in sorted(names):
        values = [v for e in entries for v in e.rounds.get(name, [e.values.get(name)])]
        if any(v is not None for v in values):
            rounds[name] = values
    invalid = [Invalid(*e.invalid, round=i) for i, e in enumerate(entries) if e.invalid is not None]
    return Launch(rounds, invalid=invalid)


def _entries(path: Path) -> tuple[str, list[ImportedRound]]:
    documents = _documents(path)
    first = documents[0]
    if bench_serving.matches(first):
        return FORMATS[0], [bench_serving.read(line) for line in documents if bench_serving.matches(line)]
    if pytest_benchmark.matches(first):
        return FORMATS[1], pytest_benchmark.read(first)
    for name, reader in ((FORMATS[2], aiperf), (FORMATS[3], guidellm)):
        if reader.matches(first):
            version = reader.newer(first)
            if version:
                raise FutureVersion(path, f"{name} export version {version} is not known to this suite")
            read = reader.read(first)
            return name, read if isinstance(read, list) else [read]
    raise ForeignFile(path, f"is of no known format; known: {', '.join(FORMATS)}")


def _documents(path: Path) -> list[Mapping[str, Any]]:
    """The JSON objects of a file: one document, or one a line."""
    try:
        text = read_file(path).decode("utf-8")
    except FileNotFoundError:
        raise MissingFile(path, "no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CorruptFile(path, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        documents = [json_of(text)]
    except NotJSON:
        documents = _lines(path, text)
    if not documents or not all(isinstance(d, Mapping) for d in documents):
        raise ForeignFile(path, f"holds no JSON object; known formats: {', '.join(FORMATS)}")
    return documents


def _lines(path: Path, text: str) -> list[Any]:
    documents = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                documents.append(json_of(line))
            except NotJSON as error:
                raise CorruptFile(path, f"line {number}: {error}; is the file cut off?") from None
    return documents
