"""Connects to a host as the person's own ``ssh`` would: their configuration, keys, agent, jumps and known hosts."""

from __future__ import annotations

import asyncio
import re
import shlex
from pathlib import Path
from typing import Any

import asyncssh

from suite import config
from suite.hosts.errors import ChangedHostKey, HostError, HostUnreachable, LoginRefused, UnknownHostKey

_ADDRESS = re.compile(r"(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^:]+))(?::(?P<port>\d+))?")
KEEPALIVE_S = 15.0


async def connect(host: config.HostTable) -> asyncssh.SSHClientConnection:
    """A connection to ``host``.

    Raises:
        HostError: its kind says which step failed; its text says what to do.
    """
    given = _given(host)
    try:
        options = await asyncssh.SSHClientConnectionOptions.construct(**given)
        return await asyncssh.connect(**given)
    except asyncssh.HostKeyNotVerifiable as error:
        raise await _key_error(host, options, error) from None
    except asyncssh.PermissionDenied:
        raise LoginRefused(
            f"{host.name}: {options.username}@{options.host} port {options.port} accepts none of our keys. "
            f"Check with: {_ssh_command(host)} true   (name a key with identity_file in [hosts.{host.name}])"
        ) from None
    except (OSError, TimeoutError, asyncssh.Error, ValueError) as error:
        raise HostUnreachable(
            f"{host.name}: no SSH connection to {host.ssh}: {str(error) or type(error).__name__}. "
            f"Check with: {_ssh_command(host)} true"
        ) from None


def _given(host: config.HostTable) -> dict[str, Any]:
    """What the table says; the rest comes from the person's SSH configuration."""
    match = _ADDRESS.fullmatch(host.ssh or "")
    if match is None:
        raise HostUnreachable(f"[hosts.{host.name}] ssh = {host.ssh!r} is not [user@]address[:port]")
    given: dict[str, Any] = {
        "host": match["v6"] or match["name"],
        "port": int(match["port"]) if match["port"] else (),
        "username": match["user"] or (),
        "connect_timeout": host.connect_timeout_s,
        "login_timeout": host.connect_timeout_s,
        "keepalive_interval": KEEPALIVE_S,
        "keepalive_count_max": 4,
        "password_auth": False,  # nobody is there to type one
        "kbdint_auth": False,
    }
    if host.known_hosts:
        given["known_hosts"] = str(Path(host.known_hosts).expanduser())
    if host.identity_file:
        given["client_keys"] = [str(Path(host.identity_file).expanduser())]
    if host.config_file:
        given["config"] = [str(Path(host.config_file).expanduser())]
    return given


async def _key_error(
    host: config.HostTable, options: asyncssh.SSHClientConnectionOptions, error: Exception
) -> HostError:
    """Tell an unknown key from a changed one, and show the key so that it can be compared."""
    # a ProxyJump is not followed here: the key is then shown by the command instead
    shown = None
    if not options.tunnel and not options.proxy_command:
        try:
            async with asyncio.timeout(host.connect_timeout_s):
                shown = await asyncssh.get_server_host_key(options.host, options.port)
        except (OSError, asyncssh.Error, TimeoutError):
            pass
    print_ = f" It showed {shown.get_algorithm()} {shown.get_fingerprint()}." if shown else ""
    if _has_other_key(options):
        return ChangedHostKey(
            f"{host.name}: the key of {options.host} port {options.port} is NOT the one in {_file(host)}."
            f"{print_} Another machine answers there, or it was set up again; find out which before you go on. "
            f"The old key is removed by: ssh-keygen -R {shlex.quote(_entry(options))} -f {_file(host)}"
        )
    port = f"-p {options.port} " if options.port != 22 else ""
    return UnknownHostKey(
        f"{host.name}: the key of {options.host} port {options.port} is not in {_file(host)} ({error})."
        f"{print_} Compare it with the host's own (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub there), "
        f"then add it: ssh-keyscan {port}{shlex.quote(options.host)} >> {_file(host)}"
    )


def _has_other_key(options: asyncssh.SSHClientConnectionOptions) -> bool:
    known = options.known_hosts
    if isinstance(known, tuple) and not known:
        default = Path.home() / ".ssh" / "known_hosts"
        known = str(default) if default.exists() else b""
    try:
        return bool(asyncssh.match_known_hosts(known, options.host, "", options.port)[0])
    except (OSError, ValueError):
        return False


def _entry(options: asyncssh.SSHClientConnectionOptions) -> str:
    return str(options.host) if options.port == 22 else f"[{options.host}]:{options.port}"


def _file(host: config.HostTable) -> str:
    return shlex.quote(host.known_hosts) if host.known_hosts else "~/.ssh/known_hosts"


def _ssh_command(host: config.HostTable) -> str:
    match = _ADDRESS.fullmatch(host.ssh or "")
    assert match is not None
    words = ["ssh"]
    for flag, value in (("-F", host.config_file), ("-i", host.identity_file), ("-p", match["port"])):
        words += [flag, value] if value else []
    name = match["v6"] or match["name"]
    return shlex.join([*words, f"{match['user']}@{name}" if match["user"] else name])
