"""A server at a URL as a target: launched anew as the process, container or unit that it is, or attached to."""

from __future__ import annotations

import os
import re
import shlex

from suite.describe import inspected, process, unit
from suite.describe.draft import CannotDescribe, Draft, gpus_of_running
from suite.hosts import Host
from suite.probes import at_hand, installation
from suite.redact import MASK, Secret
from suite.sglang import server
from suite.sglang.command import NotUnderstood
from suite.sglang.errors import ProbeError
from suite.sglang.flags import Flags, flags_within
from suite.sglang.server import identify

_CONTAINER_ID = re.compile(
    r"(?:docker|libpod|cri-containerd|crio)[-/]([0-9a-f]{12,64})|/([0-9a-f]{64})(?:/|$)"
)
_UNIT = re.compile(r"/([^/]+\.service)(?:/|$)")


def of_url(url: str, host: Host, api_key_env: str | None) -> Draft:
    """The target of the server that answers at ``url``, which counts from ``host``.

    Raises:
        CannotDescribe: nobody answers there, or no single SGLang server.
    """
    info = _asked(url, host, api_key_env)
    source = f"the server at {url}"
    found = at_hand.listener(host, url)
    draft = _as_it_was_started(found, source, host) if found is not None else None
    if draft is None:
        draft = _attached(url, info, source, api_key_env)
    else:
        draft.notes.append(
            f"SGLang {info.version}, {info.speculation}; it runs: end it before arms are launched"
        )
        draft.notes.append(f"to measure it as it is: --server-url {url}")
    return draft


def _asked(url: str, host: Host, api_key_env: str | None) -> server.ServerInfo:
    key = os.environ.get(api_key_env or "")
    if api_key_env and not key:
        raise CannotDescribe(f"--api-key-env {api_key_env}: that variable is not set here")
    secret = Secret(key) if key else None
    near = host.near(url)
    try:
        info = server.read(near, secret)
        if (gateway := identify.gateway_at(server.root(near), secret)) is not None:
            raise gateway
    except ProbeError as error:
        hint = "" if api_key_env else "; if it wants a key: --api-key-env NAME"
        raise CannotDescribe(f"--from {url}: {error}{hint if 'key' in str(error) else ''}") from None
    return info


def _as_it_was_started(found: installation.Listening, source: str, host: Host) -> Draft | None:
    """The target that starts it again; ``None`` where that is not to be seen."""
    if match := _CONTAINER_ID.search(found.cgroup):
        return inspected.running(host, match[1] or match[2])
    if (match := _UNIT.search(found.cgroup)) and not match[1].startswith(
        ("user@", "docker", "podman", "ssh")
    ):
        try:
            draft = unit.running(host, match[1])
        except CannotDescribe:
            draft = None
        if draft is not None:
            return draft
    if found.container or found.interpreter is None:
        return None
    seen = {**found.environment, **found.loading}
    env = {name: value for name, value in seen.items() if MASK not in value or value == MASK}
    try:
        return process.of_process(list(found.command), found.cwd or "/", env, found.interpreter, source)
    except NotUnderstood:
        return None


def _attached(url: str, info: server.ServerInfo, source: str, api_key_env: str | None) -> Draft:
    """The target that measures it as it is."""
    launch = {"kind": "attach", "url": url, **({"api_key_env": api_key_env} if api_key_env else {})}
    draft = Draft(source, launch, Flags({"model-path": str(info.resolved.get("model_path", "-"))}))
    draft.gpus = gpus_of_running(info.resolved)
    draft.notes.append(
        f"SGLang {info.version}, {info.speculation}: how it was started is not to be seen from here, so it is "
        "measured as it is and never launched"
    )
    if command := info.launch_command:
        draft.notes.append(f"it reports that it was started with: {_without_secrets(command)}")
    return draft


def _without_secrets(command: str) -> str:
    try:
        return shlex.join(flags_within(command).shown())
    except ValueError:
        return "words that are not a command line"
