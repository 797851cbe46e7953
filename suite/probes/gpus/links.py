"""What does not change while a card computes, and decides how fast it can: its PCIe link, ECC, and how cards reach each other."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from suite.hosts import Host
from suite.probes.gpus.query import NoGpus, ask, number, rows, run

FIELDS: Mapping[str, str] = {
    "index": "index",
    "gen": "pcie.link.gen.current",
    "gen_max": "pcie.link.gen.max",
    "width": "pcie.link.width.current",
    "width_max": "pcie.link.width.max",
    "ecc": "ecc.mode.current",
    "ecc_errors": "ecc.errors.uncorrected.volatile.total",
    "utilization_percent": "utilization.gpu",
}

_CELL = re.compile(r"^(X|SYS|NODE|PHB|PXB|PIX|NV\d+)$")
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # the head is underlined
NEAREST_FIRST = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""How two cards reach each other, the shortest way first (``nvidia-smi topo -m``, its legend)."""


@dataclass(frozen=True, slots=True)
class Link:
    """One card's link and memory protection. ``None`` where the card or its driver does not tell.

    ``gen`` falls to 1 on an idle card and rises under load; ``gen_max`` and ``width_max`` are what this card can do in this
    slot, as the driver sees it.
    """

    index: int
    gen: int | None = None
    gen_max: int | None = None
    width: int | None = None
    width_max: int | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    utilization_percent: float | None = None

    @property
    def narrow(self) -> bool:
        """Does the link use fewer lanes than it could? Lanes do not rest: this holds for an idle card too."""
        return self.width is not None and self.width_max is not None and self.width < self.width_max

    @property
    def slow(self) -> bool | None:
        """Is the link of an older generation than it could be? ``None`` for a card that may only be resting."""
        if self.gen is None or self.gen_max is None:
            return None
        if self.gen >= self.gen_max:
            return False
        return True if (self.utilization_percent or 0.0) >= BUSY_PERCENT else None


BUSY_PERCENT = 50.0


@dataclass(frozen=True, slots=True)
class Topology:
    """How each two cards reach each other, by their indices (the smaller first), and each card's NUMA node."""

    ways: Mapping[tuple[int, int], str]
    numa: Mapping[int, str]

    @property
    def farthest(self) -> str:
        """The longest way between any two cards; empty for one card."""
        return max(self.ways.values(), key=distance, default="")


def distance(way: str) -> int:
    """How long a way is, to be compared with others."""
    return NEAREST_FIRST.index("NV" if way.startswith("NV") else way)


_VIA = re.compile(r"NCCL INFO Channel .* -> .* via (\S+)")


def nccl_ways(log: str) -> dict[str, int]:
    """Over what NCCL connected two cards, by its own log (``NCCL_DEBUG=INFO``), and how many channels: ``P2P/IPC``, ``SHM/direct``."""
    return dict(Counter(_VIA.findall(log)))


def links(
    host: Host, command: str = "nvidia-smi", timeout_s: float = 10.0, env: Mapping[str, str] | None = None
) -> tuple[Link, ...]:
    """All cards' links; empty where nvidia-smi does not tell."""
    told = ask(host, command, FIELDS, timeout_s, env)
    if isinstance(told, NoGpus):
        return ()
    text, fields = told
    return tuple(link for row in rows(text, tuple(fields)) if (link := _link(row)) is not None)


def _link(row: Mapping[str, str]) -> Link | None:
    index = _whole(row.get("index", ""))
    if index is None:
        return None
    return Link(
        index=index,
        gen=_whole(row.get("gen", "")),
        gen_max=_whole(row.get("gen_max", "")),
        width=_whole(row.get("width", "")),
        width_max=_whole(row.get("width_max", "")),
        ecc={"Enabled": True, "Disabled": False}.get(row.get("ecc", "")),
        ecc_errors=_whole(row.get("ecc_errors", "")),
        utilization_percent=number(row.get("utilization_percent", "")),
    )


def _whole(text: str) -> int | None:
    value = number(text)
    return int(value) if value is not None and value >= 0 else None


def topology(
    host: Host, command: str = "nvidia-smi", timeout_s: float = 10.0, env: Mapping[str, str] | None = None
) -> Topology | None:
    """What ``nvidia-smi topo -m`` says of the cards; ``None`` where it says nothing of use."""
    said = run(host, [command, "topo", "-m"], timeout_s, env)
    return None if isinstance(said, NoGpus) else read_topology(said)


def read_topology(text: str) -> Topology | None:
    """The matrix of ``nvidia-smi topo -m``: a head of ``GPU0 GPU1 ... CPU Affinity NUMA Affinity``, a line for each card.

    Network cards (``NIC0``) have columns and lines of their own, and are left out.
    """
    lines = [line.split("\t") for line in _ESCAPES.sub("", text).splitlines() if line.strip()]
    head = next((line for line in lines if any(cell.strip() == "GPU0" for cell in line)), None)
    if head is None:
        return None
    names = [cell.strip() for cell in head]
    if names[0] == "GPU0":  # the empty cell above the cards' names went with the white space around the whole
        names.insert(0, "")
    place = {int(name[3:]): at for at, name in enumerate(names) if re.fullmatch(r"GPU\d+", name)}
    numa_at = names.index("NUMA Affinity") if "NUMA Affinity" in names else None
    ways: dict[tuple[int, int], str] = {}
    numa: dict[int, str] = {}
    for line in lines:
        cells = [cell.strip() for cell in line]
        if line is head or not re.fullmatch(r"GPU\d+", cells[0]):
            continue
        card = int(cells[0][3:])
        for other, at in place.items():
            if at < len(cells) and _CELL.match(cells[at]) and cells[at] != "X":
                ways[min(card, other), max(card, other)] = cells[at]
        if numa_at is not None and numa_at < len(cells):
            numa[card] = cells[numa_at]
    return Topology(ways, numa) if place else None
