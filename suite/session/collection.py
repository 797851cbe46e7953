"""From scenario functions to pytest items: one per launch, in launch order, and a verdict item for each series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pytest
from _pytest.compat import NOTSET

from suite import metrics
from suite.config import KINDS, Sizes, Target
from suite.gate import Asked, Claim
from suite.session.plan import LaunchId, alternate

SIZED: dict[str, tuple[str, str]] = {
    "concurrency": ("concurrencies", "c{}"),
    "context": ("contexts", "{}"),
    "kind": ("kinds", "{}"),
    "temperature": ("temperatures", "t{:g}"),
    "traffic": ("traffic", "{}"),
}
"""Arguments of a scenario that take their values from the budget: name to (key in ``[budgets]``, id).

``traffic`` takes the names of the target's tables instead.
"""

launch_id_of = pytest.StashKey[LaunchId]()
question_of = pytest.StashKey[str]()
"""What an item asks: its scenario with its sizes."""
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
    claims: Mapping[str, tuple[float, str]] = field(compare=False, default_factory=dict)
    """By metric the least it must be whatever the baseline says, and what it means if it is not."""

    def __str__(self) -> str:
        return f"{self.question} {self.arm}"

    def ratio_of(self) -> SeriesId:
        """The series that is judged where this one is a part of a ratio: it goes by the numerator's arm."""
        assert self.ratio is not None
        return SeriesId(self.question, self.ratio.numerator, self.metrics, self.ratio, self.claims)


def parametrize(
    metafunc: pytest.Metafunc,
    target: Target,
    sizes: Sizes,
    builds: Sequence[str] = (),
    arms_for: Callable[[Sequence[str]], list[str]] | None = None,
) -> None:
    """Give a scenario its arms, its sizes, its builds where two are compared, and its launches, in this order.

    Ids read ``[mtp-on-c4-launch2]`` and ``[mtp-on-c4-candidate-launch2]``. ``arms_for`` says which arms the names of
    a marker stand for, where that is not the target's table: on a server that runs already.
    """
    names = metafunc.fixturenames
    marker = metafunc.definition.get_closest_marker("arms")
    if "arm" not in names or marker is None:
        return
    named = arms_for or (lambda names: [arm for name in names for arm in _arms_like(name, target)])
    arms = [_arm_param(name, target) for name in named(marker.args)]
    metafunc.parametrize("arm", arms, scope="function")
    own = {
        name: values
        for mark in metafunc.definition.iter_markers("sized")
        for name, values in mark.kwargs.items()
    }
    for argument, (key, label) in SIZED.items():
        if argument in metafunc.definition._fixtureinfo.argnames:
            there = list(target.traffic) if argument == "traffic" else getattr(sizes, key)
            values = own.get(argument, there)
            metafunc.parametrize(argument, values, ids=[label.format(value) for value in values])
    if builds and "build" in names:
        metafunc.parametrize("build", builds)
    once = metafunc.definition.get_closest_marker("once") is not None
    launches = range(1, (1 if once else sizes.launches * sizes.looks) + 1)
    metafunc.parametrize("launch", launches, ids=[f"launch{number}" for number in launches])


def _arms_like(pattern: str, target: Target) -> list[str]:
    """The arms that a name stands for: itself, or with ``*`` all of the target's that fit."""
    return [name for name in target.arms if fnmatchcase(name, pattern)] if "*" in pattern else [pattern]


def _arm_param(name: str, target: Target) -> Any:
    if name in target.arms:
        return pytest.param(name, id=name)
    reason = (
        f"target {target.name!r} has no arm {name!r}; add [targets.{target.name}.arms.{name}] to suite.toml"
    )
    return pytest.param(name, id=name, marks=pytest.mark.skip(reason=reason))


def within_budget(items: Sequence[pytest.Item], sizes: Sizes) -> tuple[list[pytest.Item], Counter[str]]:
    """The items that a budget holds, and how many scenarios of each kind it leaves out.

    Left out are kinds that it does not name, and scenarios for which its list of sizes, or the target's list of
    arms, is empty.
    """
    kept: list[pytest.Item] = []
    left_out: dict[str, set[str]] = {}
    for item in items:
        kind = kind_of(item)
        params = getattr(getattr(item, "callspec", None), "params", {})
        empty = any(value is NOTSET for value in params.values())
        if kind is None or (kind in sizes.scenarios and not empty):
            kept.append(item)
        else:
            left_out.setdefault(kind, set()).add(item.nodeid.rsplit("-launch", 1)[0])
    return kept, Counter({kind: len(names) for kind, names in left_out.items()})


