"""A build as a run serves it: one where a run measures one, two where it compares two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

from suite import builds
from suite.config import Suite, Target
from suite.hosts import Host
from suite.servers.runtimes import Runtime, runtime_of
from suite.session.build import BuildUnderTest
from suite.session.host_evidence import HostEvidence
from suite.session.plan import CANDIDATE


class BuildSide:
    """The target as this build serves it, the way to ask it, and what it truly is.

    Args:
        target: with what the build changes.
        host: gives the target's host, opened when first needed.
        directory: the run's own.
        version: of SGLang, where the build's name tells it.
    """

    def __init__(
        self, suite: Suite, target: Target, host: Callable[[], Host], directory: Path, version: str = ""
    ) -> None:
        self.target = target
        self.version = version
        self._suite = suite
        self._host = host
        self.build = BuildUnderTest(lambda: self.runtime, directory)
        self.files = HostEvidence(lambda: self.runtime, self.build)

    @cached_property
    def runtime(self) -> Runtime:
        """How its SGLang is asked.

        Raises:
            HostError: its host cannot be reached.
            ServerError: its systemd unit cannot be read.
        """
        return runtime_of(self._suite, self.target, self._host())


def sides_of(
    suite: Suite,
    target: Target,
    compared: Mapping[str, builds.Build],
    host: Callable[[], Host],
    directory: Path,
) -> dict[str, BuildSide]:
    """By the name of a launch_id's build; of a run that compares none, the target's own under the empty name."""
    served = dict(compared) or {"": builds.Build(builds.OWN)}
    return {
        name: BuildSide(suite, build.on(target).in_run(directory), host, directory, build.version)
        for name, build in served.items()
    }


def under_test(sides: Mapping[str, BuildSide]) -> BuildSide:
    """The side that a run is about: the candidate of two."""
    return sides.get(CANDIDATE) or sides[""]
