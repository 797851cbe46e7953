"""A build that can be launched: how its servers are started, and what is changed for them beside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from suite import config
from suite.sglang.flags import FlagChangeValue

OWN = "own"
"""How the target's own SGLang is named."""


@dataclass(frozen=True, slots=True)
class Build:
    """One SGLang.

    name: as it was asked for, and as it is told; launch: how its servers are started, ``None``: as the target does;
    flags, env: changes to the target's, for this build alone; lock: what was installed beside it, as pins, where
    this suite installed it; version: of SGLang, where the name tells it.
    """

    name: str
    launch: config.ProcessLaunch | config.DockerLaunch | None = None
    flags: Mapping[str, FlagChangeValue] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    lock: tuple[str, ...] = ()
    version: str = ""

    def on(self, target: config.Target) -> config.Target:
        """The target as this build serves it; arms are laid over what the build changes."""
        changed: dict[str, object] = {
            "flags": {**target.flags, **self.flags},
            "env": {**target.env, **self.env},
        }
        if self.launch is not None:
            changed["launch"] = self.launch
        return target.model_copy(update=changed)
