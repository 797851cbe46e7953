"""A running arm as scenarios see it: what it was asked for, what it resolved to, and how to reach it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from suite.config import Arm, Target
from suite.load import Endpoint
from suite.plan import Slot
from suite.probes import server as server_probe
from suite.probes.errors import MetricsDisabled
from suite.probes.server import Counters, ServerInfo
from suite.recording import Played
from suite.servers import Server


@dataclass(eq=False)
class Served:
    """One launch of one arm, up and ready."""

    target: Target
    arm: Arm
    slot: Slot
    server: Server
    played: dict[str, Played] = field(default_factory=dict)
    """What this launch has been asked and measured, so that no scenario asks it again."""

    @cached_property
    def info(self) -> ServerInfo:
        """The resolved configuration, read once after the server became ready."""
        return server_probe.read(self.server.base_url, api_key=self.server.api_key)

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where requests go; the model is the one the server names first."""
        return Endpoint(base_url=self.server.base_url, api_key=self.server.api_key)

    @property
    def asks_for_speculation(self) -> bool:
        """Does this arm ask for speculation? Steps alone do not: SGLang ignores them."""
        return "speculative-algorithm" in self.server.flags

    @property
    def asked(self) -> str:
        """The speculative part of what was asked, in words, for messages."""
        if self.asks_for_speculation:
            return f"--speculative-algorithm {self.server.flags['speculative-algorithm']} was given"
        half = [f"--{name}" for name in self.server.flags if name.startswith("speculative-")]
        return "--speculative-algorithm was not given" + (f" (only {', '.join(half)})" if half else "")

    @cached_property
    def not_as_asked(self) -> list[str]:
        """Every way in which the resolved configuration differs from what the arm asks for, a sentence each.

        Speculative flags that SGLang ignores because no algorithm is given are not among them: an arm that has
        such flags asks for just that.
        """
        wrong = [
            difference.sentence
            for difference in server_probe.took_effect(self.server.flags, self.info)
            if self.asks_for_speculation or not difference.flag.startswith("speculative-")
        ]
        algorithm = self.info.speculation.algorithm
        if algorithm is not None and not self.asks_for_speculation:
            wrong.append(f"speculative_algorithm is {algorithm} although {self.asked}")
        return wrong

    def counters(self) -> Counters | None:
        """The server's own counters now; ``None`` when it was started without ``--enable-metrics``."""
        try:
            return server_probe.counters(self.server.base_url, self.info.version, api_key=self.server.api_key)
        except MetricsDisabled:
            return None
