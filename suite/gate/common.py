"""What all arms of a session did together: how far they moved, and whether it can be the machine."""

from __future__ import annotations

import math

import numpy as np

from suite.gate.decide import Decision
from suite.gate.matrix import Matrix
from suite.terminal.figures import percent


def moved(matrix: Matrix, decision: Decision, g: int) -> str:
    """`all arms slower by about 5.2 %`; `prefill of all arms` where only their first tokens came later."""
    kind = matrix.layout.columns[g].kind
    together = (decision.common_shift[0] | decision.by_common[0]) & matrix.layout.gated
    alike = [int(i) for i in np.flatnonzero(together) if matrix.layout.columns[i].kind == kind] or [g]
    size = math.expm1(float(np.median(decision.common[0, alike])))
    who = "prefill of all arms" if is_prefill(matrix, decision, g) else "all arms"
    return f"{who} {'slower' if size > 0 else 'faster'} by about {percent(abs(size))[1:]}"


def is_prefill(matrix: Matrix, decision: Decision, g: int) -> bool:
    """Whether it is a matter of prefill: the same servers decode as they did, so that the machine is none."""
    columns = matrix.layout.columns
    held = decision.passed[0] & matrix.layout.gated
    return columns[g].kind == "latency" and any(columns[i].kind == "decode" for i in np.flatnonzero(held))


def suspects(matrix: Matrix, decision: Decision, g: int) -> str:
    """What may be behind it."""
    if is_prefill(matrix, decision, g):
        return "the build or the baseline, and not the machine: decode of the same servers is unchanged"
    return "the machine, the build or the baseline, and not one arm"


def notes(matrix: Matrix, decision: Decision) -> list[str]:
    """For the run as a whole: once for decode and once for prefill, if they moved by themselves."""
    shifted = np.flatnonzero(decision.common_shift[0] & matrix.layout.gated)
    of_kind = {matrix.layout.columns[g].kind: int(g) for g in reversed(shifted)}
    return [
        f"{moved(matrix, decision, g)}, together: {suspects(matrix, decision, g)}; an interleaved run of both builds "
        "(--reference, --candidate) would show which"
        for _, g in sorted(of_kind.items())
    ]
