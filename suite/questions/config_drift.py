"""What is resolved and installed, against the newest baseline of the same arm: a finding, and a likely cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite.gate import BaselineStore
from suite.session.running_arm import RunningArm
from suite.sglang import config_diff

MEASURED = frozenset({"decode_cuda_graphs"})
"""Of a subject, what is known only after something was measured."""


class ConfigDrift:
    """Compares a server with what the target's baselines were recorded on."""

    def __init__(self, store: BaselineStore, facts: Callable[[RunningArm], dict[str, Any]]) -> None:
        self._store = store
        self._facts = facts

    def since(self, served: RunningArm) -> list[str] | None:
        """What has changed, a line each, most telling first; ``None`` where this arm has no baseline."""
        stored, _ = self._store.all()
        of_arm = [
            baseline.current
            for baseline in stored
            if baseline.arm == served.launch_id.arm and not baseline.derived_from
        ]
        if not of_arm:
            return None
        newest = max(of_arm, key=lambda session: session.started_at)
        known = {name: value for name, value in newest.subject.items() if name not in MEASURED}
        return config_diff.drift(known, self._facts(served))
