"""The doctor on cards at work: a few seconds of matrix products, by which a slow, hot or badly linked card shows itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Any

from suite.doctor.fitness import of_links
from suite.doctor.line import Line
from suite.probes import gpus as cards
from suite.probes.remote import run_script
from suite.servers.runtimes import Runtime

SECONDS = 5.0
STARTING_S = 90.0
"""What importing torch and opening eight cards may take."""
SLOWER = 0.05
"""A card that is this much slower than the median of all is told."""
BUSY_PERCENT = 80.0


def at_work(runtime: Runtime) -> Iterator[Line]:
    """Load all cards for five seconds with the target's own torch; nothing where there are none, or somebody computes there."""
    if (runtime.attached and runtime.target.host == "local") or runtime.target.gpus == 0:
        return
    python = runtime.python({})
    if python is None or runtime.target.launch.kind == "docker":
        yield Line(
            "warning", "at work", "not tried: no interpreter of the target's is at hand that sees the cards"
        )
        return
    command, env = runtime.command(runtime.target.nvidia_smi), runtime.env()
    found = cards.read(runtime.host, command, env=env)
    if isinstance(found, cards.NoGpus) or found.processes:
        yield Line(
            "warning", "at work", "not tried: something computes on the cards", "end it, or wait for it"
        )
        return
    with cards.Sampler(runtime.host, 0.5, command, env) as sampler, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(
            run_script,
            runtime.host,
            python,
            ["short_load"],
            [str(SECONDS)],
            timeout_s=STARTING_S + SECONDS,
            env=env,
        )
        links: tuple[cards.Link, ...] = ()
        while not asked.done():
            seen = cards.links(runtime.host, command, env=env)
            if any((link.utilization_percent or 0.0) >= BUSY_PERCENT for link in seen):
                links = seen
        told = asked.result()
        samples = sampler.stop()
    yield from of_load(told, samples)
    yield from of_links(links)


def of_load(told: Mapping[str, Any], samples: Sequence[Sequence[cards.Gpu]]) -> Iterator[Line]:
    """What cards at work showed: their pace, clocks and power, and whatever slowed one of them."""
    if "error" in told:
        yield Line(
            "warning",
            "at work",
            f"not tried: {told['error']}",
            "look at the target's interpreter and its torch",
        )
        return
    pace = {int(card["index"]): float(card["tflops"]) for card in told["cards"] if "tflops" in card}
    for card in told["cards"]:
        if "error" in card:
            said = f"GPU {card['index']} does not compute: {card['error']}"
            yield Line("problem", "at work", said, "see the kernel's log for its Xid; reset the card")
    if not pace:
        return
    usual = median(pace.values())
    busy = {index: [gpu for sample in samples for gpu in sample if _busy(gpu, index)] for index in pace}
    for index, seen in busy.items():
        if reasons := sorted(
            {reason for gpu in seen for reason in gpu.slowed_by if (gpu.reasons or 0) & cards.SERIOUS}
        ):
            said = f"GPU {index} is slowed within {SECONDS:g} s: {', '.join(reasons)}, {_state(seen)}"
            yield Line(
                "problem",
                "at work",
                said,
                "cool it, or look at its power supply; nothing measured so is to be compared",
            )
    for index, tflops in pace.items():
        if tflops < usual * (1 - SLOWER):
            said = f"GPU {index} is {1 - tflops / usual:.0%} slower than the others ({tflops:.0f} TFLOP/s): {_state(busy[index])}"
            yield Line(
                "warning", "at work", said, "compare its power limit, cooling and slot with a faster one's"
            )
    low, high = min(pace.values()), max(pace.values())
    yield Line(
        "ok",
        "at work",
        f"{len(pace)} cards, {low:.0f} to {high:.0f} TFLOP/s (bf16): {_state([gpu for seen in busy.values() for gpu in seen])}",
    )


def _busy(gpu: cards.Gpu, index: int) -> bool:
    return gpu.index == index and (gpu.utilization_percent or 0.0) >= BUSY_PERCENT


def _state(seen: Sequence[cards.Gpu]) -> str:
    """Clocks, power and temperature of cards at work."""
    clocks = [gpu.sm_clock_mhz for gpu in seen if gpu.sm_clock_mhz is not None]
    powers = [gpu.power_w for gpu in seen if gpu.power_w is not None]
    limits = [gpu.power_limit_w for gpu in seen if gpu.power_limit_w is not None]
    hot = [gpu.temperature_c for gpu in seen if gpu.temperature_c is not None]
    told = [
        f"{min(clocks):.0f} to {max(clocks):.0f} MHz" if clocks else "",
        f"up to {max(powers):.0f} of {min(limits):.0f} W" if powers and limits else "",
        f"up to {max(hot):.0f} C" if hot else "",
    ]
    return ", ".join(filter(None, told)) or "no sample fell within it"
