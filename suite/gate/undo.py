"""The last changes of a target's baselines, kept beside them so that each can be taken back."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from suite.gate.errors import GateError, WriteFailed
from suite.gate.files import locked, read, render, write_together

FORMAT, VERSION = "sglang-perf-baseline-change", 1
FOLDER = ".undo"
KEPT = 10


class _File(msgspec.Struct, frozen=True):
    """A file as it was, byte for byte (as latin-1; ``None``: there was none), and the hash of what took its place."""

    name: str
    before: str | None
    after: str | None


class _Change(msgspec.Struct, frozen=True):
    format: str
    version: int
    what: str
    at: str
    files: list[_File]


@contextlib.contextmanager
def undoable(folder: Path, what: str, paths: Iterable[Path]) -> Iterator[None]:
    """Keep how ``paths`` were before the body changed them; for whoever holds the folder's lock.

    A change that cannot be kept is made all the same: it is in version control too.
    """
    before = {path: _bytes(path) for path in paths}
    yield
    files = [
        _File(path.name, old.decode("latin-1") if old is not None else None, _digest(_bytes(path)))
        for path, old in before.items()
        if _bytes(path) != old
    ]
    if not files:
        return
    kept = _kept(folder)
    number = int(kept[-1].stem) + 1 if kept else 1
    change = _Change(FORMAT, VERSION, what, datetime.now(UTC).isoformat(timespec="seconds"), files)
    with contextlib.suppress(WriteFailed, OSError):
        write_together({folder / FOLDER / f"{number:06d}.json": render(change)})
        for path in kept[: -(KEPT - 1)]:
            path.unlink()


def undo(folder: Path) -> tuple[str, list[Path]]:
    """Take back the last change that is kept: what it was, and the files that are as before it.

    Raises:
        GateError: none is kept, or a file was changed since by something else: then nothing is taken back.
        StoredFileError, WriteFailed: as of :mod:`suite.gate.files`.
    """
    if not folder.is_dir():
        raise GateError(f"there are no baselines in {folder}: nothing to take back")
    with locked(folder):
        kept = _kept(folder)
        if not kept:
            raise GateError(f"no change of {folder} is kept: nothing to take back")
        change = read(kept[-1], FORMAT, VERSION, _Change)
        paths = {folder / Path(file.name).name: file for file in change.files}
        if moved := [str(path) for path, file in paths.items() if _digest(_bytes(path)) != file.after]:
            raise GateError(
                f"nothing was taken back of the last change ({change.what}, {change.at}): changed since by something "
                f"else: {', '.join(moved)}; restore what you want from version control"
            )
        write_together({p: f.before.encode("latin-1") for p, f in paths.items() if f.before is not None})
        for path, file in paths.items():
            if file.before is None:
                path.unlink(missing_ok=True)
        kept[-1].unlink()
        return f"{change.what} of {change.at}", list(paths)


def _kept(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / FOLDER).glob("*.json") if path.stem.isdecimal())


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _digest(data: bytes | None) -> str | None:
    return None if data is None else hashlib.sha256(data).hexdigest()
