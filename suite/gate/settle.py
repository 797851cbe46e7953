"""What would settle an inconclusive verdict: the cheapest of prompts, rounds, launches, sessions, or both builds in one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from suite.gate.common import moved
from suite.gate.decide import ALPHA_OWN, PASS_WIDTH, Decision
from suite.gate.deltas import OWN_PRIOR
from suite.gate.matrix import Matrix
from suite.gate.precision import MOST_PROMPTS
from suite.gate.robust import mean, t_quantile
from suite.terminal.figures import duration

MORE_PROMPTS = (1.5, 2, 3, 4, 6, 8, 16, 32)
MORE_ROUNDS = (2, 3, 4)
MORE_LAUNCHES = (3, 6, 9, 12)
MORE_SESSIONS = 10
QUIET = "the same run on a quiet machine (its rounds are clearly noisier than the baseline's)"
LAUNCHES_DIFFER = 1.5
"""Times what rounds explain: below it launches bring no more than rounds do, which cost no server start."""
INTERLEAVED = "an interleaved run of both builds (--reference, --candidate) would settle it"


@dataclass(frozen=True)
class Known:
    """What is known of one column, and how much was measured; changes and variances in logs, + = worse.

    change: of the column without acceptance; accepted: what acceptance adds, from `prompts` prompts. round_noise: of
    the variance `within` of a launch, what its rounds explain; excess: what a launch of this run has on top of that, because
    its rounds are clearly noisier than the baseline's.
    """

    margin: float
    tests: int
    change: float
    df: float
    between: float
    within: float
    round_noise: float
    excess: float
    inverse: float
    accepted: float
    accepted_variance: float
    prompts: int
    rounds: int
    launches: int
    sessions: int
    only_acceptance: bool

    @property
    def launches_differ(self) -> bool:
        """By more than their rounds explain."""
        return np.isnan(self.round_noise) or self.within > LAUNCHES_DIFFER * self.round_noise

    @property
    def variance(self) -> float:
        """Of the change without acceptance."""
        if self.only_acceptance:
            return 0.0
        launch = (self.within + self.excess) / self.launches + self.within * self.inverse / self.sessions
        return self.between * (1 + 1 / self.sessions) + launch

    def settled(self) -> bool:
        """Whether the same change, measured so well, would be a pass or a regression."""
        accepted = self._word(self.accepted, self.accepted_variance)
        if self.only_acceptance:
            return accepted != ""
        own, whole = self._word(self.change, self.variance), self.change + self.accepted
        if own == "pass" and accepted == "regression" and whole > self.margin:
            return True
        spread = self.variance + self.accepted_variance
        return own == "regression" or (own == "pass" and self._word(whole, spread) == "pass")

    def _word(self, change: float, variance: float) -> str:
        df, spread = np.array(self.df), float(np.sqrt(variance))
        if change <= self.margin and change + float(t_quantile(0.95, df)) * spread < PASS_WIDTH * self.margin:
            return "pass"
        critical = float(t_quantile(1 - ALPHA_OWN / self.tests, df)) * spread
        return "regression" if change > max(self.margin, critical) else ""

    def with_prompts(self, prompts: int) -> Known:
        """The same with so many prompts."""
        return replace(
            self, prompts=prompts, accepted_variance=self.accepted_variance * self.prompts / prompts
        )

    def with_rounds(self, rounds: int) -> Known:
        """The same with so many rounds per launch, here and in the baseline's later sessions."""
        less = self.round_noise * (1 - self.rounds / rounds)
        excess = self.excess * self.rounds / rounds
        return replace(self, rounds=rounds, within=max(self.within - less, 0.0), excess=excess)

    def with_sessions(self, sessions: int) -> Known:
        """The same against so many sessions; what three would show is not known of fewer: suppose what is usual."""
        between = OWN_PRIOR**2 if self.sessions < 3 <= sessions else self.between
        return replace(self, sessions=sessions, between=between, df=self.df + sessions - self.sessions)


