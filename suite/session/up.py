"""What is up: one server at a time, or in a duet one of each build, of the same arm and launch."""

from __future__ import annotations

from collections.abc import Iterator

from suite.session.plan import LaunchId
from suite.session.running_arm import RunningArm


class Up:
    """The servers that a run has up."""

    def __init__(self, *, duet: bool) -> None:
        self._duet = duet
        self._servers: dict[LaunchId, RunningArm] = {}

    def __contains__(self, launch_id: LaunchId) -> bool:
        return launch_id in self._servers

    def __getitem__(self, launch_id: LaunchId) -> RunningArm:
        return self._servers[launch_id]

    def __iter__(self) -> Iterator[LaunchId]:
        return iter(list(self._servers))

    def __bool__(self) -> bool:
        return bool(self._servers)

    def add(self, running: RunningArm) -> None:
        """It came up."""
        self._servers[running.launch_id] = running

    def take(self, launch_id: LaunchId) -> RunningArm:
        """Its end begins: it is not up any more, whatever comes of that."""
        return self._servers.pop(launch_id)

    def forget(self) -> None:
        """All of them are ended by somebody else."""
        self._servers.clear()

    def in_the_way_of(self, launch_id: LaunchId) -> list[LaunchId]:
        """What must be down before this launch can begin: all but its partner in a duet."""
        return [other for other in self if not (self._duet and _partners(other, launch_id))]


def _partners(one: LaunchId, other: LaunchId) -> bool:
    return (one.arm, one.number) == (other.arm, other.number) and one.build != other.build
