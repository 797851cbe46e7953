"""Is the machine of a server that somebody else runs at hand, so that its cards and its build can be looked at?"""

from __future__ import annotations

from pathlib import PurePosixPath
from urllib.parse import urlsplit

from suite.hosts import Host, HostError
from suite.probes import installation
from suite.sglang.errors import ProbeError

LOOPBACK = ("127.0.0.1", "localhost", "::1", "0.0.0.0")
TUNNELS = frozenset({"ssh", "sshd", "autossh", "kubectl", "oc", "socat", "ngrok"})
"""Programs that listen here for a server elsewhere."""


def port_of(url: str) -> int | None:
    """The port of a URL that names the host's own loopback; ``None`` for any other."""
    parts = urlsplit(url)
    return parts.port if parts.hostname in LOOPBACK else None


def listener(host: Host, url: str) -> installation.Listening | None:
    """The process that serves at ``url``, if ``host`` itself serves there and the process may be seen."""
    port = port_of(url)
    if port is None:
        return None
    try:
        found = installation.listening(host, port)
    except ProbeError:
        return None
    return None if found is None or _passes_on(found) else found


def is_at_hand(host: Host, url: str) -> bool:
    """Does ``host`` itself serve at ``url``? A tunnel's end does not; another user's process, unseen, is taken to."""
    port = port_of(url)
    try:
        if port is None or not host.listening(port):
            return False
        found = installation.listening(host, port)
    except (ProbeError, HostError):
        return False
    return found is None or not _passes_on(found)


def _passes_on(found: installation.Listening) -> bool:
    names = {
        PurePosixPath(found.interpreter or "").name,
        *(PurePosixPath(word).name for word in found.command[:1]),
    }
    return any(name.rstrip(":") in TUNNELS for name in names)
