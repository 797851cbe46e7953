"""Was a card slowed while it worked? Samples of a round to evidence: a pure function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from suite.probes.gpus.query import Gpu

SERIOUS = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, both thermal slowdowns, power brake: never part of normal work."""

BUSY_PERCENT = 50.0
CLOCK_FALL = 0.05
"""A fall of the SM clock within a round that counts even without a reason: story 14 was 20 % for 15 % of speed."""


@dataclass(frozen=True, slots=True)
class Throttling:
    """Evidence that a card was slowed: why, in how many of its busy samples, and its SM clocks meanwhile (MHz)."""

    gpu: int
    reasons: tuple[str, ...]
    samples: int
    busy: int
    clock_first_mhz: float | None
    clock_last_mhz: float | None
    hottest_c: float | None

    def __str__(self) -> str:
        why = ", ".join(self.reasons)
        said = f"GPU {self.gpu}: {why} in {self.samples} of {self.busy} busy samples"
        if self.clock_first_mhz and self.clock_last_mhz:
            said += f", SM clock {self.clock_first_mhz:g} -> {self.clock_last_mhz:g} MHz"
        return said + (f", up to {self.hottest_c:g} C" if self.hottest_c is not None else "")


def throttled(samples: Iterable[Sequence[Gpu]]) -> list[Throttling]:
    """The cards that were slowed while they were busy, with the evidence; empty when none was.

    Counted: a hardware or thermal reason in any busy sample; an SM clock whose median over the last third
    of the busy samples is more than 5 % below that over the first third. Being at the power limit is not
    counted by itself, because these cards work there all the time: it shows when the clock falls.
    """
    by_card: dict[int, list[Gpu]] = {}
    for sample in samples:
        for gpu in sample:
            if gpu.utilization_percent is None or gpu.utilization_percent >= BUSY_PERCENT:
                by_card.setdefault(gpu.index, []).append(gpu)
    found = [_evidence(index, busy) for index, busy in sorted(by_card.items())]
    return [evidence for evidence in found if evidence is not None]


def _evidence(index: int, busy: list[Gpu]) -> Throttling | None:
    serious = [gpu for gpu in busy if (gpu.reasons or 0) & SERIOUS]
    clocks = [gpu.sm_clock_mhz for gpu in busy if gpu.sm_clock_mhz is not None]
    third = len(clocks) // 3
    first = median(clocks[:third]) if third else None
    last = median(clocks[-third:]) if third else None
    fell = first is not None and last is not None and last < first * (1 - CLOCK_FALL)
    if not serious and not fell:
        return None
    named = {reason: None for gpu in busy for reason in gpu.slowed_by if gpu in serious or fell}
    reasons = tuple(named) or ("SM clock fell",)
    temperatures = [gpu.temperature_c for gpu in busy if gpu.temperature_c is not None]
    return Throttling(
        gpu=index,
        reasons=reasons,
        samples=len(serious) or len(busy),
        busy=len(busy),
        clock_first_mhz=first,
        clock_last_mhz=last,
        hottest_c=max(temperatures, default=None),
    )
