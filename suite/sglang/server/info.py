"""``/server_info`` as one typed value: version, resolved settings, speculation; absent is not null."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from suite import redact
from suite.foreign import one_line
from suite.redact import Secret
from suite.sglang import http
from suite.sglang.errors import (
    ServerKeyRefused,
    ServerNotReady,
    ServerProbeError,
    ServerUnreachable,
    UnreadableServer,
)
from suite.sglang.server import identify, settings

_NOT_SETTINGS = frozenset(
    {"internal_states", "version", "frontend", "status", "startup_time", "launch_command", "kv_events"}
    | {"max_total_num_tokens", "max_req_input_len", "hicache_object_layout", "world_size"}
)
"""What /server_info puts beside the settings: the state of this one life of the server."""

_DEPTH = frozenset({"speculative_num_steps", "speculative_num_draft_tokens"})
"""What an adaptive server changes as it runs: a scheduler's value of the moment is no setting."""


@dataclass(frozen=True, slots=True)
class Speculation:
    """How the server speculates.

    ``known`` is false when /server_info has no ``speculative_algorithm`` at all: then nothing is known,
    which is not the same as off (``algorithm`` is ``None`` and ``known`` is true). With ``adaptive`` the server
    changes its depth while it runs: ``num_steps`` and ``draft_tokens`` are where it starts, ``steps_now`` where a
    scheduler stood when it was asked, and what is proposed is reported by the start's depth.
    """

    known: bool
    algorithm: str | None
    num_steps: int | None
    topk: int | None
    draft_tokens: int | None
    adaptive: bool = False
    steps_now: int | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any], steps_now: int | None = None) -> Speculation:
        """What some settings say; a key that is not there makes ``known`` false."""
        get = settings.get
        algorithm = get("speculative_algorithm")
        return cls(
            known="speculative_algorithm" in settings,
            # SGLang itself writes null for off; "NONE" is its enum's name for the same
            algorithm=None if algorithm in (None, "", "NONE") else str(algorithm),
            num_steps=get("speculative_num_steps"),
            topk=get("speculative_eagle_topk"),
            draft_tokens=get("speculative_num_draft_tokens"),
            adaptive=get("speculative_adaptive") is True,
            steps_now=steps_now,
        )

    @property
    def on(self) -> bool:
        """Does the server say that it speculates?"""
        return self.algorithm is not None

    def __str__(self) -> str:
        if not self.known:
            return "speculation unknown: /server_info has no speculative_algorithm"
        if not self.on:
            return "speculation off"
        if self.adaptive:
            now = "" if self.steps_now is None else f", at {self.steps_now} when asked"
            return f"{self.algorithm}, adaptive: from {self.num_steps} steps on as it sees fit{now}, topk {self.topk}"
        steps = f"{self.num_steps} step{'' if self.num_steps == 1 else 's'}"
        return f"{self.algorithm}, {steps}, topk {self.topk}, {self.draft_tokens} draft tokens"


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server answered to /server_info.

    ``resolved`` are the settings in force, flattened (``cuda_graph_config.decode.max_bs``); where the
    scheduler's own state (``internal_states[0]``) has another value than the front end, the scheduler's
    is in ``resolved``. ``states`` are the schedulers' states, one per data-parallel rank. Secrets are masked.
    """

    url: str
    version: str
    resolved: Mapping[str, Any]
    state: Mapping[str, Any]
    states: tuple[Mapping[str, Any], ...]

    def absent(self, setting: str) -> bool:
        """Is ``setting`` not reported at all, by this name? (Reported as null is not absent.)"""
        return setting not in self.resolved

    @property
    def speculation(self) -> Speculation:
        """The speculative settings in force."""
        stands = self.states[0].get("speculative_num_steps") if self.states else None
        return Speculation.of(self.resolved, stands if isinstance(stands, int) else None)

    @property
    def launch_command(self) -> str | None:
        """The command line that the server was started with (0.5.20 and later), secrets masked."""
        command = self.state.get("launch_command")
        return command if isinstance(command, str) else None

    @property
    def rank_capacities(self) -> tuple[int, ...]:
        """How many tokens the KV cache of each data-parallel rank holds; empty when not reported."""
        told = [_table(state.get("memory_usage")).get("token_capacity") for state in self.states]
        of_ranks = tuple(each for each in told if isinstance(each, int))
        first = self.state.get("max_total_num_tokens")
        if isinstance(first, int) and len(of_ranks) < 2:
            ranks = self.resolved.get("dp_size")
            return (first,) * (ranks if isinstance(ranks, int) and ranks > 0 else 1)
        return of_ranks

    @property
    def token_capacity(self) -> int | None:
        """How many tokens the KV caches of all data-parallel ranks hold together; ``None`` when not reported."""
        return sum(self.rank_capacities) or None

    @property
    def accept_lengths(self) -> tuple[float, ...]:
        """``avg_spec_accept_length`` of each data-parallel rank that tells it: lifetime averages, absent at times."""
        told = (state.get("avg_spec_accept_length") for state in self.states)
        return tuple(float(each) for each in told if isinstance(each, int | float))

    @property
    def accept_length_lifetime(self) -> float | None:
        """Mean of :attr:`accept_lengths`, ``None`` where no rank tells."""
        return fmean(self.accept_lengths) if self.accept_lengths else None

    def subject(self) -> dict[str, Any]:
        """What an upgrade changes: ``sglang`` (the version), the front end that answers, and the settings worth storing."""
        front = self.state.get("frontend")
        told = {"frontend": str(front)} if front else {}
        return {"sglang": self.version, **told, **settings.subject(self.resolved)}

    def identity(self) -> dict[str, Any]:
        """What must be equal for two measurements to be comparable: model, revision, parallel sizes, device."""
        return settings.identity(self.resolved)


def read(base_url: str, api_key: Secret | str | None = None, timeout_s: float = 30.0) -> ServerInfo:
    """Ask the server at ``base_url`` (with or without ``/v1``) what it is.

    Raises:
        ServerProbeError: see :mod:`suite.sglang.errors`; the text says what answers there and what to do.
    """
    base = root(base_url)
    for path in ("/server_info", "/get_server_info"):
        text = _text(base, path, api_key, timeout_s)
        if text is not None:
            return parse(text, base + path, secrets=(redact.reveal(api_key),) if api_key else ())
    raise identify.nobody_known(base, api_key)


def _text(base: str, path: str, api_key: Secret | str | None, timeout_s: float) -> str | None:
    """What ``path`` answers, ``None`` for 404; TLS at an http address and gateways told as that."""
    try:
        return http.get(base + path, api_key=api_key, timeout_s=timeout_s)
    except (ServerKeyRefused, ServerNotReady):
        raise
    except ServerProbeError as error:
        found: ServerProbeError | None = identify.wrong_scheme(base)
        if found is None and not isinstance(
            error, ServerUnreachable
        ):  # of one that is silent nothing else is asked
            found = identify.gateway_at(base, api_key, timeout_s)
        raise (found or error) from None


def root(base_url: str) -> str:
    """``base_url`` without a trailing ``/`` or ``/v1``."""
    return re.sub(r"/v1$", "", base_url.rstrip("/"))


def parse(text: str, url: str, secrets: tuple[str, ...] = ()) -> ServerInfo:
    """Read the body of /server_info; ``secrets`` are masked wherever they occur.

    Raises:
        UnreadableServer: not JSON (a proxy's HTML page at 200, say), or without a version.
    """
    data = http.parsed(text, url)
    if (gateway := identify.gateway_of(data, url)) is not None:
        raise gateway
    if not isinstance(data, dict) or not isinstance(data.get("version"), str):
        raise UnreadableServer(f"{url}: the answer is JSON, but not an SGLang server's: it has no 'version'")
    if not identify.is_server(data):
        raise UnreadableServer(
            f"{url}: the answer is JSON with a version ({one_line(data['version'], 40)}), but not an SGLang server's: "
            "it names no model_path"
        )
    redact.learn(*secrets)
    data = redact.masked(data)
    states = data.get("internal_states")
    states = tuple(s for s in states if isinstance(s, dict)) if isinstance(states, list) else ()
    arguments = {key: value for key, value in data.items() if key not in _NOT_SETTINGS}
    if states:
        moving = _DEPTH if data.get("speculative_adaptive") is True else frozenset()
        inner = {key: value for key, value in states[0].items() if key in arguments and key not in moving}
        arguments.update(inner)
    return ServerInfo(
        url=url,
        version=data["version"],
        resolved=flatten(arguments),
        state={
            key: value for key, value in data.items() if key in _NOT_SETTINGS and key != "internal_states"
        },
        states=states,
    )


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def flatten(nested: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Tables within tables as dotted names; an empty table stays as it is."""
    flat: dict[str, Any] = {}
    for key, value in nested.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
