"""What is lost while an item is played, a server or its supervisor, and whether it is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field

DEATHS = 3
"""Deaths of one arm's servers after which it is not launched again, whatever they died in."""

SUPERVISORS = 3
"""Supervisors that a run replaces: one that is killed again and again has an enemy that waiting does not cure."""


@dataclass(slots=True)
class Losses:
    """Counts them. A question that was lost is asked again, once, of a server that is launched again.

    Two deaths in the same question are the question's doing: the arm is launched for the others. Deaths in two
    questions are the arm's, and it is given up: a launch can cost minutes of every GPU.
    """

    _deaths: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    _supervisors: list[str] = field(default_factory=list)

    def died(self, arm: str, item: str, summary: str) -> bool:
        """A server of ``arm`` died in ``item``; is the item to be asked again?"""
        self._deaths.setdefault(arm, []).append((item, summary))
        return self.given_up(arm) is None and sum(one == item for one, _ in self._deaths[arm]) == 1

    def given_up(self, arm: str) -> str | None:
        """Why ``arm`` is not launched any more, if so."""
        if len(self._supervisors) >= SUPERVISORS:
            return f"the suite's supervisor process was lost {len(self._supervisors)} times"
        deaths = self._deaths.get(arm, [])
        if len({item for item, _ in deaths}) < 2 and len(deaths) < DEATHS:
            return None
        return f"its servers died {len(deaths)} times, last: {deaths[-1][1]}"

    def supervisor_lost(self, arm: str, item: str) -> bool:
        """A supervisor was lost in ``item``; is the item to be asked again?"""
        self._supervisors.append(item)
        return self._supervisors.count(item) == 1 and self.given_up(arm) is None
