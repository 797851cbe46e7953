"""What a release of SGLang can tell of speculation: the one table by version; a development build is no release."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version


@dataclass(frozen=True, slots=True)
class Ability:
    """Something that SGLang tells from ``since`` on; ``what`` completes "it reports no ..."."""

    what: str
    since: str


OLDEST_READ = "0.5.9"
"""The oldest release whose source this suite's facts were read in."""

SPEC_IN_ANSWERS = Ability("speculative work in its answers (sglext.spec_tokens_details)", "0.5.19")
VERIFY_COUNTER = Ability("counter of verify steps (sglang:spec_verify_calls_total)", "0.5.13")
"""Read in the published packages 0.5.9 to 0.5.23 and tried on those that run on a CPU."""


_COMMIT = re.compile(r"(^|\.)(g[0-9a-f]{6,}|d\d{8}|dirty)(\.|$)")
"""In a local version: a commit, or a tree with changes; ``cu128`` is neither."""


def version_of(text: str | None) -> Version | None:
    """``text`` as a version; ``None`` for what names none: ``unknown``, an image's tag, a checkout without tags."""
    try:
        version = Version(text or "")
    except InvalidVersion:
        return None
    # without tags a checkout calls itself 0.0.0.dev1+gHASH; a date is no release either
    return version if (0, 0, 0) < version.release < (1000,) else None


def has(version: str | None, since: str) -> bool | None:
    """Is what came with ``since`` in ``version``? ``None`` where nobody can know.

    A development build or release candidate of X holds what came before X; of what came with X it may hold
    anything, and of anything later nothing is claimed: a fork or a patched image keeps its old name. A checkout some
    commits after X (``0.5.18.post3+g1a2b3c4``) holds what came with X, and maybe more.
    """
    found, first = version_of(version), Version(since)
    if found is None:
        return None
    if not found.is_prerelease and _COMMIT.search(found.local or ""):
        return True if found >= first else None
    if not found.is_prerelease:
        return found >= first
    return True if Version(found.base_version) > first else None


def can(version: str | None, ability: Ability) -> bool | None:
    """Does a server of ``version`` tell it? ``None`` where nobody can know."""
    return has(version, ability.since)


def silence(version: str | None, ability: Ability) -> str | None:
    """Why a server of ``version`` may not tell it, for people; ``None`` where it would.

    Of releases is spoken only where ``version`` is one.
    """
    able = can(version, ability)
    if able:
        return None
    if able is False:
        return f"SGLang {version} reports no {ability.what}; it does from {ability.since} on"
    return (
        f"no {ability.what} reported, and whether SGLang {version or 'of unknown version'} would is not known"
    )
