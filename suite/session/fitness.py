"""Whether what was measured may be judged: warm from the first round on, and what a target or a count does not mind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from suite.gate import Invalid
from suite.session.asked import PlannedWorkload
from suite.terminal.figures import number

TELLING_TOKENS = 64
"""Answers shorter than this have no TPOT to speak of."""
TIMING = frozenset(
    {"client_saturated", "not_warmed_up", "clocks_throttled", "power_capped", "foreign_processes"}
)
"""Reasons of invalidity that spoil times and leave counts as they are: how much is accepted does not depend on speed."""


def tolerated(found: Iterable[Invalid], by_target: Collection[str], asked: PlannedWorkload) -> list[Invalid]:
    """Without the reasons that this target is known for, and those that spoil nothing of what was asked."""
    harmless = {*by_target, *(TIMING if asked.counts_only else ())}
    return [reason for reason in found if reason.name not in harmless]


def not_warmed_up(tpot_s: Sequence[float | None], asked: PlannedWorkload) -> list[Invalid]:
    """That the server was still getting faster, where answers are long enough to tell."""
    tokens = asked.sampling.max_tokens
    if tokens is None or tokens < TELLING_TOKENS:
        return []
    warming = still_warming(tpot_s)
    return [Invalid("not_warmed_up", warming)] if warming else []


def still_warming(tpot_s: Sequence[float | None]) -> str | None:
    """Was every round faster than the one before, and the last by much than the first? Why that spoils it.

    Of few rounds noise alone puts three in falling order in one of six cases, so they must fall far.
    """
    known = [value for value in tpot_s if value is not None]
    enough = 0.9 if len(known) > 3 else 0.75
    if len(known) < 3 or known != sorted(known, reverse=True) or known[-1] > known[0] * enough:
        return None
    fell = f"{number(known[0], 's')} to {number(known[-1], 's')}"
    return f"TPOT fell from round to round, {fell}: the server was not warm yet"
