"""Everything that can be known of a target without a launch, as lines of ok, warning or problem with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from suite import config
from suite.doctor.arms import arms
from suite.doctor.line import Line, Status
from suite.doctor.machine import gpus, processor
from suite.doctor.software import checkpoint, port, server, sglang
from suite.hosts import HostError, open_host
from suite.servers.errors import ServerError
from suite.servers.runtimes import Runtime, runtime_of
from suite.sglang.errors import ProbeError

__all__ = ["Line", "Status", "examine"]

_LOOKS: tuple[Callable[[Runtime], Iterator[Line]], ...] = (
    server,
    port,
    sglang,
    checkpoint,
    arms,
    gpus,
    processor,
)
"""In the order in which a launch would need them."""


def examine(suite: config.Suite, target: config.Target) -> Iterator[Line]:
    """Look at everything; each line as soon as it is known, and never an exception for what is found."""
    try:
        host = open_host(suite.host(target.host))
    except HostError as error:
        yield Line("problem", "host", str(error))
        return
    with host:
        yield Line("ok", "host", "this machine" if host.is_local else f"{host.name} can be reached")
        try:
            runtime = runtime_of(suite, target, host)
        except (ServerError, HostError) as error:
            yield Line("problem", target.launch.kind, str(error))
            return
        for look in _LOOKS:
            try:
                yield from look(runtime)
            except (ProbeError, HostError) as error:
                yield Line("problem", look.__name__, str(error))
