"""What items will take before they are run: launches, rounds and seconds, nothing counted twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from suite.config import Sizes, Target
from suite.load import Prompt, Workload
from suite.session.asked import PlannedWorkload, asked_for, asked_of_each
from suite.session.collection import launch_id_of, question_of
from suite.session.plan import LaunchId, rounds_of_a_pass
from suite.session.times import Expected

PROMPT_OF_A_CONTEXT = Prompt("price", "prose", ({"role": "user", "content": "a prompt of some length"},))


@dataclass(slots=True)
class ItemDemand:
    """What an item asks for when it runs: calls of ``measure``, and seconds of long runs."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    once: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Calls of ``each_prompt``."""
    steady_s: float = 0.0


class _Anything:
    """Stands in for whatever a scenario is given and does with it, as long as no real figure is needed."""

    def __call__(self, *given: Any, **named: Any) -> _Anything:
        return self

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, name: Any) -> _Anything:
        return self

    def __iter__(self) -> Iterator[_Anything]:
        return iter((self, self))


class _Dry(_Anything):
    """Stands in for ``measure``: notes what would be played, and measures nothing."""

    def __init__(self, wanted: ItemDemand, target: Target, rounds: int) -> None:
        self._wanted = wanted
        self._target = target
        self._rounds = rounds

    def traffic(self, name: str) -> _Anything:
        """Once at its pace, and a search that plays it faster and so in about twice that time again."""
        self._wanted.steady_s += 3.0 * (self._target.traffic[name].seconds or 60.0) * self._rounds
        return self

    def __call__(self, workload: Any = "prose", **sizes: Any) -> _Anything:
        self._wanted.calls.append((workload if isinstance(workload, str) else "prose", sizes))
        return self

    def __getattr__(self, name: str) -> _Anything:
        return _Anything()

    def each_prompt(self, workload: Any = "prose", **sizes: Any) -> _Anything:
        self._wanted.once.append((workload if isinstance(workload, str) else "prose", sizes))
        return _Anything()

    def steadily(self, workload: Any, *, seconds: float, **sizes: Any) -> _Anything:
        self._wanted.steady_s += seconds
        return self


_known = pytest.StashKey[ItemDemand]()


def wanted_by(item: pytest.Item, target: Target, sizes: Sizes) -> ItemDemand:
    """What a scenario would play: its function is called with stand-ins for all fixtures, up to where they fail it."""
    if _known in item.stash:
        return item.stash[_known]
    wanted = item.stash[_known] = ItemDemand()
    names = item._fixtureinfo.argnames if isinstance(item, pytest.Function) else ()
    if "trial" in names:
        wanted.calls.append(("code", {}))
    if "measure" in names and isinstance(item, pytest.Function):
        given = {
            "measure": _Dry(wanted, target, sizes.rounds),
            "target": target,
            "sizes": sizes,
            **item.callspec.params,
        }
        try:
            item.function(**{name: given.get(name, _Anything()) for name in names})
        except (Exception, pytest.skip.Exception, pytest.fail.Exception):
            return wanted  # it wants real figures from here on
    return wanted


@dataclass(frozen=True, slots=True)
class Price:
    """What a plan takes. ``of_item``: seconds by item, its launch left out; ``of_launch``: by launch, start and end.

    ``plays``: by item the workloads that it needs, whoever has them played.
    """

    launches: int
    rounds: int
    of_item: Mapping[str, float]
    of_launch: Mapping[LaunchId, float]
    plays: Mapping[str, frozenset[tuple[LaunchId, str]]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """All in all."""
        return sum(self.of_item.values()) + sum(self.of_launch.values())


def price(items: Iterable[pytest.Item], target: Target, sizes: Sizes, expected: Expected) -> Price:
    """What these items take; rounds that a launch has played for one item are not counted for the next."""
    of_item: dict[str, float] = {}
    of_launch: dict[LaunchId, float] = {}
    plays: dict[str, frozenset[tuple[LaunchId, str]]] = {}
    rounds = 0
    seen: set[tuple[LaunchId, str]] = set()
    for item in items:
        launch_id = item.stash.get(launch_id_of, None)
        if launch_id is None or launch_id.arm not in target.arms:
            continue
        if launch_id not in of_launch:
            of_launch[launch_id] = expected.start_s(launch_id.arm) + expected.end_s
        wanted = wanted_by(item, target, sizes)
        needed = _asked(item, wanted, sizes)
        plays[item.nodeid] = frozenset((launch_id, asked.key) for asked in needed)
        fresh = [asked for asked in needed if (launch_id, asked.key) not in seen]
        seen |= plays[item.nodeid]
        rounds += sum(asked.rounds for asked in fresh)
        played = sum(_seconds(asked, launch_id.arm, sizes, expected) for asked in fresh)
        guess = wanted.steady_s if needed or wanted.steady_s else sizes.round_estimate_s
        of_item[item.nodeid] = played + expected.item_s(launch_id.arm, item.stash[question_of], guess)
    return Price(len(of_launch), rounds, of_item, of_launch, plays)


def _seconds(asked: PlannedWorkload, arm: str, sizes: Sizes, expected: Expected) -> float:
    """What a workload takes, warm-up and all; a round of the estimate has ``requests`` answers, one after the other."""
    if asked.counts_only:
        as_rounds = rounds_of_a_pass(asked.workload.requests or 1, asked.concurrency, sizes.requests)
        return expected.round_s(arm, asked.load, as_rounds)
    return expected.warmup_s(arm, asked.load) + asked.rounds * expected.round_s(arm, asked.load)


_asked_before = pytest.StashKey[dict[int, list[PlannedWorkload]]]()


def _asked(item: pytest.Item, wanted: ItemDemand, sizes: Sizes) -> list[PlannedWorkload]:
    """The workloads of an item; plans that are compared differ in their rounds alone."""
    known = item.stash.setdefault(_asked_before, {})
    if sizes.rounds not in known:
        known[sizes.rounds] = [
            asked_for(sizes, _stand_in(workload, call.get("context"), sizes), **call)
            for workload, call in wanted.calls
        ] + [
            asked_of_each(sizes, _stand_in(workload, call.get("context"), sizes), **call)
            for workload, call in wanted.once
        ]
    return known[sizes.rounds]


def _stand_in(workload: str, context: int | None, sizes: Sizes) -> str | Workload:
    """Prompts of a number of tokens are made with the server's help, which is not up yet."""
    if not context:
        return workload
    return Workload(f"long-{context}", (PROMPT_OF_A_CONTEXT,) * sizes.prompts_of(context))
