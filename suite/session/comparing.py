"""What ``--reference`` and ``--candidate`` say: two builds of one target, and what of the command line goes with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from suite import builds
from suite.builds import KNOWN_GOOD, Build
from suite.config import ConfigError, Suite, Target
from suite.gate import known_good
from suite.session.plan import CANDIDATE, REFERENCE

BUDGET = "upgrade"
"""The budget of a run that compares two builds, where none is named."""
FEWEST = 2
"""Launches of each build without which no figure is judged but by what a launch cannot explain."""

SETTLED = "NO-GO after the first pair of launches: nothing more is launched"
"""Said, and noted in the journal, where later launches of two builds are left out for good."""


@dataclass(frozen=True, slots=True)
class Comparing:
    """The two builds as they were asked for."""

    suite: Suite
    target: Target
    results: Path
    asked: dict[str, str]

    def check(self) -> None:
        """See that both names can be read, before anything is looked up or installed.

        Raises:
            BuildError: one is none.
        """
        for text in self.asked.values():
            if text != KNOWN_GOOD or KNOWN_GOOD in self.target.builds:
                builds.read(text, self.target, self.suite.path.resolve().parent)

    def resolved(self, say: Callable[[str], None]) -> dict[str, Build]:
        """Both, ready to be launched, by the names of their slots; what is missing is installed.

        Raises:
            BuildError: one of them cannot be had.
            GateError: no build has passed yet that could be the known good one.
        """
        return {
            name: builds.resolve(text, self.suite, self.target, say, self._known_good)
            for name, text in self.asked.items()
        }

    def _known_good(self) -> builds.Table:
        return known_good.build_of(known_good.load(self.results, self.target.name))


def asked(config: pytest.Config, suite: Suite, target: Target) -> Comparing | None:
    """What the options say of two builds; ``None`` where they name none.

    Raises:
        ConfigError: only one is named, or what does not go with two is asked for.
        BuildError: one of them is no build.
    """
    reference, candidate = config.getoption("--reference"), config.getoption("--candidate")
    if reference is None and candidate is None:
        for option in ("--promote-on-pass", "--duet", "--why"):
            if config.getoption(option):
                raise ConfigError(f"{option} needs --reference and --candidate")
        return None
    if reference is None or candidate is None:
        there, missing = (
            ("--candidate", "--reference") if reference is None else ("--reference", "--candidate")
        )
        raise ConfigError(f"{there} compares two builds: name the other with {missing} (own: the target's)")
    for option in ("--server-url", "--record-baseline", "--aa"):
        if config.getoption(option):
            raise ConfigError(
                f"{option} does not go with --reference and --candidate, which compare two builds"
            )
    found = Comparing(
        suite,
        target,
        config.rootpath / config.getoption("--results"),
        {REFERENCE: reference, CANDIDATE: candidate},
    )
    found.check()
    return found
