"""Where the cards of a host sit: their ids and PCI addresses, the PCIe link of each, and how they reach one another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from suite.hosts import Host, HostError
from suite.probes.gpus.query import Gpus

LINK = ("pcie.link.gen.max", "pcie.link.width.current")
"""nvidia-smi's fields: the fastest generation of card and slot together, and the lanes in use.

The generation in use (``pcie.link.gen.current``) says little: a card that has nothing to do takes a slower one to save power.
"""
TIMEOUT_S = 20.0
_WORD = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|NV\d+")
"""What ``nvidia-smi topo -m`` says of two cards; its legend explains each."""


def identity(gpus: Gpus) -> dict[str, str]:
    """Which cards these are, and in which slots."""
    return {
        "gpu_uuids": ", ".join(gpu.uuid for gpu in gpus.gpus),
        "gpu_bus": ", ".join(gpu.bus for gpu in gpus.gpus),
    }


def facts(
    host: Host, gpus: Gpus, command: str = "nvidia-smi", env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What of cards and slots can slow a box down, in words that are equal where two boxes are alike.

    What this nvidia-smi does not tell is left out.
    """
    limits = Counter(f"{gpu.power_limit_w:g} W" for gpu in gpus.gpus if gpu.power_limit_w is not None)
    clocks = Counter(f"{gpu.sm_clock_max_mhz:g} MHz" for gpu in gpus.gpus if gpu.sm_clock_max_mhz is not None)
    found = {
        "power limit": _counted(limits),
        "highest SM clock": _counted(clocks),
        "PCIe": _counted(links(_said(host, [command, f"--query-gpu={','.join(LINK)}", *_CSV], env))),
        "topology": _counted(topology(_said(host, [command, "topo", "-m"], env))),
    }
    return {**identity(gpus), **{name: value for name, value in found.items() if value}}


_CSV = ("--format=csv,noheader,nounits",)


def links(text: str) -> Counter[str]:
    """PCIe links by their kind, as ``gen5 x16``, from what was said for :data:`LINK`."""
    rows = [[cell.strip() for cell in line.split(",")] for line in text.splitlines()]
    return Counter(
        f"gen{row[0]} x{row[1]}" for row in rows if len(row) == len(LINK) and all(map(str.isdecimal, row))
    )


def topology(text: str) -> Counter[str]:
    """How pairs of cards reach one another, from the table of ``nvidia-smi topo -m``."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        name, *cells = line.split() if line.strip() else [""]
        if not re.fullmatch(r"GPU\d+", name):
            continue
        number = int(name.removeprefix("GPU"))
        words = [cell for cell in cells if _WORD.fullmatch(cell)]
        found.update(word for word in words[:number] if word != "X")
    return found


def _counted(found: Counter[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in sorted(found.items()))


def _said(host: Host, argv: list[str], env: Mapping[str, str] | None) -> str:
    try:
        done = host.run(argv, timeout_s=TIMEOUT_S, env=env)
    except HostError:
        return ""
    return done.stdout if done.code == 0 else ""
