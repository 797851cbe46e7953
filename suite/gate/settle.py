"""What would settle an inconclusive verdict: launches, recorded sessions, or both builds in one session."""

from __future__ import annotations

import numpy as np

from suite.gate.centred import OWN_PRIOR
from suite.gate.decide import ALPHA_OWN, PASS_WIDTH, Decision
from suite.gate.matrix import Matrix
from suite.gate.shrink import t_quantile

MORE_LAUNCHES = (3, 6, 9, 12)
MORE_SESSIONS = 10
INTERLEAVED = "an interleaved run of both builds would settle it"


def settle(matrix: Matrix, decision: Decision, g: int) -> str:
    """The cheapest thing expected to settle column `g`, in words: launches first, then sessions, then both builds."""
    if decision.common_shift[0, g]:
        return f"common shift: {INTERLEAVED}"
    sessions, launches = int(decision.sessions[0, g]), int(np.sum(~np.isnan(matrix.new[0, :, g])))
    for more in (n for n in MORE_LAUNCHES if n > launches):
        if _settled(matrix, decision, g, sessions, more):
            return f"{more - launches} more launches of each arm would settle it (--launches {more})"
    for total in range(max(sessions + 1, 3), MORE_SESSIONS + 1):
        if _settled(matrix, decision, g, total, launches):
            return f"{total - sessions} more recorded baseline sessions would settle it; or {INTERLEAVED}"
    return INTERLEAVED


def _settled(matrix: Matrix, decision: Decision, g: int, sessions: int, launches: int) -> bool:
    """Whether the same change, measured with that much data, would be a pass or a regression."""
    between, within = float(decision.between[0, g]), float(decision.within[0, g])
    if decision.sessions[0, g] < 3 <= sessions:
        between = OWN_PRIOR**2  # what three sessions would show is not known: suppose what is usual
    inverse = float(decision.inverse_launches[0, g])
    spread = np.sqrt(between * (1 + 1 / sessions) + within * (1 / launches + inverse / sessions))
    df = np.array(float(decision.df[0, g]) + max(sessions - float(decision.sessions[0, g]), 0))
    margin, r = float(matrix.layout.margin[g]), float(decision.relative[0, g])
    passes = r <= margin and r + t_quantile(0.95, df) * spread < PASS_WIDTH * margin
    critical = t_quantile(1 - ALPHA_OWN / max(int(matrix.layout.gated.sum()), 1), df) * spread
    return bool(passes or r > max(margin, float(critical)))
