"""Where requests go and how they are sampled: the two things every request of a round has in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from suite.foreign import one_line
from suite.load.reading import AVAILABLE
from suite.load.records import LoadError
from suite.redact import Secret
from suite.sglang.proxies import proxy_for

TransportName = Literal["auto", "stamping", "public"]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible server.

    `base_url` with or without the `/v1` that the API lives under. `model` None asks the server for its first model.
    `transport` is the one switch for how bytes arrive: "stamping" is this package's own (Linux, plain http, no proxy),
    "public" the openai package's aiohttp transport (TLS, proxies, anything), "auto" the first where it can be used.
    `admin_api_key` is what a server with --admin-api-key takes for /flush_cache, and nowhere else.
    """

    base_url: str
    model: str | None = None
    api_key: Secret | str | None = field(default=None, repr=False)
    admin_api_key: Secret | str | None = field(default=None, repr=False)
    api: Literal["chat", "completions"] = "chat"
    transport: TransportName = "auto"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("api_key", "admin_api_key"):
            if isinstance(key := getattr(self, name), str):
                object.__setattr__(self, name, Secret(key))
        try:
            parts = urlsplit(self.base_url)
            _ = parts.port
        except ValueError as error:
            raise LoadError(f"{one_line(self.base_url)!r} is not a server's address: {error}") from None
        if "@" in parts.netloc:
            raise LoadError(
                "credentials do not belong into a server's address: give them as api_key or as a header"
            )
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LoadError(
                f"{one_line(self.base_url)!r} is not a server's address; expected something like http://127.0.0.1:30000"
            )
        if self.transport == "stamping" and not (AVAILABLE and parts.scheme == "http"):
            raise LoadError('transport "stamping" is for plain http on Linux only; use "auto" or "public"')

    @property
    def root_url(self) -> str:
        """The server's root, without `/v1`: where SGLang's own paths such as `/flush_cache` are."""
        return self.base_url.rstrip("/").removesuffix("/v1")

    @property
    def v1_url(self) -> str:
        """The base URL as the openai package wants it."""
        return f"{self.root_url}/v1"

    @property
    def uses_stamping(self) -> bool:
        """Whether bytes arrive through the stamping transport."""
        if self.transport == "auto":
            return AVAILABLE and urlsplit(self.base_url).scheme == "http" and not proxy_for(self.base_url)
        return self.transport == "stamping"


@dataclass(frozen=True, slots=True)
class Sampling:
    """How answers are sampled; None leaves a choice to the server. `extra_body` is merged in last.

    `seed_per_request` gives request i the seed `seed + i`, so that equal prompts do not give equal answers.
    """

    max_tokens: int | None = None
    min_tokens: int | None = None
    temperature: float | None = 0.0
    top_p: float | None = None
    n: int = 1
    seed: int | None = None
    seed_per_request: bool = False
    ignore_eos: bool = False
    stop: tuple[str, ...] = ()
    chat_template_kwargs: Mapping[str, Any] | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
