"""A running arm as scenarios see it: what it was asked for, what it resolved to, and how to reach it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import cached_property

import pytest

from suite.config import Arm, Target
from suite.load import Endpoint, Workload, cache, contexts
from suite.servers import Server, ServerDied
from suite.session.host_evidence import HostEvidence
from suite.session.outcomes import BrokenPromise
from suite.session.plan import LaunchId
from suite.session.recording import WorkloadResult
from suite.session.steadiness import must_be_empty, must_be_idle
from suite.session.witnesses import OnDisk
from suite.sglang import server as server_probe
from suite.sglang import speculation_sources
from suite.sglang.errors import MetricsDisabled
from suite.sglang.server import Counters, ServerInfo

DEATH_SEEN_S = 2.0
"""A server that died answers nobody at once; that it died is known a moment later."""


@dataclass(eq=False)
class RunningArm:
    """One launch of one arm, up and ready."""

    target: Target
    arm: Arm
    launch_id: LaunchId
    server: Server
    number: int = 0
    """Which launch of the run this is, from 1."""
    played: dict[str, WorkloadResult] = field(default_factory=dict)
    """What this launch has been asked and measured, so that no scenario asks it again."""
    contexts: dict[int, Workload] = field(default_factory=dict)
    """Long prompts by their tokens, as this server counts them."""
    files: HostEvidence | None = None
    """What can be read on its host."""
    doing: str = "nothing yet"
    """What it is being asked, for whoever must say what it died of."""
    ready_at: float = field(default_factory=time.monotonic)

    def check(self, when: str = "while") -> None:
        """Raise ServerDied if the server is gone, with what it was doing; costs no request."""
        try:
            self.server.check()
        except ServerDied as death:
            lived = f"{time.monotonic() - self.ready_at:.0f} s after it was ready"
            summary = f"{death.summary} ({when} {self.doing}, {lived})"
            raise ServerDied(summary, death.advice, death.evidence) from death.__cause__

    def must_live(self) -> None:
        """Raise ServerDied if the server is gone, or is found to be within a moment: its end is not seen at once."""
        deadline = time.monotonic() + DEATH_SEEN_S
        while True:
            self.check()
            if time.monotonic() > deadline:
                return
            time.sleep(0.1)

    @cached_property
    def info(self) -> ServerInfo:
        """The resolved configuration, read once after the server became ready."""
        return server_probe.read(self.server.base_url, api_key=self.server.api_key)

    def fresh_info(self) -> ServerInfo:
        """What the server says of itself now, averages and states included."""
        return server_probe.read(self.server.base_url, api_key=self.server.api_key)

    @cached_property
    def endpoint(self) -> Endpoint:
        """Where requests go; the model is the one the server names first."""
        return Endpoint(
            base_url=self.server.base_url,
            api_key=self.server.api_key,
            admin_api_key=self.server.admin_api_key,
        )

    @property
    def asks_for_speculation(self) -> bool:
        """Does this arm ask for speculation? Steps alone do not: SGLang ignores them."""
        return speculation_sources.asked_by(self.server.flags) is not None or self._asking_file is not None

    @property
    def asked(self) -> str:
        """The speculative part of what was asked, in words, for messages."""
        if flag := speculation_sources.asked_by(self.server.flags):
            return f"--{flag} {self.server.flags[flag]} was given"
        if self._asking_file:
            return f"--config {self.server.flags['config']} holds {self._asking_file!r}"
        half = [f"--{name}" for name in self.server.flags if name.startswith("speculative-")]
        return "--speculative-algorithm was not given" + (f" (only {', '.join(half)})" if half else "")

    @cached_property
    def _config_text(self) -> str | None:
        return self.files.config_text(self.server.flags) if self.files else None

    @property
    def _asking_file(self) -> str | None:
        return speculation_sources.in_file(self._config_text) if self._config_text is not None else None

    @cached_property
    def origins(self) -> list[str]:
        """Every place that could have switched speculation on in this server, a sentence each."""
        plugins = self.files.plugins() if self.files else ()
        sites = [site for site in (self.files.activations() if self.files else ()) if site not in plugins]
        inherited = os.environ if self.target.host == "local" else {}
        env = {**inherited, **self.server.env}
        return speculation_sources.named(self.server.flags, env, self._config_text, plugins, sites)

    @cached_property
    def on_disk(self) -> OnDisk:
        """What the checkpoint and the installed source say about speculation."""
        if self.files is None:
            return OnDisk(None, "not looked at", None, "not looked at")
        flags = self.server.flags
        return self.files.on_disk(str(flags["model-path"]), str(flags.get("revision", "")))

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

    @property
    def max_running_requests(self) -> int:
        """How many requests it runs at once.

        Raises:
            BrokenPromise: it does not say.
        """
        limit = self.info.resolved.get("max_running_requests")
        if not isinstance(limit, int):
            raise BrokenPromise(
                "/server_info does not say max_running_requests: pin it with --max-running-requests"
            )
        return limit

    @property
    def start_seconds(self) -> dict[str, float]:
        """How long it took to be ready, and each phase of that; empty for a server that somebody else started."""
        if self.server.ready_s is None:
            return {}
        phases = {
            name.replace(" ", "_"): round(seconds, 3) for name, seconds in (self.server.phases or {}).items()
        }
        return {"ready_s": round(self.server.ready_s, 3), **phases}

    @property
    def memory(self) -> dict[str, float | int | None]:
        """Tokens that the KV cache holds, and what memory the server says it gave to weights and cache (GB)."""
        usage = self.info.states[0].get("memory_usage") if self.info.states else None
        told = usage if isinstance(usage, dict) else {}
        return {
            "kv_tokens": self.info.token_capacity,
            "weights_gb": told.get("weight"),
            "kv_cache_gb": told.get("kvcache"),
        }

    def needs_prefix_cache(self) -> None:
        """Skip what cannot be seen where the prefix cache is off."""
        if self.info.resolved.get("disable_radix_cache") is True:
            pytest.skip(
                "the prefix cache of this server is off (--disable-radix-cache): there is nothing to reuse"
            )

    def fill(self, share: float, clients: int) -> tuple[Workload, int]:
        """Prompts, and a length of answers, with which ``clients`` hold ``share`` of the KV cache at their ends.

        Raises:
            BrokenPromise: the server does not say how much it holds.
        """
        capacity = self.info.token_capacity
        if capacity is None:
            raise BrokenPromise("/server_info does not say how many tokens the KV cache holds")
        each = int(share * capacity / clients)
        answer = max(32, each // 4)
        prompt = each - answer
        if prompt not in self.contexts:
            self.contexts[prompt] = contexts.of_tokens(self.endpoint, prompt, prompts=1)
        return self.contexts[prompt], answer

    def must_give_everything_back(self, after: str) -> None:
        """Assert that no request runs on and no KV cache stays in use once all clients are gone."""
        must_be_idle(self.counters, after)
        cache.flush(self.endpoint)
        must_be_empty(self.counters, after)

    def counters(self) -> Counters | None:
        """The server's own counters now; ``None`` when it was started without ``--enable-metrics``."""
        try:
            return server_probe.counters(self.server.base_url, self.info.version, api_key=self.server.api_key)
        except MetricsDisabled:
            return None
