"""The plan in the terminal: what would be launched and played, what it costs, and how small a change it will show."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from suite.config import Sizes
from suite.gate.precision import foreseen
from suite.session.collection import Arranged, SeriesId, kind_of, series_of, slot_of
from suite.session.plan import cost, rounds_of_a_pass
from suite.session.settings import Settings
from suite.terminal.figures import columns, times


def of_plan(settings: Settings, arranged: Arranged) -> list[str]:
    """What would be launched, in order, and what it costs."""
    sizes, target = settings.sizes, settings.target
    measuring = list(
        {
            item.nodeid: item for item in arranged.items if series_of in item.stash and slot_of in item.stash
        }.values()
    )
    passes = [item for item in measuring if kind_of(item) == "acceptance"]
    rounds = (len(measuring) - len(passes)) * sizes.rounds
    shares = [
        rounds_of_a_pass(prompts, sizes.acceptance_clients, sizes.requests)
        for prompts in (sizes.prompts_of(_context(item)) for item in passes)
    ]
    estimate = cost(
        len(arranged.slots), rounds + sum(shares), target.start_estimate_s, sizes.round_estimate_s
    )
    lines = [f"target {target.name}: {target.description}", f"budget {settings.budget}, in this order:"]
    for slot in arranged.slots:
        flags = " ".join(target.arm_flags(target.arm(slot.arm)).merge(settings.extra_flags).shown())
        lines.append(f"  {slot}: {flags}")
    lines.append(
        f"{times(estimate.launches, 'launch', 'launches')} of about {target.start_estimate_s:g} s, "
        f"{times(rounds, 'round', 'rounds')} of about {sizes.round_estimate_s:g} s, "
        f"{times(len(passes), 'acceptance pass', 'acceptance passes')}: about {estimate.minutes:.0f} minutes"
    )
    if sizes.rounds_max is not None and sizes.rounds_max > sizes.rounds:
        lines.append(
            f"up to {sizes.rounds_max} rounds in place of {sizes.rounds}, until a launch's step time or TTFT is known to "
            f"{100 * sizes.precision:g} % (standard error)"
        )
    if sizes.looks > 1:
        lines.append(f"undecided arms are launched again, up to {sizes.looks * sizes.launches} times each")
    return [*lines, *_price(passes, measuring, sizes)]


def _price(passes: Sequence[pytest.Item], measuring: Sequence[pytest.Item], sizes: Sizes) -> list[str]:
    """How small a loss of acceptance nine of ten such runs will call, by question; told before anything is asked."""
    if not passes:
        return []
    judged: dict[SeriesId, int] = {}
    for item in measuring:
        series = item.stash[series_of]
        judged[series.ratio_of() if series.ratio else series] = len(series.metrics)
    tests = sum(judged.values())
    rows = []
    for item in passes:
        prompts = sizes.prompts_of(_context(item))
        change = foreseen(prompts, sizes.max_tokens, tests)
        rows.append((f"  {item.stash[series_of].question}", str(prompts), f"{100 * change:.1f} %"))
    head = ("acceptance, prompt by prompt", "prompts", "smallest loss that nine of ten runs call")
    asked = f"prompts of {sizes.max_tokens} tokens, of two builds whose answers part; of answers that stay the same far less"
    return [
        "",
        *columns([head, *rows], right=range(1, 3)),
        f"  ({asked}; acceptance_prompts in the budget sets the number)",
    ]


def _context(item: pytest.Item) -> int | None:
    context = item.callspec.params.get("context")  # type: ignore[attr-defined]
    return context if isinstance(context, int) else None
