"""Small readable JSON files, written whole or not at all, with a named outcome for every way they can be bad."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from suite import redact
from suite.foreign import one_line, read_file
from suite.gate.errors import CorruptFile, ForeignFile, FutureVersion, MissingFile, WriteFailed

T = TypeVar("T", bound=msgspec.Struct)
LOCK_WAIT_S = 20.0
LINE = 100


class _Header(msgspec.Struct):
    format: str
    version: int


def render(value: msgspec.Struct) -> bytes:
    """Readable JSON in a stable order: a line for each key; a list of plain values, or a short list, on one line.

    No secret that is known gets into it, whatever a server echoed.
    """
    return redact.cut(_render(msgspec.to_builtins(value), 0) + "\n").encode()


def _render(value: Any, depth: int) -> str:
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict) and value:
        items = (f"{json.dumps(k, ensure_ascii=False)}: {_render(v, depth + 1)}" for k, v in value.items())
        return "{" + pad + ("," + pad).join(items) + "\n" + " " * depth + "}"
    if isinstance(value, list) and any(isinstance(v, dict | list) for v in value):
        one_line = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if len(one_line) <= LINE:
            return one_line
        return "[" + pad + ("," + pad).join(_render(v, depth + 1) for v in value) + "\n" + " " * depth + "]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read(path: Path, what: str, version: int, kind: type[T]) -> T:
    """The struct stored at `path`, whose format must be `what`, at `version` or older.

    Raises MissingFile, CorruptFile, ForeignFile or FutureVersion, each saying what to do.
    """
    try:
        data = read_file(path)
    except FileNotFoundError:
        raise MissingFile(path, "no such file") from None
    except OSError as error:
        raise CorruptFile(path, f"cannot be read ({error.strerror}); check its permissions") from None
    _check_header(path, data, what, version)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CorruptFile(
            path, f"{one_line(str(error))}; restore it from version control, or drop and record it again"
        ) from None


def _check_header(path: Path, data: bytes, what: str, version: int) -> None:
    try:
        header = msgspec.json.decode(data, type=_Header)
    except msgspec.ValidationError:
        raise ForeignFile(path, f"is JSON but no {what} file; move it elsewhere") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptFile(
            path,
            f"is truncated or not JSON ({one_line(str(error))}); restore it from version control, or drop and record it again",
        ) from None
    if header.format != what:
        raise ForeignFile(
            path, f"is a {one_line(header.format, 60)!r} file, not a {what} file; move it elsewhere"
        )
    if header.version > version:
        raise FutureVersion(
            path,
            f"has version {header.version}, this suite reads up to {version}; update the suite to judge with it",
        )


def write_together(files: dict[Path, bytes]) -> None:
    """Write all files or none: every byte reaches the disk before the first file gets its name.

    Raises WriteFailed (disk full, no permission); files that were there before are then untouched.
    """
    pending: list[tuple[str, Path]] = []
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
            pending.append((name, path))
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(name, 0o644)
        for name, path in pending:
            os.replace(name, path)
    except OSError as error:
        failed = next(iter(files)) if not pending else pending[-1][1]
        raise WriteFailed(
            failed, f"not written ({error.strerror}); free space or fix the permissions, and repeat"
        ) from None
    finally:
        for name, _ in pending:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)


@contextlib.contextmanager
def locked(folder: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the folder's lock, so that two writers follow each other. Raises WriteFailed after `wait_s` seconds."""
    lock = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise WriteFailed(
            lock, f"cannot be opened ({error.strerror}); check the folder's permissions"
        ) from None
    try:
        _acquire(handle, lock, wait_s)
        yield
    finally:
        os.close(handle)  # gives the lock back


def _acquire(handle: int, lock: Path, wait_s: float) -> None:
    deadline = time.monotonic() + wait_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise WriteFailed(
                    lock, f"held by another writer for {wait_s:g} s; wait for it to end"
                ) from None
            time.sleep(0.05)
