"""Locks that keep two runs off the same GPUs, and records by which the next run finds what a dead one left."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from suite.servers.on_host import processes


class Busy(Exception):
    """Somebody else holds a lock; ``holder`` is what they wrote into it."""

    def __init__(self, key: str, holder: dict[str, Any]) -> None:
        super().__init__(key)
        self.key = key
        self.holder = holder


def open_directory(path: str) -> str:
    """Make the directory that all users of the host share for locks and records."""
    try:
        os.mkdir(path)
        os.chmod(path, 0o1777)
    except FileExistsError:
        pass
    return path


class Lock:
    """One lock file, held by the kernel for as long as this process lives."""

    def __init__(self, directory: str, key: str) -> None:
        self.key = key
        slug = re.sub(r"[^A-Za-z0-9._-]+", "_", key)[-150:]
        self._path = os.path.join(directory, slug + ".lock")
        self._fd = _open_shared(self._path)

    def take(self, holder: dict[str, Any], wait_s: float, gone: Callable[[], bool] = lambda: False) -> None:
        """Hold it from now on.

        A holder that is already ending its server is waited for; any other for at most ``wait_s``, and nobody
        once ``gone`` says that the lock is not wanted any more.

        Raises:
            Busy: it stayed taken.
        """
        start = time.monotonic()
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                other = self._read()
                limit = max(wait_s, 90.0) if other.get("ending") else wait_s
                if time.monotonic() - start >= limit or gone():
                    raise Busy(self.key, other) from None
                time.sleep(0.2)
        self.write(holder)

    def write(self, holder: dict[str, Any]) -> None:
        """Say who holds it; only the holder may. What holds it is the kernel: a full disk only keeps the name back."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, json.dumps(holder).encode(), 0)

    def _read(self) -> dict[str, Any]:
        try:
            holder = json.loads(os.pread(self._fd, 65536, 0).decode("utf-8", "replace"))
        except ValueError:
            return {}
        return holder if isinstance(holder, dict) else {}

    def drop(self) -> None:
        """Let others have it. The file stays: unlinking it would let two runs lock two files of one name."""
        self.write({})
        os.close(self._fd)


def _open_shared(path: str) -> int:
    """Open a file that other users may have made (Linux refuses O_CREAT on those in a sticky directory)."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        with contextlib.suppress(FileExistsError):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            os.fchmod(fd, 0o666)
            return fd


class Record:
    """The note a supervisor leaves on the host of what it started, removed once that is gone."""

    def __init__(self, directory: str, token: str) -> None:
        self._path = os.path.join(directory, token + ".json")
        me = processes.stat_of(os.getpid())
        self.content: dict[str, Any] = {
            "token": token,
            "keeper": os.getpid(),
            "keeper_start": me.start if me else 0,
            "boot": processes.boot_id(),
        }

    def write(self, **changes: Any) -> None:
        """Add to the note; whole or not at all."""
        self.content.update(changes)
        part = self._path + ".part"
        try:
            with open(part, "w") as file:
                json.dump(self.content, file)
            os.replace(part, self._path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(part)
            raise

    def remove(self) -> None:
        """Nothing of ours is left."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)


def left_over(directory: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records of this user whose supervisor is dead, with their paths."""
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if not name.endswith(".json"):
            continue
        record = _read_record(path)
        if record is not None and not processes.is_same(record["keeper"], record["keeper_start"]):
            yield path, record


def _read_record(path: str) -> dict[str, Any] | None:
    try:
        if os.stat(path).st_uid != os.getuid():
            return None  # another user's: neither ours to trust nor to end
        with open(path) as file:
            record = json.load(file)
        needed: list[tuple[str, type]] = [("token", str), ("keeper", int), ("keeper_start", int)]
        if all(isinstance(record.get(key), kind) for key, kind in needed):
            return dict(record)
    except (OSError, ValueError, AttributeError):
        pass
    return None
