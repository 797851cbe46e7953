"""Cards as data: those that can be pretended by name, and those that a machine's own nvidia-smi tells of."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

import msgspec

from suite.probes.gpus import Gpus
from suite.rehearsal.errors import UnknownCards


class Card(msgspec.Struct, frozen=True):
    """One kind of card: what nvidia-smi and torch tell of it. ``multiprocessors`` is ``None`` where nobody knows."""

    name: str
    capability: str
    memory_mib: int
    multiprocessors: int | None = None


class Cards(msgspec.Struct, frozen=True):
    """The cards of a machine, all alike."""

    card: Card
    count: int

    def __str__(self) -> str:
        card = self.card
        return f"{self.count} x {card.name}, sm {card.capability}, {card.memory_mib} MiB"


@cache
def known() -> dict[str, Card]:
    """The cards that can be pretended, by the name one writes on a command line."""
    tables = tomllib.loads((files("suite.rehearsal") / "cards.toml").read_text("utf-8"))
    return {name: msgspec.convert(table, Card) for name, table in tables.items()}


def parse(text: str) -> Cards | None:
    """``rtx-pro-6000x8`` as eight such cards, ``h200`` as one; ``none`` as ``None``: the machine as it is.

    Raises:
        UnknownCards: there is no such card, or none of it; the text lists those there are.
    """
    if text == "none":
        return None
    found = re.fullmatch(r"(.+?)(?:x(\d{1,4}))?", text.strip().lower())
    count = int(found[2] or 1) if found else 0
    if found is None or found[1] not in known() or count < 1:
        raise UnknownCards(
            f"cards {text!r} are not known; write NAMExCOUNT (rtx-pro-6000x8) with one of {', '.join(known())}, or none"
        )
    return Cards(known()[found[1]], count)


def of_machine(found: Gpus) -> Cards | None:
    """The cards that nvidia-smi tells of, as such an entry; ``None`` where it tells too little, or of different ones.

    Multiprocessors are not among nvidia-smi's fields: they are taken over from a known card of the same name.
    """
    kinds = {(gpu.name, gpu.compute_capability, gpu.memory_total_mib) for gpu in found.gpus}
    if len(kinds) != 1:
        return None
    ((name, capability, memory_mib),) = kinds
    if not name or capability is None or memory_mib is None:
        return None
    alike = next((card for card in known().values() if card.name == name), None)
    card = Card(name, capability, int(memory_mib), alike.multiprocessors if alike else None)
    return Cards(card, len(found.gpus))
