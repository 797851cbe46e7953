"""The plan in the terminal: what would be launched and played, what it costs, and how small a change it will show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from suite.config import Sizes
from suite.gate.precision import foreseen
from suite.session import first_starts
from suite.session.collection import Arranged, SeriesId, kind_of, launch_id_of, series_of
from suite.session.plan import LaunchId
from suite.session.price import Price, price
from suite.session.settings import Settings
from suite.session.times import Expected
from suite.terminal import table
from suite.terminal.figures import duration, times


def of_plan(
    settings: Settings, arranged: Arranged, expected: Expected, first: Sequence[LaunchId] = ()
) -> list[str]:
    """What would be launched, in order, and what it costs: at the first look, and at worst.

    Args:
        first: launches before them that warm two builds and measure nothing.
    """
    sizes, target = settings.sizes, settings.target
    measuring = list(
        {
            item.nodeid: item
            for item in arranged.items
            if series_of in item.stash and launch_id_of in item.stash
        }.values()
    )
    passes = [item for item in measuring if kind_of(item) == "acceptance"]
    lines = [
        f"target {target.name}: {target.description or target.model}",
        f"budget {settings.budget}, in this order:",
    ]
    for launch_id in (*first, *arranged.launch_ids):
        lines.append(f"  {launch_id}, ready after about {expected.start_s(launch_id.arm):.0f} s")
    lines.append("with these command lines:")
    for arm in dict.fromkeys(launch_id.arm for launch_id in arranged.launch_ids):
        flags = " ".join(target.arm_flags(target.arm(arm)).merge(settings.extra_flags).shown())
        lines.append(f"  {arm}: {flags}")
    if settings.comparing is not None:
        lines += [f"  {name} is {text}" for name, text in settings.comparing.asked.items()]
    source = "measured in former runs" if expected.learned else "estimates of suite.toml"
    lines.append(f"{_cost(price(arranged.items, target, sizes, expected))} ({source})")
    if first:
        took = first_starts.seconds(first, expected)
        lines.append(
            f"and {times(len(first), 'first start', 'first starts')} of about {duration(took)} in all"
        )
    lines += _at_worst(settings, arranged, expected)
    return [*lines, *_price(passes, measuring, sizes)]


def _at_worst(settings: Settings, arranged: Arranged, expected: Expected) -> list[str]:
    """What it costs where rounds scatter and launches leave everything open; nothing if it cannot get dearer."""
    sizes = settings.sizes
    most = sizes.model_copy(update={"rounds": max(sizes.rounds, sizes.rounds_max or 0)})
    why = []
    if most.rounds > sizes.rounds:
        why.append(
            f"{most.rounds} rounds instead of {sizes.rounds}, until a launch's step time or TTFT is known to "
            f"{100 * sizes.precision:g} % (standard error)"
        )
    if sizes.looks > 1:
        why.append(
            f"{sizes.looks} looks, launching again what is undecided and what more launches can settle (never a shift of "
            "all arms together, never acceptance by itself)"
        )
    if not why:
        return []
    worst = price(arranged.scenarios, settings.target, most, expected)
    return [f"at worst {_cost(worst)}: {'; '.join(why)}", "--minutes N sets a limit that holds"]


def _cost(price: Price) -> str:
    return (
        f"{times(price.launches, 'launch', 'launches')}, {times(price.rounds, 'round', 'rounds')}: "
        f"about {duration(price.seconds)}"
    )


def _price(passes: Sequence[pytest.Item], measuring: Sequence[pytest.Item], sizes: Sizes) -> list[str]:
    """The minimum detectable loss of acceptance at 90 % power, by question; told before anything is asked."""
    if not passes:
        return []
    judged: dict[SeriesId, int] = {}
    for item in measuring:
        series = item.stash[series_of]
        judged[series.ratio_of() if series.ratio else series] = len(series.metrics)
    tests = sum(judged.values())
    rows: list[tuple[str, str, str]] = []
    for item in passes:
        prompts = sizes.prompts_of(_context(item))
        change = foreseen(prompts, sizes.max_tokens, tests)
        row = (f"  {item.stash[series_of].question}", str(prompts), f"{100 * change:.1f} %")
        rows += [row] if row not in rows else []
    head = ("acceptance, prompt by prompt", "prompts", "minimum detectable loss (90 % power)")
    asked = f"prompts of {sizes.max_tokens} tokens, for two builds whose answers differ; far less if the answers are the same"
    return [
        "",
        *table.lines(head, rows, right=range(1, 3)),
        f"  ({asked}; acceptance_prompts in the budget sets the number)",
    ]


def _context(item: pytest.Item) -> int | None:
    context = item.callspec.params.get("context")  # type: ignore[attr-defined]
    return context if isinstance(context, int) else None
