"""Which proxy of the environment stands before a server: none before loopback, none where ``no_proxy`` names it."""

from __future__ import annotations

import ipaddress
import urllib.request
from urllib.parse import urlsplit


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for ``url``; never one for loopback, where a tunnel's near end is too.

    ``no_proxy`` is read as curl does: hosts with or without a port, domains, addresses and networks (``10.0.0.0/8``).
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host):
        return None
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(host) or _spared(host, parts.port, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _spared(host: str, port: int | None, spared: str) -> bool:
    """Is ``host`` among those of ``no_proxy`` in a way that urllib does not read?"""
    for entry in spared.lower().replace(",", " ").split():
        name, colon, number = entry.rpartition(":")
        if (
            colon
            and number == str(port)
            and "]" not in number
            and (name.count(":") == 0 or name.endswith("]"))
        ):
            entry = name
        entry = entry.strip("[]").removeprefix("*")
        try:
            if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                return True
        except (ValueError, TypeError):  # a name on one side or the other
            if entry and (host == entry.lstrip(".") or host.endswith(f".{entry.lstrip('.')}")):
                return True
    return False


def is_loopback(host: str) -> bool:
    """Is ``host`` this machine by a name that no proxy can know?"""
    name = host.lower().rstrip(".")
    if name in ("localhost", "ip6-localhost", "ip6-loopback", "localhost.localdomain") or name.endswith(
        ".localhost"
    ):
        return True
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback or (mapped or address).is_unspecified
