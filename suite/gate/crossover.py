"""From how many clients on MTP loses: speed-ups by concurrency to one number. A pure function."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from suite.gate.records import Session

METRIC = "mtp_speedup"


@dataclass(frozen=True, slots=True)
class Crossover:
    """Where on becomes slower than off.

    ``measured`` is the least measured number of clients from which on every speed-up is below 1; ``estimate`` is
    read between it and the last one where on still won, on a line over the logarithm of the clients. Both ``None``:
    on won, or was level, at the most clients measured.
    """

    measured: int | None
    estimate: float | None
    most: int

    def __str__(self) -> str:
        if self.measured is None:
            return f"MTP is not slower at any measured number of clients, up to {self.most}; nothing is claimed beyond"
        about = "" if self.estimate is None else f" (crossing at about {self.estimate:.0f})"
        return f"MTP is slower than no MTP from {self.measured} clients on{about}; no gain is claimed from there on"


def crossover(speedups: Mapping[int, float]) -> Crossover:
    """Find it. ``speedups``: output tokens/s with MTP over without, by clients.

    Raises:
        ValueError: there are none.
    """
    if not speedups:
        raise ValueError("no speed-up was measured")
    clients = sorted(speedups)
    losing = len(clients)
    while losing and speedups[clients[losing - 1]] < 1:
        losing -= 1
    if losing == len(clients):
        return Crossover(None, None, clients[-1])
    first = clients[losing]
    if losing == 0:
        return Crossover(first, None, clients[-1])
    last_won = clients[losing - 1]
    won, lost = speedups[last_won], speedups[first]
    share = (won - 1) / (won - lost)
    estimate = math.exp(math.log(last_won) + share * (math.log(first) - math.log(last_won)))
    return Crossover(first, estimate, clients[-1])


def speedups(session: Session) -> dict[int, float]:
    """The speed-ups that a run measured with short prompts, by clients: the mean over its launches."""
    found: dict[int, float] = {}
    for series in session.series:
        if not series.question.startswith(f"{METRIC}["):
            continue
        values = [v for launch in series.launches for v in launch.rounds.get(METRIC, []) if v is not None]
        clients = series.identity.get("concurrency")
        if values and isinstance(clients, int):
            found[clients] = sum(values) / len(values)
    return found