def kind_of(item: pytest.Item) -> str | None:
    """What a scenario asks about; ``None`` for an item that is none."""
    return next((kind for kind in KINDS if item.get_closest_marker(kind)), None)


@dataclass(slots=True)
class Arranged:
    """Items in the order to run them; ``later`` are launches that only an undecided look asks for."""

    items: list[pytest.Item]
    later: list[pytest.Item]
    launch_ids: list[LaunchId]

    @property
    def scenarios(self) -> list[pytest.Item]:
        """All items that need a launch, those of later looks last."""
        return [item for item in (*self.items, *self.later) if launch_id_of in item.stash]

    @property
    def verdicts(self) -> list[pytest.Item]:
        """The items that judge."""
        return [item for item in self.items if verdict_of in item.stash]


def arrange(
    items: Sequence[pytest.Item], target: Target, sizes: Sizes, judge: Callable[[pytest.Item], None]
) -> Arranged:
    """Order collected items: others first, then scenarios launch by launch, then the verdicts.

    Arms come in the order of suite.toml; within a launch what asserts (``once``) comes before what measures.

    ``judge`` is called with a verdict item when that runs.
    """
    others = [item for item in items if not is_scenario(item)]
    scenarios = [item for item in items if is_scenario(item)]
    for item in scenarios:
        if launch_id_of not in item.stash:
            _note(item, target)
    order = {
        launch_id: place for place, launch_id in enumerate(alternate(_by_arm(scenarios, list(target.arms))))
    }
    scenarios.sort(
        key=lambda item: (order[item.stash[launch_id_of]], item.get_closest_marker("once") is None)
    )
    now = [item for item in scenarios if item.stash[launch_id_of].number <= sizes.launches]
    later = [item for item in scenarios if item.stash[launch_id_of].number > sizes.launches]
    launch_ids = list(
        dict.fromkeys(launch_id for item in now if (launch_id := item.stash[launch_id_of]).arm in target.arms)
    )
    return Arranged([*others, *now, *_verdict_items(now, judge)], later, launch_ids)


def _by_arm(scenarios: Iterable[pytest.Item], arms: Sequence[str]) -> list[LaunchId]:
    """Slots with the arms of single launches first, so that the arms to be compared stay side by side."""
    launch_ids = [item.stash[launch_id_of] for item in scenarios]
    repeated = {item.stash[launch_id_of].arm for item in scenarios if item.get_closest_marker("once") is None}
    place = {arm: index for index, arm in enumerate(arms)}
    return sorted(
        launch_ids, key=lambda launch_id: (launch_id.arm in repeated, place.get(launch_id.arm, len(place)))
    )


def is_scenario(item: pytest.Item) -> bool:
    """Is this an item that is put to a launch of an arm?"""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and {"arm", "launch"} <= set(callspec.params)


def _note(item: pytest.Item, target: Target) -> None:
    """Note on an item which launch it needs, which series it belongs to, and whether it is known to fail."""
    params = item.callspec.params  # type: ignore[attr-defined]
    arm = target.launched_as(params["arm"]) if params["arm"] in target.arms else params["arm"]
    item.stash[launch_id_of] = LaunchId(arm, params["launch"], params.get("build", ""))
    known = target.known.get(item.originalname.removeprefix("test_"))  # type: ignore[attr-defined]
    if known is not None:
        item.add_marker(pytest.mark.xfail(reason=f"known: {known}", strict=True))
    sizes = "-".join(SIZED[name][1].format(params[name]) for name in SIZED if name in params)
    function = item.originalname.removeprefix("test_")  # type: ignore[attr-defined]
    item.stash[question_of] = f"{function}[{sizes}]" if sizes else function
    judges = item.get_closest_marker("judges")
    if judges is None:
        return
    _check_markers(item, target)
    ratio = item.get_closest_marker("ratio")
    item.stash[series_of] = SeriesId(
        question=item.stash[question_of],
        arm=params["arm"],
        metrics=tuple(judges.args),
        ratio=Ratio(*ratio.args) if ratio else None,
        claims=_claims(item, target, params),
    )


