"""A run's journal: one line an entry, each on disk before the run goes on, each with a checksum of its own."""

from __future__ import annotations

import fcntl
import os
import queue
import threading
import zlib
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from suite import redact
from suite.gate import CorruptFile, ForeignFile, FutureVersion, MissingFile, WriteFailed
from suite.session.entries import FORMAT, VERSION, Begun, Entry

NAME = "journal.jsonl"
CLOSE_S = 5.0
"""How long the last line is waited for when a journal is closed."""
_HEAD = b'{"crc":"%08x","entry":'
_HEAD_LENGTH = len(_HEAD % 0)
_encoder = msgspec.json.Encoder(enc_hook=str)
_decoder: msgspec.json.Decoder[Entry] = msgspec.json.Decoder(Entry)


@dataclass(slots=True)
class JournalContents:
    """What a journal holds. ``length``: bytes up to the end of the last whole line; what follows is torn."""

    path: Path
    entries: list[Entry] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    """Lines that cannot be used, each by its number and what is wrong with it."""
    length: int = 0

    @property
    def begun(self) -> Begun | None:
        """The plan; ``None`` if its line is lost."""
        return next((entry for entry in self.entries if isinstance(entry, Begun)), None)


def line_of(entry: Entry) -> bytes:
    """An entry as a line, with the CRC-32 of its JSON."""
    text = redact.cut(_encoder.encode(entry).decode()).encode()  # whatever a server echoed
    return _HEAD % zlib.crc32(text) + text + b"}\n"


def read(path: Path) -> JournalContents:
    """All entries of a journal that are whole. A last line that a dying writer tore is dropped and said.

    Raises:
        MissingFile, CorruptFile: there is none, or it cannot be opened.
        ForeignFile, FutureVersion: it is not a journal, or one of a later version of this suite.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise MissingFile(path, "there is no such journal") from None
    except OSError as error:
        raise CorruptFile(path, f"cannot be read ({error.strerror}); check its permissions") from None
    found = JournalContents(path)
    *lines, rest = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        _take(found, number, line)
    found.length = len(data) - len(rest)
    if rest:
        found.damage.append(
            f"{path.name}: the last line was torn after {len(rest)} bytes and is dropped: "
            "what was being written when the run died"
        )
    _check(found, lines)
    return found


def _take(found: JournalContents, number: int, line: bytes) -> None:
    text = line[_HEAD_LENGTH:-1]
    if line != _HEAD % zlib.crc32(text) + text + b"}":
        found.damage.append(f"{found.path.name}, line {number}: damaged (its checksum is wrong); left out")
        return
    try:
        found.entries.append(_decoder.decode(text))
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        found.damage.append(f"{found.path.name}, line {number}: not understood ({error}); left out")


def _check(found: JournalContents, lines: list[bytes]) -> None:
    begun = found.begun
    if begun is not None and begun.format == FORMAT and begun.version > VERSION:
        raise FutureVersion(
            found.path, f"has version {begun.version}, this suite reads up to {VERSION}; update the suite"
        )
    if lines and not found.entries and not any(line.startswith(b'{"crc":"') for line in lines):
        raise ForeignFile(found.path, f"is no {FORMAT} file; move it elsewhere")


class Journal:
    """Appends entries to a file; the only writer of it as long as it is open.

    Args:
        path: the file; made if it is not there. A torn last line is cut off.

    Raises:
        WriteFailed: it cannot be opened or written, or another run is writing it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.before = JournalContents(path)
        """What was in it when it was opened."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise WriteFailed(path, f"cannot be opened ({error.strerror}); fix the permissions") from None
        try:
            self._own()
            self.before = read(path)
            os.ftruncate(self._file, self.before.length)
            _sync_folder(path.parent)
        except OSError as error:
            os.close(self._file)
            raise WriteFailed(path, f"cannot be written ({error.strerror})") from None
        except BaseException:
            os.close(self._file)
            raise
        self._length = self.before.length
        self._lines: queue.SimpleQueue[tuple[bytes, Future[None]] | None] = queue.SimpleQueue()
        # a daemon: the process ends although a disk that hangs holds a line up
        self._writer = threading.Thread(target=self._write_lines, name="journal", daemon=True)
        self._torn = False

    def _own(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise WriteFailed(
                self.path, "another run is writing it; wait for it to end, or end that process"
            ) from None

    def append(self, entry: Entry) -> None:
        """Add an entry; it is on disk when this returns.

        Raises:
            WriteFailed: it is not (disk full); nothing of it is left in the file.
        """
        line = (b"\n" if self._torn else b"") + line_of(entry)
        if not self._writer.ident:
            self._writer.start()
        written: Future[None] = Future()
        # in a thread of its own: Ctrl-C may interrupt the waiting for it, but never tears a line
        self._lines.put((line, written))
        try:
            written.result()
        except OSError as error:
            self._undo()
            raise WriteFailed(
                self.path, f"not written ({error.strerror}); free space: what came before is kept"
            ) from None

    def _write_lines(self) -> None:
        while (next_one := self._lines.get()) is not None:
            line, written = next_one
            try:
                self._write(line)
            except OSError as error:
                written.set_exception(error)
            else:
                written.set_result(None)

    def _write(self, line: bytes) -> None:
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)
        self._length += len(line)
        self._torn = False

    def extend(self, entries: Iterable[Entry]) -> None:
        """Add several entries, one after the other."""
        for entry in entries:
            self.append(entry)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._file, self._length)
        except OSError:
            self._torn = True  # a half line stays: the next one must not be spoilt by it

    def close(self) -> None:
        """Let go of the file. Again is harmless. A line that the disk holds up is left to its thread."""
        self._lines.put(None)
        if self._writer.ident:
            self._writer.join(CLOSE_S)
        if self._file >= 0 and not self._writer.is_alive():
            os.close(self._file)
            self._file = -1


def _sync_folder(folder: Path) -> None:
    """The file's name must survive a power cut as its lines do."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
