"""What can go wrong with stored measurements, each with a name and with what to do next.

GateError
├── BadMeasurement          a value, series or session that cannot be what it claims to be
├── StoredFileError         a baseline, run or result file that cannot be used
│   ├── MissingFile
│   ├── CorruptFile         truncated or not JSON, or fields of the wrong type
│   ├── ForeignFile         JSON, but not a file of this suite (or not a known result format)
│   └── FutureVersion       written by a newer version of this suite
├── IdentityMismatch        two measurements that must not be compared, with the differing keys
└── WriteFailed             disk full, no permission, a lock held for too long; the old file is untouched
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


class GateError(Exception):
    """Base of every error this room raises; its text says what happened, where, and what to do."""


class BadMeasurement(GateError):
    """A value, series or session that cannot be what it claims to be."""


class StoredFileError(GateError):
    """A stored file that cannot be used; `path` says which."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path}: {what}")
        self.path = path
        self.what = what


class MissingFile(StoredFileError):
    """The file is not there."""


class CorruptFile(StoredFileError):
    """The file is truncated, is not JSON, or has fields of the wrong type."""


class ForeignFile(StoredFileError):
    """The file is readable but is not of a format this suite knows."""


class FutureVersion(StoredFileError):
    """The file was written by a newer version of this suite."""


class WriteFailed(StoredFileError):
    """Nothing was written; what was there before is untouched."""


class IdentityMismatch(GateError):
    """Two measurements differ in what must be equal; `differences` maps key to (theirs, ours)."""

    def __init__(self, what: str, differences: Mapping[str, tuple[object, object]]) -> None:
        super().__init__(f"{what}: {describe_differences(differences)}")
        self.differences = dict(differences)


def describe_differences(differences: Mapping[str, tuple[object, object]]) -> str:
    """`key: baseline value -> value now` for each key, in order of the keys."""
    return "; ".join(f"{key}: {old!r} -> {new!r}" for key, (old, new) in sorted(differences.items()))
