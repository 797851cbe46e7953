"""Energy per token: the cards' power over a round, over the tokens that came of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from suite.load.records import Round
from suite.metrics.registry import METRICS
from suite.metrics.rounds import Value

NAME = "energy_j_per_token"
EDGE_S = 2.0
"""Samples this far outside a round still tell its power at its edges: nvidia-smi looks once a second."""


def energy(round_: Round, powers_w: Sequence[tuple[float, float]]) -> Value:
    """`energy_j_per_token` of one round.

    Args:
        round_: what was played; failed requests cost energy too, and their tokens do not count.
        powers_w: the power of all of the server's cards together, by time.monotonic seconds, in order.
    """
    unit = METRICS[NAME].unit
    tokens = sum(record.completion_tokens or 0 for record in round_.ok)
    if not tokens or round_.duration_s <= 0:
        return Value(None, unit, "no request succeeded")
    first = round_.started_monotonic_s + min(r.started_s for r in round_.requests)
    last = first + round_.duration_s
    near = [(t, p) for t, p in powers_w if first - EDGE_S <= t <= last + EDGE_S]
    if not any(first <= t <= last for t, _ in near):
        return Value(
            None, unit, "no power reading within the round: it is shorter than nvidia-smi's one second"
        )
    times, power = np.array([t for t, _ in near]), np.array([p for _, p in near])
    grid = np.unique(np.concatenate(([first, last], np.clip(times, first, last))))
    joules = float(np.trapezoid(np.interp(grid, times, power), grid))
    return Value(
        joules / tokens, unit, detail={"mean_power_w": joules / round_.duration_s, "samples": len(near)}
    )
