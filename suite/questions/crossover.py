"""The table that tells from how many clients on MTP loses."""

from __future__ import annotations

from suite.gate import Session
from suite.gate.crossover import crossover, speedups
from suite.questions.tables import Tables

TITLE = "MTP speed-up by clients"


def tell(session: Session, tables: Tables) -> None:
    """Add a run's speed-ups and their crossover to its tables, where several numbers of clients were measured."""
    found = speedups(session)
    if len(found) < 2:
        return
    title = TITLE if session.reference is None else f"{TITLE}, candidate"
    for clients, value in sorted(found.items()):
        tables.add(title, {"clients": clients, "speed_up": value, "gain": f"{value - 1:+.0%}"})
    tables.note(title, str(crossover(found)))
