"""A plan cut into shards: which arms must stay together, and which go where so that all shards take about as long.

The cut is the same wherever it is made: minutes are those of ``suite.toml``, not what a host has learned.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pytest

from suite.config import ConfigError, Sizes, Target
from suite.foreign import one_line
from suite.session.collection import launch_id_of, question_of, series_of
from suite.session.price import price
from suite.session.times import Expected, Times

MOST = 1000
"""Shards that a plan may be asked to be cut into."""


@dataclass(frozen=True, slots=True)
class ShardNumber:
    """``--shard 2/5``."""

    number: int
    of: int


def wanted(text: str) -> ShardNumber:
    """Read ``I/N``.

    Raises:
        ConfigError: it is no such thing.
    """
    number, slash, of = text.partition("/")
    if slash and all(part.isascii() and part.isdecimal() and len(part) < 5 for part in (number, of)):
        found = ShardNumber(int(number), int(of))
        if 1 <= found.number <= found.of <= MOST:
            return found
    raise ConfigError(f"--shard {one_line(text, 60)}: expected I/N, the second of five shards as 2/5")


def together(items: Iterable[pytest.Item]) -> list[list[str]]:
    """Arms that may not be parted, in groups, each in the order in which the plan first names its arms.

    Arms to which one scenario is put are compared with each other: by a ratio, by their answers, or in a table. Arms of
    which figures are judged are each other's controls: by them the gate tells a slow machine from a slow build.
    """
    of_arm: dict[str, set[str]] = {}
    for item in items:
        if launch_id_of not in item.stash:
            continue
        ties = of_arm.setdefault(item.stash[launch_id_of].arm, set())
        ties.add(f"put {item.stash[question_of].partition('[')[0]}")
        if series_of in item.stash:
            ties.add("judged")
    groups: list[tuple[list[str], set[str]]] = []
    for arm, ties in of_arm.items():
        joined = [group for group in groups if group[1] & ties]
        arms = [name for group in joined for name in group[0]]
        groups = [group for group in groups if group not in joined]
        groups.append(([*arms, arm], ties.union(*(group[1] for group in joined))))
    place = {arm: number for number, arm in enumerate(of_arm)}
    found = [sorted(arms, key=lambda arm: place[arm]) for arms, _ in groups]
    return sorted(found, key=lambda arms: place[arms[0]])


def seconds_of(
    groups: Sequence[Sequence[str]],
    items: Sequence[pytest.Item],
    target: Target,
    sizes: Sizes,
    expected: Expected | None = None,
) -> list[float]:
    """What the items of each group of arms take; by the estimates of ``suite.toml`` where no former runs are given."""
    known = expected or Expected(Times(), target, sizes)
    return [price(of_arms(items, arms), target, sizes, known).seconds for arms in groups]


def of_arms(items: Iterable[pytest.Item], arms: Iterable[str]) -> list[pytest.Item]:
    """The items that are put to one of these arms."""
    named = set(arms)
    return [item for item in items if launch_id_of in item.stash and item.stash[launch_id_of].arm in named]


def cut(groups: Sequence[Sequence[str]], seconds: Sequence[float], shards: int) -> list[list[str]]:
    """The groups in so many shards, the longest shard first; no shard is empty.

    The longest group goes first, each to the shard that has least so far.

    Raises:
        ConfigError: there are fewer groups than shards.
    """
    if shards > len(groups):
        raise ConfigError(
            f"{shards} shards were asked for, but this plan has {len(groups)} that can be measured separately: "
            f"{'; '.join(' '.join(group) for group in groups)}. Arms that are compared with each other stay on one host"
        )
    filled: list[tuple[float, list[int]]] = [(0.0, []) for _ in range(shards)]
    for number in sorted(range(len(groups)), key=lambda n: (-seconds[n], n)):
        least = min(range(shards), key=lambda n: (bool(filled[n][1]), filled[n][0], n))
        filled[least] = (filled[least][0] + seconds[number], [*filled[least][1], number])
    filled.sort(key=lambda shard: (-shard[0], shard[1]))
    return [[arm for number in sorted(numbers) for arm in groups[number]] for _, numbers in filled]


def worthwhile(seconds: Sequence[float]) -> int:
    """The fewest shards of which the longest takes no longer than the longest group: more bring nothing."""
    return next(
        shards for shards in range(1, len(seconds) + 1) if _longest(seconds, shards) <= max(seconds) + 1e-6
    )


def _longest(seconds: Sequence[float], shards: int) -> float:
    names = [[str(number)] for number in range(len(seconds))]
    return max(sum(seconds[int(name)] for name in shard) for shard in cut(names, seconds, shards))
