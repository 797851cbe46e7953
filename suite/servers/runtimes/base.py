"""What a way to launch is: a plan of commands for one launch, and what must be done around all launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from suite import redact
from suite.sglang.flags import Flags


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What one launch shall be: ``flags`` with host and port in them, ``env`` on top of the host's own."""

    flags: Flags
    env: Mapping[str, str]
    token: str
    target: str
    arm: str


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The commands of one launch, as ``on_host/job.py`` runs them.

    ``stages`` follow one another, the last is watched. ``end`` and ``kill`` are empty when the server is
    that last process itself; else they end it by name, kindly and at once. ``shown`` is the server's command
    line for people, secrets masked.
    """

    stages: list[list[str]]
    shown: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    status: list[str] | None = None
    end: list[list[str]] = field(default_factory=list)
    kill: list[list[str]] = field(default_factory=list)

    def spec(self) -> dict[str, Any]:
        """As the supervisor takes it."""
        return {
            "stages": self.stages,
            "shown": " ".join(self.shown),
            "env": dict(self.env),
            "cwd": self.cwd,
            "status": self.status,
            "end": self.end,
            "kill": self.kill,
        }


class Way(Protocol):
    """A way to launch."""

    enter: list[list[str]]
    """Commands that make room before the first launch."""

    leave: list[list[str]]
    """Commands that put back what was there, whatever happened in between."""

    base: Flags
    """Flags that are there before the target's and the arm's: those of a unit."""

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        """The commands of one launch."""


def secrets_apart(env: Mapping[str, str], flags: Flags) -> tuple[dict[str, str], dict[str, str]]:
    """Variables that may stand on a command line, and those whose values may not.

    A variable is secret by its name, or because a secret flag got its value from it.
    """
    known = [secret for secret in flags.secrets() if secret]
    secret = {n: v for n, v in env.items() if redact.is_secret(n) or any(s in v for s in known)}
    return {name: value for name, value in env.items() if name not in secret}, secret
