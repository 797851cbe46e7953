"""A run on a server that is up already: which arm it is, which target's, and what cannot be asked of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pytest
from _pytest.compat import NOTSET

from suite.config import Arm, AttachLaunch, Suite, Target
from suite.describe.draft import gpus_of_running
from suite.describe.table import slug
from suite.foreign import one_line
from suite.hosts import HostError, open_host
from suite.redact import Secret
from suite.servers import what_runs
from suite.session.collection import kind_of
from suite.sglang import server
from suite.sglang.errors import ProbeError
from suite.sglang.server.settings import model_name

_NOT_ASKED = {
    "speedup": "both arms",
    "lossless": "both arms",
    "startup": "a launch of the suite's own",
    "log": "a launch of the suite's own",
}
"""Kinds of scenario that no single running server can answer, and what they need."""
OTHER_ARMS = "other arms"


@dataclass(slots=True)
class Attached:
    """The server as it is: ``target`` has the one arm that runs, and asks for what it was started with."""

    target: Target
    arm: Arm
    url: str
    is_: str
    """What answers there, in words."""

    def arms_for(self, patterns: Iterable[str]) -> list[str]:
        """The arm that runs, if a scenario asks for it by name, or for MTP off or on as it is; else nothing."""
        usual = "mtp-on" if what_runs.speculates(self.arm) else "mtp-off"
        fits = any(pattern == usual or fnmatchcase(self.arm.name, pattern) for pattern in patterns)
        return [self.arm.name] if fits else []

    def askable(self, items: Sequence[pytest.Item], kinds: Sequence[str]) -> tuple[list[pytest.Item], str]:
        """The items that this server can answer, and one sentence on it and on what it cannot be asked.

        Args:
            kinds: those of the budget: nothing is said of others.
        """
        kept: list[pytest.Item] = []
        left: dict[str, str] = {}
        asked: set[str] = set()
        for item in items:
            kind = kind_of(item)
            params = getattr(getattr(item, "callspec", None), "params", {})
            if kind in _NOT_ASKED:
                left[kind] = _NOT_ASKED[kind]
            elif kind is not None and params.get("arm") is NOTSET:
                left.setdefault(kind, OTHER_ARMS)
            else:
                kept.append(item)
                asked.add(kind or "")
        return kept, self.sentence({k: why for k, why in left.items() if k in kinds and k not in asked})

    def sentence(self, left: Mapping[str, str]) -> str:
        """What runs, the arm that it is, and the kinds in ``left`` with what they need."""
        by_need: dict[str, list[str]] = {}
        for kind, need in left.items():
            by_need.setdefault(need, []).append(kind)
        told = "; ".join(f"{', '.join(names)} (needs {need})" for need, names in by_need.items())
        cannot = f"; not possible on one running server: {told}" if told else ""
        return f"{self.url}: {self.is_}: measured as arm {self.arm.name} of target {self.target.name}{cannot}"


def look(suite: Suite, target: Target, own: bool) -> Attached | None:
    """What runs at the target's URL; ``None`` where nobody tells: why is said when the run asks again.

    Args:
        own: was the target named by nobody? A server of another model then has a target of its own.
    """
    launch = target.launch
    assert isinstance(launch, AttachLaunch)
    info = _info(suite, target, launch)
    if info is None:
        return None
    arm = what_runs.arm_of(target, info)
    if arm is None:
        return None
    model = str(info.resolved.get("model_path") or target.model)
    if model_name(model)[0] == model_name(target.model)[0]:
        model = target.model  # the same in the target's words
    elif own:
        target = _of_its_own(suite, launch, model, info)
        arm = what_runs.arm_of(target, info) or arm
    flags = what_runs.flags_of(target, info)
    known = target.model_copy(update={"model": model, "flags": flags, "arms": {arm.name: arm}, "nodes": []})
    told = f"SGLang {info.version}, {one_line(model_name(model)[0] or model, 80)}, {info.speculation}"
    return Attached(known, arm, launch.url, told)


def _of_its_own(suite: Suite, launch: AttachLaunch, model: str, info: server.ServerInfo) -> Target:
    return Target(
        name=slug(model),
        description=f"found at {launch.url}",
        model=model,
        launch=launch,
        gpus=gpus_of_running(info.resolved),
        arms=suite.arms,
        budgets=suite.budgets,
        gate=suite.gate,
        default_budget=suite.default_budget,
    )


def _info(suite: Suite, target: Target, launch: AttachLaunch) -> server.ServerInfo | None:
    key = os.environ.get(launch.api_key_env or "")
    try:
        with open_host(suite.host(target.host)) as host:
            return server.read(host.near(launch.url), Secret(key) if key else None)
    except (ProbeError, HostError):
        return None
