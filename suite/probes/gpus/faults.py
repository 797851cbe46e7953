"""Cards that do not tell what they must: one that asks for a reset or is gone, and one that keeps a figure to itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from suite.probes.gpus.query import FIELDS, Gpu

WATCHED = frozenset({"temperature_c", "power_w", "sm_clock_mhz", "reasons", "utilization_percent"})
"""Figures without which nobody sees a card being slowed: a card must tell them, whatever others of its kind do."""

_BROKEN = re.compile(
    r"requires? reset|reset (?:is )?required|needs? (?:a )?reset|is lost|fallen off|ERR!|unknown error|no longer|inaccessible",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CardFault:
    """One card and the words it answers in place of numbers. ``broken``: it is gone or asks for a reset."""

    gpu: int
    said: str
    fields: tuple[str, ...]
    broken: bool

    def __str__(self) -> str:
        shown = ", ".join(self.fields[:3]) + (
            f" and {len(self.fields) - 3} more" if len(self.fields) > 3 else ""
        )
        return f"GPU {self.gpu} answers {self.said or 'nothing'} for {shown}"

    @property
    def todo(self) -> str:
        """What to do about it."""
        if self.broken:
            return f"reset it (sudo nvidia-smi --gpu-reset -i {self.gpu}) or reboot; what runs on it is lost"
        return f"see nvidia-smi -q -i {self.gpu}: without these a slowed card is not seen"


def card_faults(gpus: Sequence[Gpu]) -> list[CardFault]:
    """The cards that answer words where others, or any sound card, answer numbers."""
    return [fault for gpu in gpus if (fault := _fault(gpu, gpus))]


def _fault(gpu: Gpu, gpus: Sequence[Gpu]) -> CardFault | None:
    broken = {name: said for name, said in gpu.silent.items() if _BROKEN.search(said)}
    told_by_others = {name for other in gpus for name in FIELDS if name not in other.silent}
    kept = {
        name: said
        for name, said in gpu.silent.items()
        if name in WATCHED or (len(gpus) > 1 and name in told_by_others)
    }
    found = broken or kept
    if not found:
        return None
    said = next(iter(found.values()))
    fields = tuple(FIELDS[name] for name, words in found.items() if words == said)
    return CardFault(gpu.index, said, fields, broken=bool(broken))
