"""How far a run has come and how long it will still take, by what was planned and what things took before."""

from __future__ import annotations

from suite.session.plan import LaunchId
from suite.session.price import Price
from suite.session.times import Expected
from suite.terminal.figures import duration
from suite.terminal.progress import clock


class Outlook:
    """Counts what is done of a plan; what only later looks ask for is added when they ask.

    Args:
        price: of what is planned.
        expected: how long things take.
    """

    def __init__(self, price: Price, expected: Expected) -> None:
        self._expected = expected
        self._items = dict(price.of_item)
        self._launches = dict(price.of_launch)
        self._planned = price
        self._all_s = price.seconds
        self._rounds = 0
        self._launched = 0
        self._more = 0

    def add(self, price: Price) -> None:
        """More was planned: what a further look asks for."""
        self._items |= price.of_item
        self._launches |= price.of_launch
        self._all_s += price.seconds
        self._planned = Price(
            self._planned.launches + price.launches, self._planned.rounds + price.rounds, {}, {}
        )

    def launching(self, launch_id: LaunchId) -> None:
        """A launch begins."""
        self._launched += 1
        self._launches.pop(launch_id, None)

    def told_again(self, launch_id: LaunchId) -> None:
        """A launch of an earlier try need not be made again."""
        if self._launches.pop(launch_id, None) is not None:
            self._launched += 1

    def round_played(self) -> None:
        """A round is over."""
        self._rounds += 1

    def item_over(self, item: str) -> None:
        """An item is over, however it ended."""
        self._items.pop(item, None)

    @property
    def left_s(self) -> float:
        """Seconds that what is left will take."""
        return sum(self._items.values()) + sum(self._launches.values())

    @property
    def share(self) -> float:
        """How much of all that was planned lies behind, by the time it takes: 0 to 1."""
        return 1 - self.left_s / self._all_s if self._all_s else 1.0

    def of_launch(self, arm: str, seconds: float) -> str:
        """How long a launch has taken, and will."""
        return f"{clock(seconds)} of about {clock(self._expected.start_s(arm))}"

    def __str__(self) -> str:
        launches = max(self._planned.launches, self._launched)
        rounds = max(self._planned.rounds, self._rounds)
        return (
            f"launch {self._launched} of {launches}, {self._rounds} of {rounds} rounds done, "
            f"about {duration(self.left_s)} left"
        )
