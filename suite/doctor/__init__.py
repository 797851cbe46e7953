"""Everything that can be known of a target without a launch, as lines of ok, warning or problem with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from suite import config
from suite.doctor.arms import arms
from suite.doctor.fitness import fit
from suite.doctor.line import Line
from suite.doctor.machine import gpus, processor
from suite.doctor.rehearsed import elsewhere
from suite.doctor.software import checkpoint, port, proxies, server, sglang
from suite.doctor.under_load import at_work
from suite.hosts import HostError, open_host
from suite.servers.errors import ServerError
from suite.servers.runtimes import Runtime, runtime_of
from suite.sglang.errors import ProbeError

Look = Callable[[Runtime], Iterator[Line]]
_LOOKS: dict[str, Look] = {
    "proxy": proxies,
    "server": server,
    "port": port,
    "sglang": sglang,
    "checkpoint": checkpoint,
}
_THEN: dict[str, Look] = {"processor": processor}
"""In the order in which a launch would need them; the arms stand between."""


def examine(
    suite: config.Suite, target: config.Target, builds: Sequence[str] = (), load: bool = False
) -> Iterator[Line]:
    """Look at everything; each line as soon as it is known, and never an exception for what is found.

    ``builds`` are interpreters here or releases that resolve the arms where the target's own host cannot be asked; ``load``:
    keep the cards busy for some seconds, and see what that shows.
    """
    try:
        host = open_host(suite.host(target.host))
    except HostError as error:
        todo = (
            ""
            if builds
            else f"rehearse its arms here: python -m suite rehearse --target {target.name} --build 0.5.23"
        )
        yield Line("problem", "host", str(error), todo)
        yield from elsewhere(suite, target, builds)
        return
    with host:
        yield Line("ok", "host", "this machine" if host.is_local else f"{host.name} can be reached")
        try:
            runtime = runtime_of(suite, target, host)
        except (ServerError, HostError) as error:
            yield Line("problem", target.launch.kind, str(error))
            yield from elsewhere(suite, target, builds)
            return
        here = suite.path.resolve().parent
        of_arms: Look = partial(arms, directory=here)
        of_cards: dict[str, Look] = {"gpus": gpus, "fitness": partial(fit, directory=here)}
        if load:
            of_cards["load"] = at_work
        for name, look in {**_LOOKS, "arms": of_arms, **of_cards, **_THEN}.items():
            try:
                yield from look(runtime)
            except (ProbeError, HostError) as error:
                yield Line("problem", name, str(error))
