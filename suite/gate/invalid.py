"""Reasons not to believe what a launch measured: each a named pure function of recorded values, with its evidence.

A rule takes plain values as the probes and the client record them and gives an `Invalid` or None. What was not
recorded gives no reason: absence of evidence is for the report to mention, not for the gate to punish. The reasons of
a single round are `metrics.validity`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from suite.gate.records import Invalid

Record: TypeAlias = Mapping[str, Any]

HARDWARE_SLOWDOWN = {
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
POWER_CAP = 0x4
"""Bits of NVML's clocks event reasons (nvml.h, nvmlClocksEventReason*)."""

BUSY_PERCENT = 20.0
CLOCK_DROP = 0.03


def clocks_throttled(samples: Sequence[Record]) -> Invalid | None:
    """A busy GPU was slowed by its hardware, or its SM clock fell by more than 3 % from first to last third.

    samples: {gpu, sm_clock_mhz, utilization_percent, reasons} in order of time.
    """
    for gpu, busy in _by_gpu(samples).items():
        bits = [
            name
            for bit, name in HARDWARE_SLOWDOWN.items()
            if any(int(s.get("reasons") or 0) & bit for s in busy)
        ]
        if bits:
            return Invalid("clocks_throttled", f"GPU {gpu}: {', '.join(bits)} in {len(busy)} busy samples")
        clocks = _values(busy, "sm_clock_mhz")
        third = len(clocks) // 3
        if third:
            first, last = median(clocks[:third]), median(clocks[-third:])
            if last < first * (1 - CLOCK_DROP):
                return Invalid(
                    "clocks_throttled", f"GPU {gpu}: SM clock {first:.0f} -> {last:.0f} MHz while busy"
                )
    return None


def clocks(samples: Sequence[Record]) -> dict[str, float]:
    """What a later run is compared with, to be stored with the launch: the clock of the slowest busy GPU.

    ``sm_clock_mhz``: its median; ``capped_gpu`` and ``power_limit_w`` besides where its power cap held it.
    """
    slowest: dict[str, float] = {}
    for gpu, busy in _by_gpu(samples).items():
        seen = _values(busy, "sm_clock_mhz")
        if not seen or median(seen) >= slowest.get("sm_clock_mhz", math.inf):
            continue
        slowest = {"sm_clock_mhz": median(seen)}
        if capped := [s for s in busy if int(s.get("reasons") or 0) & POWER_CAP]:
            slowest["capped_gpu"] = float(gpu)
            if limits := _values(capped, "power_limit_w"):
                slowest["power_limit_w"] = limits[0]
    return slowest


def power_capped(found: Mapping[str, float], baseline: Mapping[str, float]) -> Invalid | None:
    """The power cap held a GPU's clock more than 3 % below what the baseline ran at; both as :func:`clocks` tells.

    Running at the cap is normal for these cards; running slower at it than before is not.
    """
    clock, before = found.get("sm_clock_mhz"), baseline.get("sm_clock_mhz")
    if "capped_gpu" not in found or clock is None or before is None or clock >= before * (1 - CLOCK_DROP):
        return None
    limit = f" at {found['power_limit_w']:.0f} W" if "power_limit_w" in found else ""
    evidence = (
        f"GPU {found['capped_gpu']:.0f}: power cap{limit}, SM clock {clock:.0f} MHz, baseline {before:.0f}"
    )
    return Invalid("power_capped", evidence)


def foreign_processes(processes: Iterable[Record], own_pids: Iterable[int]) -> Invalid | None:
    """Somebody else computed on the GPUs. processes: {pid, name, memory_mib}; own_pids: the server's process tree."""
    own = set(own_pids)
    others = [p for p in processes if p.get("pid") not in own]
    if not others:
        return None
    named = ", ".join(f"{p.get('name') or 'unnamed'} (pid {p.get('pid')})" for p in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return Invalid("foreign_processes", f"{named}{more} on the GPUs")


def gpu_lost(xids: Sequence[str], lost: Sequence[str] = ()) -> Invalid | None:
    """The driver reported an Xid of the machine's, a card is gone or asks for a reset: infrastructure."""
    said = [*xids[:3], *lost[:3]]
    return Invalid("gpu_lost", ", ".join(said)) if said else None


def gpu_silent(silent: Sequence[str]) -> Invalid | None:
    """A card does not tell a figure without which nobody would see it being slowed."""
    return Invalid("gpu_silent", ", ".join(silent[:3])) if silent else None


def simulated_acceptance(environment: Mapping[str, str], intended: bool = False) -> Invalid | None:
    """`SGLANG_SIMULATE_ACC_LEN` forces acceptance: no verdict, except in an arm that sets it on purpose."""
    value = environment.get("SGLANG_SIMULATE_ACC_LEN")
    if intended or value is None or value.strip() in ("", "-1"):
        return None
    return Invalid(
        "simulated_acceptance", f"SGLANG_SIMULATE_ACC_LEN={value} is set in the server's environment"
    )


def no_cuda_graphs(used: bool | None, baseline_used: bool | None) -> Invalid | None:
    """Decoding ran without CUDA graphs where the baseline had them."""
    if used is False and baseline_used:
        return Invalid("no_cuda_graphs", "decode ran without CUDA graphs, the baseline with them")
    return None


def of_launch(record: Record) -> list[Invalid]:
    """All reasons a launch's record gives by itself; what only a baseline can tell is `gate.beside`'s.

    Keys: gpu_samples, gpu_processes, own_pids, xids, lost, silent, environment, simulation_intended.
    """
    samples = record.get("gpu_samples", ())
    found = [
        clocks_throttled(samples),
        foreign_processes(record.get("gpu_processes", ()), record.get("own_pids", ())),
        gpu_lost(record.get("xids", ()), record.get("lost", ())),
        gpu_silent(record.get("silent", ())),
        simulated_acceptance(record.get("environment", {}), bool(record.get("simulation_intended"))),
    ]
    return [reason for reason in found if reason is not None]


def _by_gpu(samples: Sequence[Record]) -> dict[Any, list[Record]]:
    busy: dict[Any, list[Record]] = {}
    for sample in samples:
        if float(sample.get("utilization_percent") or 0.0) >= BUSY_PERCENT:
            busy.setdefault(sample.get("gpu", 0), []).append(sample)
    return busy


def _values(samples: Sequence[Record], key: str) -> list[float]:
    return [float(s[key]) for s in samples if s.get(key) is not None]
