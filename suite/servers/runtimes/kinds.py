"""Every kind of launch table, and what makes its runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite import config
from suite.hosts import Host
from suite.servers.runtimes import docker, process, systemd
from suite.servers.runtimes.base import Runtime

RUNTIMES: dict[type[Any], Callable[[Any, config.Suite, config.Target, Host], Runtime]] = {
    config.ProcessLaunch: process.runtime,
    config.DockerLaunch: docker.runtime,
    config.SystemdLaunch: systemd.runtime,
}


def runtime_of(suite: config.Suite, target: config.Target, host: Host) -> Runtime:
    """How the server of ``target`` is launched on ``host``, and its SGLang asked there; of a running one only asked.

    Raises:
        UnitUnusable: its systemd unit cannot be read, or does not run SGLang in plain sight.
    """
    make = RUNTIMES.get(type(target.launch))
    if make is None:
        return Runtime(target, host, cwd=str(suite.path.resolve().parent) if host.is_local else None)
    return make(target.launch, suite, target, host)
