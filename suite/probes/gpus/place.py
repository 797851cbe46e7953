"""Which cards of a host these are, where they sit, and what of that can slow a box down, to be held beside others of its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from suite.hosts import Host
from suite.probes.gpus.links import links, topology
from suite.probes.gpus.query import Gpus


def identity(gpus: Gpus) -> dict[str, str]:
    """Which cards these are, and in which slots."""
    return {
        "gpu_uuids": ", ".join(gpu.uuid for gpu in gpus.gpus),
        "gpu_bus": ", ".join(gpu.bus for gpu in gpus.gpus),
    }


def facts(
    host: Host, gpus: Gpus, command: str = "nvidia-smi", env: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What cards and slots are, in words that are equal where two boxes are alike; what is not told is left out.

    Of a link the fastest generation of card and slot together, and the lanes in use: a card that has nothing to do takes a
    slower generation to save power, and keeps its lanes.
    """
    found = {
        "power limit": _counted(f"{gpu.power_limit_w:g} W" for gpu in gpus.gpus if gpu.power_limit_w),
        "highest SM clock": _counted(
            f"{gpu.sm_clock_max_mhz:g} MHz" for gpu in gpus.gpus if gpu.sm_clock_max_mhz
        ),
    }
    cards = links(host, command, env=env)
    found["PCIe"] = _counted(
        f"gen{card.gen_max} x{card.width}" for card in cards if card.gen_max and card.width
    )
    found["ECC"] = _counted("on" if card.ecc else "off" for card in cards if card.ecc is not None)
    ways = topology(host, command, env=env)
    found["topology"] = _counted(ways.ways.values() if ways is not None else ())
    return {**identity(gpus), **{name: value for name, value in found.items() if value}}


def _counted(words: Iterable[str]) -> str:
    return ", ".join(f"{count} x {word}" for word, count in sorted(Counter(words).items()))
