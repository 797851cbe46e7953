"""The builds between a good and a bad one, in order: releases, nightlies, commits, or names that suite.toml declares."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Sequence
from pathlib import Path

from suite import builds, config
from suite.builds import BuildError, environments
from suite.foreign import one_line
from suite.sglang import builds as names

MOST = 4096
"""Builds in a row: 14 sessions at most."""


def between(
    good: str, bad: str, named: Sequence[str], suite: config.Suite, target: config.Target
) -> list[str]:
    """The row from `good` to `bad`, both included; `named`: the builds between, where a list is given.

    Raises BuildError where the two are of different kinds, in the wrong order, or nothing tells what lies between.
    """
    directory = suite.path.resolve().parent
    old, new = (builds.read(text, target, directory) for text in (good, bad))
    if named:
        for text in named:
            builds.read(text, target, directory)
        row = [good, *(text for text in named if text not in (good, bad)), bad]
    elif {good, bad} <= target.builds.keys():
        row = _declared(good, bad, list(target.builds))
    elif old.version and new.version:
        row = _releases(good, bad, old.version, new.version)
    elif old.nightly and new.nightly:
        row = _days(old.nightly, new.nightly)
    elif old.checkout and old.checkout == new.checkout:
        row = _commits(Path(old.checkout), old.commit or "HEAD", new.commit or "HEAD")
    else:
        raise BuildError(
            f"what lies between {one_line(good, 60)} and {one_line(bad, 60)} is not known: name two releases, two "
            "nightlies, two commits of one checkout or two names of suite.toml, or list the builds with --builds"
        )
    if len(row) > MOST:
        raise BuildError(f"{len(row)} builds lie between, and {MOST} are searched: name ends that are nearer")
    return row


def _declared(good: str, bad: str, order: list[str]) -> list[str]:
    first, last = order.index(good), order.index(bad)
    if first >= last:
        raise BuildError(
            f"{bad} is declared before {good}: builds are searched in the order in which suite.toml declares them"
        )
    return order[first : last + 1]


def _releases(good: str, bad: str, old: str, new: str) -> list[str]:
    versions = {text: names.read(text).version for text in environments.versions()}
    low, high = names.read(old).version, names.read(new).version
    if low is None or high is None or low >= high:
        raise BuildError(f"{bad} is not a later release than {good}")
    inside = [
        text for text, v in versions.items() if v is not None and low < v < high and not v.is_prerelease
    ]
    return [good, *(f"sglang=={text}" for text in names.in_order(inside)), bad]


def _days(old: str, new: str) -> list[str]:
    first, last = (_day(text) for text in (old, new))
    if first >= last:
        raise BuildError(f"the nightly of {new} is not later than that of {old}")
    there = {names.read(text).date for text in environments.versions("--pre")}
    days = [str(first + datetime.timedelta(days=n)) for n in range((last - first).days + 1)]
    return [f"nightly:{day}" for day in days if day in there or day in (old, new)]


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise BuildError(f"nightly:{text} is not a date") from None


def _commits(repository: Path, old: str, new: str) -> list[str]:
    """First parents only: each is a state that was the branch's once."""
    done = subprocess.run(
        [
            "git",
            "-C",
            str(repository),
            "rev-list",
            "--first-parent",
            "--reverse",
            "--end-of-options",
            f"{old}..{new}",
        ],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{repository}: git rev-list {old}..{new}: {one_line(done.stderr)}")
    found = done.stdout.split()
    if not found:
        raise BuildError(f"{repository}: {new} is not later than {old}: no commit lies between")
    return [f"{repository}@{old}", *(f"{repository}@{commit}" for commit in found)]
