"""Where commands run: this machine, or another over SSH."""

from __future__ import annotations

from suite import config
from suite.hosts.base import Host, Running
from suite.hosts.errors import (
    ChangedHostKey,
    CommandFailed,
    CommandTimeout,
    ConnectionLost,
    HostError,
    HostUnreachable,
    LoginRefused,
    NoSuchFile,
    UnknownHostKey,
)
from suite.hosts.local import LocalHost
from suite.hosts.ssh import SSHHost


def open_host(host: config.HostTable) -> Host:
    """The host that a ``[hosts.NAME]`` table describes, connected.

    Raises:
        HostError: it cannot be reached, its key is not known, or it lets us in with none of our keys.
    """
    if host.is_local:
        return LocalHost(host.name)
    return SSHHost(host)
