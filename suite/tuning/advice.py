"""From gains to what to run with: the best choice by number of clients, said only where noise does not explain it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from suite.terminal.figures import times
from suite.tuning.gains import Cells, Gain, gain

LEVEL = 0.01
"""How often a setting may be recommended that is no faster, all arms of one number of clients together."""
WORTH = 0.02
"""A difference below this is not worth another setting."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """For one number of clients: the arms to choose from, and the gain of each over off.

    ``candidates`` are, of the arms that are shown to beat off, the fastest and those less than ``WORTH`` slower; off alone, where
    none is shown to.
    """

    clients: int
    candidates: frozenset[str]
    gains: dict[str, Gain]


@dataclass(frozen=True, slots=True)
class Range:
    """Neighbouring numbers of clients with one choice, and what it gains at each."""

    clients: tuple[int, ...]
    arm: str
    gains: tuple[float, ...]


def choices(cells: Cells, off: str, arms: Sequence[str], kinds: Sequence[str]) -> list[Recommendation]:
    """A choice for each number of clients at which all is known of ``off`` and of one arm at least."""
    numbers = sorted({cell.clients for cell in cells.values()})
    return [found for clients in numbers if (found := _choice(cells, off, arms, kinds, clients)) is not None]


def _choice(
    cells: Cells, off: str, arms: Sequence[str], kinds: Sequence[str], clients: int
) -> Recommendation | None:
    told = {arm: gain(cells, arm, off, clients, kinds) for arm in arms if arm != off}
    gains = {arm: one for arm, one in told.items() if one is not None}
    if not gains:
        return None
    sure = 1 - LEVEL / len(gains)
    shown = {arm: one.log for arm, one in gains.items() if one.interval(sure)[0] > 0}
    gains[off] = Gain(0.0, 0.0, 1.0)
    if not shown:
        return Recommendation(clients, frozenset({off}), gains)
    best = max(shown.values())
    return Recommendation(clients, frozenset(arm for arm, log in shown.items() if best - log <= WORTH), gains)


def ranges(found: Sequence[Recommendation]) -> list[Range]:
    """As few settings as can be: neighbours share one as long as it is as good as the best for all of them."""
    made: list[Range] = []
    left = list(found)
    while left:
        common, count = left[0].candidates, 1
        while count < len(left) and common & left[count].candidates:
            common, count = common & left[count].candidates, count + 1
        part, left = left[:count], left[count:]
        arm = max(sorted(common), key=lambda a: sum(one.gains[a].log for one in part))
        made.append(
            Range(tuple(one.clients for one in part), arm, tuple(one.gains[arm].change for one in part))
        )
    return made


def sentences(found: Sequence[Range], words: dict[str, str]) -> Iterator[str]:
    """``1 to 8 clients: 4 steps (+71 %)``; ``words`` are what the arms are called."""
    for number, one in enumerate(found):
        first, last = one.clients[0], one.clients[-1]
        if len(found) == 1:
            where = f"{first} to {last} clients" if last > first else _clients(first)
        elif number == len(found) - 1:
            where = f"from {first} clients"
        else:
            where = f"{first} to {last} clients" if last > first else _clients(first)
        yield f"{where}: {words[one.arm]} ({_range(one.gains)})"


def _clients(count: int) -> str:
    return times(count, "client", "clients")


def _range(gains: Sequence[float]) -> str:
    low, high = (f"{100 * value + 0.0:+.0f}" for value in (min(gains), max(gains)))
    return f"{low} %" if low == high else f"{low} to {high} %"


def of_adaptive(cells: Cells, adaptive: str, found: Sequence[Range], kinds: Sequence[str]) -> str:
    """How the arm that sets its depth by itself stands beside what was chosen for each number of clients."""
    behind, open_ = [], []
    for part in found:
        for clients in part.clients:
            one = gain(cells, part.arm, adaptive, clients, kinds)
            if one is None:
                return "adaptive: not measured everywhere"
            most = one.at_most()
            if one.interval()[0] > 0 and most > WORTH:
                behind.append(f"{100 * one.change:.0f} % at {_clients(clients)}")
            elif most > WORTH:
                open_.append(f"{100 * most:.1f} % at {_clients(clients)}")
    if behind:
        return f"adaptive is slower than the best by {', '.join(behind)}"
    if open_:
        return f"adaptive: a loss beyond {100 * WORTH:g} % is not excluded (up to {', '.join(open_)}): more rounds would show"
    return f"adaptive within {100 * WORTH:g} % of the best everywhere"
