"""From scenario functions to pytest items: one a launch, in launch order, and a verdict item for each series."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from suite.config import Sizes, Target
from suite.plan import Slot, alternate

SIZED: dict[str, tuple[str, str]] = {
    "concurrency": ("concurrencies", "c{}"),
    "context": ("contexts", "{}"),
    "kind": ("kinds", "{}"),
}
"""Arguments of a scenario that take their values from the budget: name to (key in ``[budgets]``, id)."""

slot_of = pytest.StashKey[Slot]()
series_of = pytest.StashKey["SeriesId"]()
verdict_of = pytest.StashKey["SeriesId"]()


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric of one arm over the same metric of another, in the same run."""

    metric: str
    numerator: str
    denominator: str


@dataclass(frozen=True, slots=True)
class SeriesId:
    """What is judged as one: a question (a scenario with its sizes) put to one arm."""

    question: str
    arm: str
    metrics: tuple[str, ...] = field(compare=False, default=())
    ratio: Ratio | None = field(compare=False, default=None)

    def __str__(self) -> str:
        return f"{self.question} {self.arm}"

    def ratio_of(self) -> SeriesId:
        """The series that is judged where this one is a part of a ratio: it goes by the numerator's arm."""
        assert self.ratio is not None
        return SeriesId(self.question, self.ratio.numerator, self.metrics, self.ratio)


def parametrize(metafunc: pytest.Metafunc, target: Target, sizes: Sizes) -> None:
    """Give a scenario its arms, its sizes and its launches, in this order, so that ids read
    ``[mtp-on-c4-launch2]``."""
    names = metafunc.fixturenames
    marker = metafunc.definition.get_closest_marker("arms")
    if "arm" not in names or marker is None:
        return
    arms = [_arm_param(name, target) for name in marker.args]
    metafunc.parametrize("arm", arms, scope="function")
    own = {
        name: values
        for mark in metafunc.definition.iter_markers("sized")
        for name, values in mark.kwargs.items()
    }
    for argument, (key, label) in SIZED.items():
        if argument in metafunc.definition._fixtureinfo.argnames:
            values = own.get(argument, getattr(sizes, key))
            metafunc.parametrize(argument, values, ids=[label.format(value) for value in values])
    once = metafunc.definition.get_closest_marker("once") is not None
    launches = range(1, (1 if once else sizes.launches * sizes.looks) + 1)
    metafunc.parametrize("launch", launches, ids=[f"launch{number}" for number in launches])


def _arm_param(name: str, target: Target) -> Any:
    if name in target.arms:
        return pytest.param(name, id=name)
    reason = (
        f"target {target.name!r} has no arm {name!r}; add [targets.{target.name}.arms.{name}] to suite.toml"
    )
    return pytest.param(name, id=name, marks=pytest.mark.skip(reason=reason))


@dataclass(slots=True)
class Arranged:
    """Items in the order to run them; ``later`` are launches that only an undecided look asks for."""

    items: list[pytest.Item]
    later: list[pytest.Item]
    slots: list[Slot]


def arrange(
    items: Sequence[pytest.Item], target: Target, sizes: Sizes, judge: Callable[[pytest.Item], None]
) -> Arranged:
    """Order collected items: others first, then scenarios launch by launch, then the verdicts.

    Arms come in the order of suite.toml; within a launch what asserts (``once``) comes before what measures.

    ``judge`` is called with a verdict item when that runs.
    """
    others = [item for item in items if not _is_scenario(item)]
    scenarios = [item for item in items if _is_scenario(item)]
    for item in scenarios:
        _note(item)
    order = {slot: place for place, slot in enumerate(alternate(_by_arm(scenarios, list(target.arms))))}
    scenarios.sort(key=lambda item: (order[item.stash[slot_of]], item.get_closest_marker("once") is None))
    now = [item for item in scenarios if item.stash[slot_of].launch <= sizes.launches]
    later = [item for item in scenarios if item.stash[slot_of].launch > sizes.launches]
    slots = list(dict.fromkeys(item.stash[slot_of] for item in now))
    return Arranged([*others, *now, *_verdict_items(now, judge)], later, slots)


def _by_arm(scenarios: Iterable[pytest.Item], arms: Sequence[str]) -> list[Slot]:
    """Slots with the arms of single launches first, so that the arms to be compared stay side by side."""
    slots = [item.stash[slot_of] for item in scenarios]
    repeated = {item.stash[slot_of].arm for item in scenarios if item.get_closest_marker("once") is None}
    place = {arm: index for index, arm in enumerate(arms)}
    return sorted(slots, key=lambda slot: (slot.arm in repeated, place.get(slot.arm, len(place))))


def _is_scenario(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and {"arm", "launch"} <= set(callspec.params)


def _note(item: pytest.Item) -> None:
    """Note on an item which launch it needs and which series it belongs to."""
    params = item.callspec.params  # type: ignore[attr-defined]
    item.stash[slot_of] = Slot(params["arm"], params["launch"])
    judges = item.get_closest_marker("judges")
    if judges is None:
        return
    sizes = "-".join(SIZED[name][1].format(params[name]) for name in SIZED if name in params)
    function = item.originalname.removeprefix("test_")  # type: ignore[attr-defined]
    ratio = item.get_closest_marker("ratio")
    item.stash[series_of] = SeriesId(
        question=f"{function}[{sizes}]" if sizes else function,
        arm=params["arm"],
        metrics=tuple(judges.args),
        ratio=Ratio(*ratio.args) if ratio else None,
    )


def _verdict_items(items: Sequence[pytest.Item], judge: Callable[[pytest.Item], None]) -> list[pytest.Item]:
    """One item for each series that is judged, and one for each pair of arms whose ratio is."""
    verdicts: dict[SeriesId, pytest.Item] = {}
    for item in items:
        series = item.stash.get(series_of, None)
        if series is None or any(mark.name == "skip" for mark in item.iter_markers()):
            continue
        judged = series.ratio_of() if series.ratio else series
        if judged not in verdicts:
            verdicts[judged] = _verdict_item(item, judged, judge)
    return list(verdicts.values())


def _verdict_item(source: pytest.Item, series: SeriesId, judge: Callable[[pytest.Item], None]) -> pytest.Item:
    parameters = source.callspec.id.rsplit("-launch", 1)[0]  # type: ignore[attr-defined]
    if series.ratio:
        parameters = parameters.removeprefix(f"{source.stash[slot_of].arm}").lstrip("-")
    label = f"{parameters}-verdict" if parameters else "verdict"
    name = source.originalname  # type: ignore[attr-defined]

    def verdict() -> None:
        judge(item)

    verdict.__doc__ = f"Judge {series.question}, {series.arm}, over all its launches."
    item: pytest.Function = pytest.Function.from_parent(
        source.parent, name=f"{name}[{label}]", callobj=verdict
    )
    for mark in source.iter_markers():
        if mark.name not in ("parametrize", "arms", "sized", "judges", "ratio", "usefixtures"):
            item.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))
    item.stash[verdict_of] = series
    return item
