"""Names of SGLang builds: releases, nightlies, places between tags, image tags with dates; and which is the newer.

Seen in public: wheels like ``0.5.24.dev20261130+g5e2cda61``, image tags like ``v0.5.23-cu129`` and
``nightly-dev-20251208-5e2cda61``, ``git describe``'s ``v0.5.23-12-g5e2cda61``, and inside nightly images
``0.0.0.dev1+gd91c3682b``, which names a commit and no place in time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from packaging.version import InvalidVersion, Version

Kind = Literal["release", "nightly", "between tags", "commit", "unknown"]

_DATE = re.compile(r"(?<!\d)(20\d\d)-?([01]\d)-?([0-3]\d)(?!\d)")
_DESCRIBED = re.compile(r"^v?(?P<tag>\d[^-]*)-(?P<distance>\d+)-g(?P<commit>[0-9a-f]{7,40})$")
_RELEASE = re.compile(r"^v?(\d+(?:\.\d+)+(?:(?:a|b|rc|\.post)\d+)*)(?:-.*)?$")
_COMMIT = re.compile(r"(?:^|[+_.-])g?([0-9a-f]{7,40})$")


@dataclass(frozen=True, slots=True)
class BuildName:
    """What a build's name tells: its release or the one it comes after or before, commits since, day, and commit."""

    text: str
    version: Version | None = None
    distance: int = 0
    date: str | None = None
    commit: str | None = None

    @property
    def kind(self) -> Kind:
        """What sort of build this is."""
        if self.distance:
            return "between tags"
        if self.date is not None:
            return "nightly"
        if self.version is not None:
            return "release"
        return "commit" if self.commit else "unknown"


def read(text: str) -> BuildName:
    """A build by its name: a version, a requirement (``sglang==0.5.23``), an image reference, or what git describes."""
    name = text.strip().rpartition("==")[2]
    name = name.partition("@")[0]
    if re.search(r"[/:]", name):
        name = name.rpartition("/")[2].rpartition(":")[2]
    described = _DESCRIBED.match(name)
    if described:
        return BuildName(
            text, _version(described["tag"]), int(described["distance"]), None, described["commit"]
        )
    commit = _COMMIT.search(name)
    version = _version(name)
    if version is not None and version.is_devrelease:
        day = _DATE.search(str(version.dev))
        hashed = _COMMIT.search(version.local or "")
        at = None if version.release == (0, 0, 0) else Version(version.public)
        return BuildName(text, at, 0, _day(day), hashed[1] if hashed else None)
    if version is not None:
        return BuildName(text, version)
    dated = _DATE.search(name)
    if dated:
        return BuildName(
            text, None, 0, _day(dated), commit[1] if commit and commit[1] not in dated[0] else None
        )
    released = _RELEASE.match(name)
    if released:
        return BuildName(text, _version(released[1]))
    return BuildName(text, None, 0, None, commit[1] if commit else None)


def compared(old: tuple[str | None, str | None], new: tuple[str | None, str | None]) -> str | None:
    """The page on which GitHub lists the commits from one build to the next, each by name and commit; None if it cannot."""
    before, after = _reference(*old), _reference(*new)
    if before is None or after is None or before == after:
        return None
    return f"https://github.com/sgl-project/sglang/compare/{before}...{after}"


def _reference(name: str | None, commit: str | None) -> str | None:
    """What git knows a build by: its commit, else a release's tag."""
    known = read(name) if name else None
    if commit and re.fullmatch(r"[0-9a-f]{7,40}", commit):
        return commit
    if known is not None and known.commit:
        return known.commit
    return f"v{known.version}" if known is not None and known.kind == "release" else None


def in_order(names: Iterable[str]) -> list[str]:
    """Oldest first. Versions by version, then dated names by date, then what names do not order, as it came."""
    builds = [read(name) for name in names]
    versions = sorted(
        (b for b in builds if b.version is not None), key=lambda b: (b.version, b.distance, b.date or "")
    )
    dated = sorted((b for b in builds if b.version is None and b.date), key=lambda b: b.date or "")
    rest = [b for b in builds if b.version is None and not b.date]
    return [build.text for build in (*versions, *dated, *rest)]


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _day(found: re.Match[str] | None) -> str | None:
    return "-".join(found.groups()) if found else None