def settle(matrix: Matrix, decision: Decision, g: int, round_s: float = math.nan) -> str:
    """The cheapest thing expected to settle column `g`, in words; `round_s`: seconds of a round, for what it costs."""
    if decision.common_shift[0, g]:
        return f"common shift, {moved(matrix, decision, g)}: {INTERLEAVED}"
    known = _known(matrix, decision, g)
    if known.excess > 0 and replace(known, excess=0.0).settled():
        return f"{QUIET} would settle it"
    for text, more in _cures(known):
        if more.settled():
            return f"{text}{_cost(known, more, round_s)} would settle it"
    if known.only_acceptance:
        return f"{MOST_PROMPTS} prompts would not settle it: the change is as large as the margin"
    if known.prompts:
        best = known.with_prompts(MOST_PROMPTS)
        for text, more in _cures(replace(best, prompts=0)):
            if more.settled():
                return f"{text}, and more prompts, would settle it"
    return INTERLEAVED


def _cost(known: Known, more: Known, round_s: float) -> str:
    """What more prompts or rounds take; what launches take is not known here, nor where else prompts are asked."""
    rounds = more.prompts / known.prompts - 1 if known.only_acceptance else more.rounds - known.rounds
    seconds = rounds * round_s * known.launches
    return f" ({duration(seconds)} more)" if seconds > 0 else ""


def launches_can_settle(matrix: Matrix, decision: Decision, g: int, launches: int) -> bool:
    """Could so many launches of each arm decide column `g`, be the change what it seems or none at all?

    Never a shift of all arms together, whoever launches how often, nor what is acceptance alone: that hangs on prompts.
    """
    if decision.common_shift[0, g]:
        return False
    known = replace(_known(matrix, decision, g), launches=launches)
    if known.only_acceptance:
        return False
    return known.settled() or replace(known, change=0.0).settled()


def _cures(known: Known) -> Iterator[tuple[str, Known]]:
    """From the cheapest to the dearest; launches only where launches differ."""
    for times in MORE_PROMPTS if known.prompts else ():
        prompts = int(np.ceil(known.prompts * times))
        if prompts <= MOST_PROMPTS:
            text = f"{prompts} prompts instead of {known.prompts} (acceptance_prompts in the budget)"
            yield text, known.with_prompts(prompts)
    if known.only_acceptance:
        return
    if not known.launches_differ:
        for times in MORE_ROUNDS:
            rounds = known.rounds * times
            text = f"{rounds} rounds instead of {known.rounds} (--rounds {rounds})"
            yield text, known.with_rounds(rounds)
    else:
        for launches in (n for n in MORE_LAUNCHES if n > known.launches):
            text = f"{launches - known.launches} more launches of each arm (--launches {launches})"
            yield text, replace(known, launches=launches)
    for sessions in range(max(known.sessions + 1, 3), MORE_SESSIONS + 1):
        more = sessions - known.sessions
        text = f"{more} more recorded baseline session{'' if more == 1 else 's'}, or an interleaved run of both builds,"
        yield text, known.with_sessions(sessions)


def _known(matrix: Matrix, decision: Decision, g: int) -> Known:
    borne, pairs = matrix.acceptance.borne.get(g), matrix.acceptance.judged.get(g)
    asked = pairs or (borne.pairs if borne else None)
    change = float(decision.relative[0, g])
    launches = int(np.sum(~np.isnan(matrix.new[0, :, g])))
    return Known(
        margin=float(matrix.layout.margin[g]),
        tests=max(int(matrix.layout.gated.sum()), 1),
        change=0.0 if pairs else change,
        df=float(decision.df[0, g]),
        between=float(decision.between[0, g]),
        within=float(decision.within[0, g]),
        round_noise=float(matrix.layout.cost[g] * mean(matrix.rounds.new[0, :, g], 0)),
        excess=float(decision.excess[0, g]) * launches,
        inverse=float(decision.inverse_launches[0, g]),
        accepted=change if pairs else float(decision.accepted[0, g]),
        accepted_variance=float(decision.se[0, g] ** 2 if pairs else decision.accepted_se[0, g] ** 2),
        prompts=int(asked.number[0]) if asked else 0,
        rounds=int(matrix.played[g]),
        launches=launches,
        sessions=int(decision.sessions[0, g]),
        only_acceptance=pairs is not None,
    )
