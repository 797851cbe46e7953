"""Taking a run up again: with the options it began with, and only if it is still the same run."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from suite import redact
from suite.config import ConfigError, Target
from suite.gate import Plan
from suite.redact import MASK
from suite.session import journal, stored_runs
from suite.session.entries import Begun
from suite.session.fold import JournalIndex, told
from suite.session.plan import LaunchId
from suite.sglang.flags import FlagChangeValue, parse_change

OPTIONS = {
    "target": "--target",
    "suite_config": "--suite-config",
    "server_url": "--server-url",
    "api_key_env": "--api-key-env",
    "budget": "--budget",
    "launches": "--launches",
    "rounds": "--rounds",
    "concurrency": "--concurrency",
    "contexts": "--contexts",
    "flag": "--flag",
    "keyword": "-k",
    "markexpr": "-m",
    "record_baseline": "--record-baseline",
    "require_baseline": "--require-baseline",
    "accept_regression": "--accept-regression",
    "shard": "--shard",
    "reference": "--reference",
    "candidate": "--candidate",
    "duet": "--duet",
    "promote_on_pass": "--promote-on-pass",
    "why": "--why",
}
"""What decides about a run's plan, and so is kept with it: names in pytest's configuration, and as they are typed."""


def options_of(config: pytest.Config) -> dict[str, Any]:
    """The options that decide about the plan, secrets masked; those that were not given are left out."""
    given = {name: value for name in OPTIONS if (value := config.getoption(name, None))}
    if "flag" in given:
        given["flag"] = [_masked(word) for word in given["flag"]]
    if "@" in str(given.get("server_url", "")):
        given["server_url"] = MASK
    given["paths"] = list(config.args)
    return given


def _masked(word: str) -> str:
    name, _ = parse_change(word)
    secret = redact.is_secret(name)
    return f"{word.partition('=')[0]}={MASK}" if secret and "=" in word else word


def arms_of(target: Target, arms: Sequence[str], extra: Mapping[str, FlagChangeValue]) -> dict[str, str]:
    """What each arm is, as a line: its flags and variables, secrets masked."""
    lines = {}
    for name in arms:
        arm = target.arm(name)
        env = redact.environment(target.arm_env(arm))
        words = [f"{key}={value}" for key, value in sorted(env.items())]
        lines[name] = " ".join([*words, *target.arm_flags(arm).merge(extra).shown()])
    return lines


@dataclass(frozen=True, slots=True)
class Resumption:
    """An earlier run as it was left: its folder, its plan, and what it had come to."""

    folder: Path
    begun: Begun
    told: JournalIndex
    damage: list[str]

    @property
    def done(self) -> frozenset[LaunchId]:
        """Launches that need not be launched again."""
        return frozenset(self.told.complete)

    def restore(self, config: pytest.Config) -> None:
        """Set the options that the run began with.

        Raises:
            ConfigError: one was given otherwise now; the text names each.
        """
        given = options_of(config)
        differing = [
            f"{typed} was {_shown(self.begun.options.get(name))}, is {_shown(given.get(name))}"
            for name, typed in OPTIONS.items()
            if name in given and given[name] != self.begun.options.get(name)
        ]
        if differing:
            raise ConfigError(
                f"--resume {self.begun.run_id}: these are not the options it began with; leave them out: "
                + "; ".join(differing)
            )
        hidden = [typed for name, typed in OPTIONS.items() if MASK in str(self.begun.options.get(name, ""))]
        if missing := [typed for typed in hidden if _name(typed) not in given]:
            raise ConfigError(
                f"--resume {self.begun.run_id}: it began with a secret, which is kept nowhere; give it again: "
                + ", ".join(missing)
            )
        for name in OPTIONS:
            if name in self.begun.options and name not in given:
                setattr(config.option, name, self.begun.options[name])
        if not config.option.file_or_dir:
            config.args = list(self.begun.options.get("paths", config.args))
        config.option.results = str(self.folder.resolve().parent)

    def must_be(self, target: str, plan: Plan, arms: Mapping[str, str], items: Sequence[str]) -> None:
        """The same target, plan, arms and items as when it began.

        Args:
            items: ids of all that is selected now; more than in the plan is no matter.

        Raises:
            ConfigError: something differs; the text says what.
        """
        before = self.begun
        found = [
            f"{what} was {_shown(old)}, is {_shown(new)}"
            for what, old, new in (("target", before.target, target), ("plan", before.plan, plan))
            if old != new
        ]
        for arm, line in before.arms.items():
            if arms.get(arm) != line:
                found.append(f"arm {arm}: {_words(line, arms.get(arm, ''))}")
        gone = [item for item in before.items if item not in set(items)]
        if gone:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            found.append(f"not selected or not there any more: {gone[0]}{more}")
        if found:
            raise ConfigError(
                f"--resume {before.run_id}: it cannot go on, it would be another run: " + "; ".join(found)
            )


def _name(typed: str) -> str:
    return next(name for name, word in OPTIONS.items() if word == typed)


def _shown(value: object) -> str:
    return "not given" if value is None else str(value)


def _words(old: str, new: str) -> str:
    """What was taken from a line and what was added, word by word."""
    told = [word for word in difflib.ndiff(old.split(" "), new.split(" ")) if word[0] in "+-"]
    gone = " ".join(word[2:] for word in told if word[0] == "-")
    come = " ".join(word[2:] for word in told if word[0] == "+")
    return f"was {gone or '(nothing)'}, is {come or '(nothing)'}"


def resumption(run: str, results: Path) -> Resumption:
    """Read the run that ``--resume`` names.

    Raises:
        ConfigError: it cannot be taken up again, and why.
        StoredFileError: there is no such run, or nothing of it can be read.
    """
    folder = stored_runs.find(run, results)
    path = folder / journal.NAME
    if not path.exists():
        raise ConfigError(
            f"--resume {run}: {folder} has no {journal.NAME}: written by an older suite, or imported"
        )
    found = journal.read(path)
    if found.begun is None:
        raise ConfigError(
            f"--resume {run}: the line of its plan is lost ({'; '.join(found.damage)}); "
            f"judge what is there: python -m suite judge {folder}"
        )
    return Resumption(folder, found.begun, told(found.entries), found.damage)