def _check_markers(item: pytest.Item, target: Target) -> None:
    """Raise UsageError for a marker that names a metric, an arm or a floor that is not there: it would judge nothing."""
    judged = [str(name) for mark in item.iter_markers("judges") for name in mark.args]
    ratios = [mark.args[0] for mark in item.iter_markers("ratio") if mark.args]
    claims = list(item.iter_markers("claims"))
    named = [("judges", name) for name in judged] + [("ratio", name) for name in ratios]
    for marker, name in named + [("claims", str(mark.kwargs.get("metric"))) for mark in claims]:
        try:
            metrics.require_known([name])
        except metrics.UnknownMetric as unknown:
            raise _misused(item, marker, str(unknown)) from None
        if marker == "judges" and metrics.METRICS[name].better == "neutral":
            raise _misused(
                item, marker, f"{name!r} is never judged: it is neither good nor bad when it moves"
            )
    for mark in claims:
        if mark.kwargs["metric"] not in judged:
            wants = f"{mark.kwargs['metric']!r} is not judged here; name it in judges(...) too"
            raise _misused(item, "claims", wants)
        if not hasattr(target, str(mark.kwargs.get("floor"))):
            raise _misused(item, "claims", f"a target has no floor {mark.kwargs.get('floor')!r}")
    if not judged:
        raise _misused(item, "judges", "it names no metric")


def _misused(item: pytest.Item, marker: str, what: str) -> pytest.UsageError:
    where = item.nodeid.partition("[")[0]
    return pytest.UsageError(f"{where}: @pytest.mark.{marker}: {what}")


def _claims(item: pytest.Item, target: Target, params: Mapping[str, Any]) -> dict[str, tuple[float, str]]:
    """What ``claims`` markers ask of a series: they hold where their sizes are the item's."""
    return {
        mark.kwargs["metric"]: (getattr(target, mark.kwargs["floor"]), mark.kwargs["otherwise"])
        for mark in item.iter_markers("claims")
        if all(params.get(name) == value for name, value in mark.kwargs.get("where", {}).items())
    }


def asked_of(items: Iterable[pytest.Item]) -> list[Asked]:
    """What the verdict items among these ask the gate to judge."""
    return [
        Asked(
            question=series.question,
            arm=series.arm,
            metrics=list(series.metrics),
            claims=[Claim(metric, floor, otherwise) for metric, (floor, otherwise) in series.claims.items()],
            parts=[series.ratio.numerator, series.ratio.denominator] if series.ratio else [],
        )
        for item in items
        if (series := item.stash.get(verdict_of, None)) is not None
    ]


def ratios_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """By question of the verdict items that judge a ratio, the metric that is divided."""
    judged = [item.stash[verdict_of] for item in items if verdict_of in item.stash]
    return {series.question: series.ratio.metric for series in judged if series.ratio is not None}


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


def verdict_name(item: pytest.Item) -> str | None:
    """The name of the verdict on what an item measures; ``None`` where nothing of it is judged."""
    if not is_scenario(item) or item.get_closest_marker("judges") is None:
        return None
    callspec = item.callspec  # type: ignore[attr-defined]
    parameters = str(callspec.id).rsplit("-launch", 1)[0]
    if build := callspec.params.get("build"):
        parameters = parameters.removesuffix(f"-{build}")
    if item.get_closest_marker("ratio"):
        parameters = parameters.removeprefix(callspec.params["arm"]).lstrip("-")
    label = f"{parameters}-verdict" if parameters else "verdict"
    return f"{item.originalname}[{label}]"  # type: ignore[attr-defined]


def _verdict_item(source: pytest.Item, series: SeriesId, judge: Callable[[pytest.Item], None]) -> pytest.Item:
    name = verdict_name(source)
    assert name is not None

    def verdict() -> None:
        judge(item)

    verdict.__doc__ = f"Judge {series.question}, {series.arm}, over all its launches."
    item: pytest.Function = pytest.Function.from_parent(source.parent, name=name, callobj=verdict)
    for mark in source.iter_markers():
        if mark.name not in (
            "parametrize",
            "arms",
            "sized",
            "judges",
            "ratio",
            "claims",
            "xfail",
            "usefixtures",
        ):
            item.add_marker(getattr(pytest.mark, mark.name)(*mark.args, **mark.kwargs))
    item.stash[verdict_of] = series
    return item
