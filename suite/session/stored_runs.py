"""A run under ``results/``: its own folder, found by path or id, and read from what it left, whole or half."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from suite.gate import MissingFile, Session, WriteFailed, load_run
from suite.session import journal
from suite.session.entries import Closed
from suite.session.fold import told


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run's session, and what to say of it before its verdicts."""

    folder: Path
    session: Session
    notes: list[str]


def find(run: str | Path, results: Path = Path("results")) -> Path:
    """The folder of a run that is named by its path, its ``run.json``, or its id under ``results``.

    Raises:
        MissingFile: there is no such run; the text names those there are.
    """
    for path in (Path(run), results / str(run)):
        if path.is_file() and path.name in ("run.json", journal.NAME):
            return path.parent
        if path.is_dir() and any((path / name).exists() for name in ("run.json", journal.NAME)):
            return path
    known = sorted(path.parent.name for path in results.glob(f"*/{journal.NAME}"))
    there = f"the last of those in {results}: {', '.join(known[-5:])}" if known else f"{results} holds no run"
    raise MissingFile(Path(run), f"there is no such run; {there}")


def load(run: str | Path, results: Path = Path("results")) -> StoredRun:
    """Read a run: from its journal if it was ended before ``run.json`` was written, else from that.

    Raises:
        StoredFileError: there is no such run, or nothing of it can be read.
    """
    folder = find(run, results)
    path = folder / journal.NAME
    if not path.exists():
        return StoredRun(folder, load_run(folder), [])
    found = journal.read(path)
    over = bool(found.entries) and isinstance(found.entries[-1], Closed)
    if over and not found.damage and (folder / "run.json").exists():
        return StoredRun(folder, load_run(folder), [])
    notes = list(found.damage)
    if not over:
        notes.append(f"half a run: it was ended before its end; to go on: pytest -m perf --resume {folder}")
    return StoredRun(folder, told(found.entries).session(folder.name), notes)


def own_directory(results: Path, name: str) -> Path:
    """A new directory for one run; a number is added when two runs start in the same second."""
    for number in range(1000):
        path = results / (name if number == 0 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            if not path.is_dir():
                raise WriteFailed(path, "is in the way: a file where the run's directory is to be") from None
            continue
        except OSError as error:
            raise WriteFailed(
                path, f"cannot be made ({error.strerror}); name another place with --results DIR"
            ) from None
        return path
    raise FileExistsError(f"{results / name}: a thousand of this second are there already")
