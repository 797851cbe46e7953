"""What answers at an address where no SGLang server tells of itself: a gateway, a proxy of /v1 alone, TLS, nobody we know."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from suite.foreign import NotJSON, json_of, one_line
from suite.redact import Secret
from suite.sglang import http
from suite.sglang.errors import Gateway, ServerProbeError, ServerTLSError, UnreadableServer

WORKER_LISTS = ("/workers", "/list_workers")
"""Where routers of SGLang list their workers; a server has neither path."""

DIRECTLY = "give the address of one SGLang server, so that what is measured is known"
_SHOWN = 4
_HANDSHAKE_S = 3.0


def gateway_of(answer: Any, url: str) -> Gateway | None:
    """The gateway that answers for its workers: with what they say, by their roles or addresses, or with a list of them."""
    if is_server(answer):
        return None
    groups: Mapping[str, Any] = answer if isinstance(answer, dict) else {"": answer}
    found = {str(role): count for role, members in groups.items() if (count := _servers_in(members))}
    if isinstance(answer, dict):
        listed = {name.removesuffix("_urls"): members for name, members in answer.items() if name in _LISTING}
        found |= {
            role: len(members) for role, members in listed.items() if members and isinstance(members, list)
        }
    if not found:
        return None
    pairs = set(found) >= {"prefill", "decode"}
    what = "a router of prefill and decode servers" if pairs else "a router"
    counted = ", ".join(f"{count} {role}".strip() for role, count in found.items())
    return Gateway(f"{url}: {what} answers there, for {counted} of them: it is not an arm; {DIRECTLY}")


_LISTING = frozenset({"workers", "worker_urls", "prefill_urls", "decode_urls"})
_OWN = ("model_path", "internal_states")
"""What every SGLang server tells of itself at /server_info, 0.5.9 to 0.5.23, and no router."""


def is_server(answer: Any) -> bool:
    """Is ``answer`` what one SGLang server says of itself?"""
    return isinstance(answer, dict) and any(key in answer for key in _OWN)


def _servers_in(value: Any) -> int:
    """How many servers speak somewhere within ``value``."""
    if is_server(value):
        return 1
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return sum(map(_servers_in, inner))


def gateway_at(base: str, api_key: Secret | str | None, timeout_s: float = 10.0) -> Gateway | None:
    """The gateway at ``base``, if one lists its workers there; it may pass on what one of them says of itself."""
    for path in WORKER_LISTS:
        listed = _json(base + path, api_key, timeout_s)
        workers = (
            listed.get("workers", listed.get("urls", _addresses(listed)))
            if isinstance(listed, dict)
            else listed
        )
        if isinstance(workers, list) and not (isinstance(listed, list) and not listed):
            named = [one_line(str(w.get("url", w)) if isinstance(w, dict) else str(w), 80) for w in workers]
            shown = ", ".join(named[:_SHOWN]) + (" ..." if len(named) > _SHOWN else "")
            of = f": {shown}" if shown else ""
            return Gateway(
                f"{http.without_credentials(base)}: a gateway answers there, for {len(workers)} workers{of}: what "
                f"one of them says of itself is not true of all; {DIRECTLY}"
            )
    return None


def _addresses(listed: Mapping[str, Any]) -> list[str] | None:
    """The workers of a table that has them by their addresses."""
    return [key for key in listed if "://" in key] or None


def nobody_known(base: str, api_key: Secret | str | None, timeout_s: float = 10.0) -> ServerProbeError:
    """The error for an address where nothing tells of itself, as /server_info would."""
    shown = http.without_credentials(base)
    if (gateway := gateway_at(base, api_key, timeout_s)) is not None:
        return gateway
    if is_server(_json(f"{base}/v1/server_info", api_key, timeout_s)):
        return UnreadableServer(
            f"{shown}: an SGLang server answers below {shown}/v1, as behind a proxy with that prefix; "
            "/v1 is taken for the OpenAI API's own: give the server's own address, or have the proxy name it otherwise"
        )
    models = _json(f"{base}/v1/models", api_key, timeout_s)
    if isinstance(models, dict) and isinstance(models.get("data"), list):
        return Gateway(
            f"{shown}: only the OpenAI API answers there (/v1/models{_owned(models['data'])}), neither /server_info "
            f"nor /get_server_info: another server, or a gateway or proxy that passes on nothing but /v1 and cannot "
            f"tell what runs behind it; {DIRECTLY}"
        )
    return UnreadableServer(
        f"{shown}: neither /server_info nor /get_server_info is there: not an SGLang server, or not its root; "
        "check address and port (the root is what stands before /v1)"
    )


def _owned(models: list[Any]) -> str:
    """Who owns the models, which is how vLLM, llama.cpp and others name themselves."""
    owners = sorted(
        {str(model["owned_by"]) for model in models if isinstance(model, dict) and model.get("owned_by")}
    )
    return f", owned by {one_line(', '.join(owners), 60)}" if owners else ""


def wrong_scheme(base: str) -> ServerTLSError | None:
    """The error for an http address whose port speaks TLS; ``None`` where it does not."""
    parts = urlsplit(base)
    if parts.scheme != "http" or not parts.hostname:
        return None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # who it is does not matter here
    try:
        address = (parts.hostname, parts.port or 80)
        with (
            socket.create_connection(address, _HANDSHAKE_S) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname),
        ):
            pass
    except (OSError, ValueError):
        return None
    shown = http.without_credentials(base)
    return ServerTLSError(f"{shown}: this port speaks TLS; write https:// in place of http://")


def _json(url: str, api_key: Secret | str | None, timeout_s: float) -> Any:
    """The JSON value at ``url``; ``None`` for whatever else happens there."""
    try:
        answer = http.ask(url, api_key=api_key, timeout_s=timeout_s)
        return json_of(answer.text) if answer.status == 200 else None
    except (ServerProbeError, NotJSON):
        return None
