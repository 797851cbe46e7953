"""The shards of a plan: one of them as a run measures it, and all of them as CI or Slurm starts them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pytest

from suite.cluster.cut import ShardNumber, cut, of_arms, seconds_of, together, worthwhile
from suite.config import ConfigError, Sizes, Target
from suite.gate.records import plain_facts
from suite.session.build import BuildUnderTest
from suite.session.collection import (
    Arranged,
    asked_of,
    is_scenario,
    kind_of,
    launch_id_of,
    question_of,
    ratios_of,
)
from suite.session.entries import Planned, Shard
from suite.session.times import Expected


@dataclass(frozen=True, slots=True)
class Priced:
    """A shard as a plan shows it: ``2/5``, its arms, and how many launches and minutes it will take."""

    shard: str
    arms: list[str]
    launches: int
    minutes: float


def part_of(
    wanted: ShardNumber, arranged: Arranged, kept: Sequence[pytest.Item], target: Target, sizes: Sizes
) -> tuple[Shard, list[pytest.Item]]:
    """A shard of an arranged plan, and what of the ``kept`` items is in it; items that are no scenarios are in the first.

    Raises:
        ConfigError: the plan cannot be cut into so many.
    """
    arms = _cut(arranged, target, sizes, wanted.of)
    shard = Shard(
        wanted.number,
        arms,
        [_planned(item) for item in arranged.scenarios],
        asked_of(arranged.verdicts),
        ratios_of(arranged.verdicts),
        [item.nodeid for item in arranged.verdicts],
    )
    own = {item.nodeid for item in of_arms(kept, arms[wanted.number - 1])}
    first = wanted.number == 1
    return shard, [item for item in kept if item.nodeid in own or (first and not is_scenario(item))]


def _planned(item: pytest.Item) -> Planned:
    its = item.stash[launch_id_of]
    return Planned(item.nodeid, item.stash[question_of], kind_of(item) or "", its.arm, its.number, its.build)


def _cut(arranged: Arranged, target: Target, sizes: Sizes, shards: int | None = None) -> list[list[str]]:
    items = arranged.scenarios
    groups = together(items)
    if not groups:
        raise ConfigError("--shard: this plan has no scenario to measure")
    seconds = seconds_of(groups, items, target, sizes)
    return cut(groups, seconds, shards or worthwhile(seconds))


def with_build(shard: Shard, build: BuildUnderTest, whole: bool) -> Shard:
    """The shard with what is installed where it is measured; asks the target's host.

    whole: whether its plan puts every question of its budget.
    """
    facts = plain_facts(build.subject({}))
    return msgspec.structs.replace(
        shard, whole=whole, build=facts, lock=sorted(build.lock), place=dict(build.place)
    )


def priced(
    arranged: Arranged, target: Target, sizes: Sizes, expected: Expected, shards: int | None = None
) -> list[Priced]:
    """All shards of a plan: so many, or as many as make it shorter.

    Raises:
        ConfigError: the plan cannot be cut into so many.
    """
    arms = _cut(arranged, target, sizes, shards)
    seconds = seconds_of(arms, arranged.scenarios, target, sizes, expected)
    return [
        Priced(
            f"{number}/{len(arms)}",
            its,
            len({item.stash[launch_id_of] for item in of_arms(arranged.scenarios, its)}),
            max(0.1, math.ceil(took / 6) / 10),
        )
        for number, (its, took) in enumerate(zip(arms, seconds, strict=True), 1)
    ]
