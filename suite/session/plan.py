"""Which arm is launched when: launches of different arms alternate, so that drift hits all arms alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

REFERENCE, CANDIDATE = "reference", "candidate"
BUILDS = (REFERENCE, CANDIDATE)
"""The builds of a run that compares two, in the order of the first pair of launches."""


@dataclass(frozen=True, slots=True)
class LaunchId:
    """One launch of one arm; ``number`` counts from 1 within the arm. build: which of two, where two are compared."""

    arm: str
    number: int
    build: str = ""

    @property
    def who(self) -> str:
        """Whose launch it is, whichever number it has."""
        return f"{self.arm} of the {self.build}" if self.build else self.arm

    def __str__(self) -> str:
        return f"{self.who}, launch {self.number}" if self.number else f"{self.who}, first start"

    @property
    def life(self) -> str:
        """The id under which the death of its server is reported."""
        return f"servers::lives[{self.arm}-launch{self.number}]"


def alternate(launch_ids: Iterable[LaunchId]) -> list[LaunchId]:
    """The order in which to launch: (a, b), (b, a), (a, b), ...; arms in the order they first appear.

    With arms A and B launched three times each this gives A1 B1 B2 A2 A3 B3: each arm's launches have the
    same mean place in time (for an even number of launches), so that a steady drift of the machine cancels.

    Where two builds are compared, an arm's launches of one number follow one another, R C in odd ones and C R in even
    ones: R C C R R C C R for each arm, and both arms near each other in time.
    """
    wanted = list(dict.fromkeys(launch_ids))
    arms = list(dict.fromkeys(launch_id.arm for launch_id in wanted))
    order: list[LaunchId] = []
    for number in sorted({launch_id.number for launch_id in wanted}):
        these = [
            arm
            for arm in arms
            if any((launch_id.arm, launch_id.number) == (arm, number) for launch_id in wanted)
        ]
        if number % 2 == 0:
            these.reverse()
        for arm in these:
            builds = [build for build in ("", *BUILDS) if LaunchId(arm, number, build) in wanted]
            order.extend(LaunchId(arm, number, build) for build in (builds if number % 2 else builds[::-1]))
    return order


def rounds_of_a_pass(prompts: int, clients: int, requests: int) -> float:
    """How many rounds (of one client and so many requests) last as long as asking many clients each of so many prompts.

    A batch is not as many times as fast as one client as it has clients: three quarters of that at the sizes in use.
    """
    return prompts / requests / max(1.0, 0.75 * min(clients, prompts))
