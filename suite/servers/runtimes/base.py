"""What a runtime is: a plan of commands for one launch, what is done around all launches, and how its SGLang is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from suite import config, redact
from suite.hosts import Host
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


@dataclass(frozen=True, slots=True)
class Runtime:
    """How the server of a target is launched, and how its SGLang is asked without launching one.

    ``interpreter`` leads to it, behind the words of ``leading`` (``uv run``); ``None`` where nothing does. ``base`` and
    ``variables`` are flags and environment that are there before the target's and the arm's (a systemd unit's).
    ``enter`` are commands that make room before the first launch, ``leave`` those that put back what was there,
    whatever happened in between. Doctor, witnesses and the names of builds all ask this way.
    """

    target: config.Target
    host: Host
    interpreter: str | None = None
    module: str = "sglang.launch_server"
    cwd: str | None = None
    base: Flags = field(default_factory=Flags)
    variables: Mapping[str, str] = field(default_factory=dict)
    leading: tuple[str, ...] = ()
    enter: Sequence[Sequence[str]] = ()
    leave: Sequence[Sequence[str]] = ()

    def plan(self, asked: LaunchRequest) -> LaunchPlan:
        """The commands of one launch."""
        raise NotImplementedError(f"{self.target.name}: its server is launched by somebody else")

    @property
    def attached(self) -> bool:
        """Is the server somebody else's? Then nothing is launched, and its host may not be known."""
        return isinstance(self.target.launch, config.AttachLaunch)

    @property
    def simulated(self) -> bool:
        """Is the server this suite's simulator?"""
        return self.module == "simulator"

    def env(self, arm: config.Arm | None = None) -> dict[str, str]:
        """The variables that a server of ``arm`` (of any) is started with."""
        return {**self.variables, **self.target.arm_env(arm or config.Arm())}

    def flags(self, arm: config.Arm) -> Flags:
        """What SGLang would be asked in ``arm``."""
        return self.base.merge(self.target.arm_flags(arm))

    def python(self, env: Mapping[str, str]) -> list[str] | None:
        """The words that lead to an interpreter that sees ``env``; into the image, where it is one."""
        return [*self.leading, self.interpreter] if self.interpreter else None

    def path(self, text: str) -> str:
        """A file of ``suite.toml`` as the host needs it: relative to the server's working directory."""
        return str(PurePosixPath(self.cwd or ".") / text)

    def command(self, text: str) -> str:
        """A command of ``suite.toml`` as the host needs it: a bare name is looked for along PATH."""
        return self.path(text) if "/" in text else text


def secrets_apart(env: Mapping[str, str], flags: Flags) -> tuple[dict[str, str], dict[str, str]]:
    """Variables that may stand on a command line, and those whose values may not.

    A variable is secret by its name, or because a secret flag got its value from it.
    """
    known = [secret for secret in flags.secrets() if secret]
    secret = {n: v for n, v in env.items() if redact.is_secret(n) or any(s in v for s in known)}
    return {name: value for name, value in env.items() if name not in secret}, secret
