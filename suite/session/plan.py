"""Which arm is launched when: launches of different arms alternate, so that drift hits all arms alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaunchId:
    """One launch of one arm; ``number`` counts from 1 within the arm."""

    arm: str
    number: int

    def __str__(self) -> str:
        return f"{self.arm}, launch {self.number}"

    @property
    def life(self) -> str:
        """The id under which the death of its server is reported."""
        return f"servers::lives[{self.arm}-launch{self.number}]"


def alternate(launch_ids: Iterable[LaunchId]) -> list[LaunchId]:
    """The order in which to launch: (a, b), (b, a), (a, b), ...; arms in the order they first appear.

    With arms A and B launched three times each this gives A1 B1 B2 A2 A3 B3: each arm's launches have the
    same mean place in time (for an even number of launches), so that a steady drift of the machine cancels.
    """
    wanted = list(dict.fromkeys(launch_ids))
    arms = list(dict.fromkeys(launch_id.arm for launch_id in wanted))
    order: list[LaunchId] = []
    for number in sorted({launch_id.number for launch_id in wanted}):
        these = [arm for arm in arms if LaunchId(arm, number) in wanted]
        if number % 2 == 0:
            these.reverse()
        order.extend(LaunchId(arm, number) for arm in these)
    return order


def rounds_of_a_pass(prompts: int, clients: int, requests: int) -> float:
    """How many rounds (of one client and so many requests) last as long as asking many clients each of so many prompts.

    A batch is not as many times as fast as one client as it has clients: three quarters of that at the sizes in use.
    """
    return prompts / requests / max(1.0, 0.75 * min(clients, prompts))
