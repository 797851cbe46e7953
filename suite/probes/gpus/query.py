"""One look through nvidia-smi; missing, old, hanging and broken are outcomes with names, a lost card is one too."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from suite.hosts import CommandTimeout, Host, HostError

FIELDS: Mapping[str, str] = {
    "index": "index",
    "uuid": "uuid",
    "name": "name",
    "bus": "pci.bus_id",
    "compute_capability": "compute_cap",
    "driver": "driver_version",
    "persistence": "persistence_mode",
    "temperature_c": "temperature.gpu",
    "power_w": "power.draw",
    "power_limit_w": "power.limit",
    "power_default_w": "power.default_limit",
    "sm_clock_mhz": "clocks.sm",
    "sm_clock_max_mhz": "clocks.max.sm",
    "memory_clock_mhz": "clocks.mem",
    "reasons": "clocks_throttle_reasons.active",
    "memory_used_mib": "memory.used",
    "memory_total_mib": "memory.total",
    "utilization_percent": "utilization.gpu",
}
"""What this suite calls a value, and nvidia-smi's field.

``clocks_throttle_reasons`` is the name that drivers before 535 have; newer ones call it
``clocks_event_reasons`` and still accept it (``nvidia-smi --help-query-gpu``).
"""

REASONS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of the reasons' mask: ``nvmlClocksThrottleReason*`` in NVML's header."""

SERIOUS = 0x8 | 0x20 | 0x40 | 0x80
"""Hardware slowdown, both thermal slowdowns, power brake: never part of normal work."""

_NEWER = {"clocks_throttle_reasons.active": "clocks_event_reasons.active"}
_INVALID = re.compile(r'Field "([^"]+)" is not a valid field')
_LOST = re.compile(r"GPU is lost|has fallen off the bus|Unable to determine the device handle", re.IGNORECASE)

Why = Literal["missing", "hanging", "no driver", "no devices", "lost", "failed"]


@dataclass(frozen=True, slots=True)
class NoGpus:
    """nvidia-smi told nothing. ``lost`` is infrastructure; ``missing`` and ``no devices`` are a host without GPUs."""

    why: Why
    message: str

    @property
    def expected(self) -> bool:
        """Is this just a host without NVIDIA GPUs?"""
        return self.why in ("missing", "no devices")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card at one moment. ``None`` where the card or its driver does not tell. Units are in the names."""

    index: int
    uuid: str = ""
    name: str = ""
    bus: str = ""
    compute_capability: str | None = None
    driver: str | None = None
    persistence: bool | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_w: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    reasons: int | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    utilization_percent: float | None = None
    silent: Mapping[str, str] = field(default_factory=dict)
    """What the card answered in place of a number, by the name of the figure."""

    @property
    def slowed_by(self) -> tuple[str, ...]:
        """The active throttle reasons in words, idle left out."""
        mask = self.reasons or 0
        return tuple(name for bit, name in REASONS.items() if mask & bit and bit != 0x1)


@dataclass(frozen=True, slots=True)
class Process:
    """A process that computes on a card."""

    pid: int
    name: str
    uuid: str
    memory_mib: float | None


@dataclass(frozen=True, slots=True)
class Gpus:
    """All cards of a host at one moment, and who computes on them. ``lost`` are messages about cards that are gone."""

    gpus: tuple[Gpu, ...]
    processes: tuple[Process, ...] = ()
    lost: tuple[str, ...] = ()
    fields: Mapping[str, str] = field(default_factory=lambda: FIELDS)
    """The fields that this nvidia-smi knows."""

    def identity(self) -> dict[str, object]:
        """What must be equal for two measurements to be comparable: the cards' name and number, compute capability."""
        capability = sorted({gpu.compute_capability for gpu in self.gpus if gpu.compute_capability}) or ["?"]
        names = sorted(
            {gpu.name for gpu in self.gpus if gpu.name}
        )  # a sick card tells none, and is of their kind
        return {"gpu": ", ".join(names), "gpus": len(self.gpus), "compute_capability": ", ".join(capability)}

    def subject(self) -> dict[str, object]:
        """What may change and is to be seen: driver and power limit."""
        limits = sorted({gpu.power_limit_w for gpu in self.gpus if gpu.power_limit_w is not None})
        drivers = sorted({gpu.driver for gpu in self.gpus if gpu.driver})
        return {"driver": ", ".join(drivers), "power_limit_w": ", ".join(f"{limit:g}" for limit in limits)}

    def others(self, ours: Sequence[int]) -> tuple[Process, ...]:
        """Processes on the cards whose number is not among ``ours``."""
        return tuple(process for process in self.processes if process.pid not in ours)


def read(
    host: Host,
    command: str = "nvidia-smi",
    timeout_s: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> Gpus | NoGpus:
    """Ask ``command`` on ``host`` about all cards, leaving out what an old one does not know."""
    told = ask(host, command, FIELDS, timeout_s, env)
    if isinstance(told, NoGpus):
        return told
    answer, fields = told
    gpus, lost = parse(answer, tuple(fields))
    if not gpus:
        return NoGpus("lost" if lost else "failed", "; ".join(lost) or f"{command} printed nothing of use")
    return Gpus(gpus, processes(host, command, timeout_s, env), lost, fields)


def ask(
    host: Host, command: str, fields: Mapping[str, str], timeout_s: float, env: Mapping[str, str] | None
) -> tuple[str, Mapping[str, str]] | NoGpus:
    """What ``command`` prints of ``fields``, and which of them it knows: those that it does not are left out."""
    known = dict(fields)
    for _ in range(len(fields)):
        answer = run(host, query(command, known), timeout_s, env)
        if isinstance(answer, NoGpus):
            return answer
        invalid = _INVALID.search(answer)
        if not invalid:
            return answer, known
        known = _without(known, invalid[1])
    return NoGpus("failed", f"{command} knows none of the requested fields")


def query(command: str, fields: Mapping[str, str], every_s: float | None = None) -> list[str]:
    """The command line that asks for ``fields``, once or in a loop."""
    loop = [] if every_s is None else [f"--loop-ms={max(100, round(every_s * 1000))}"]
    return [command, f"--query-gpu={','.join(fields.values())}", "--format=csv,noheader,nounits", *loop]


def _without(fields: dict[str, str], invalid: str) -> dict[str, str]:
    """``fields`` with the newer name of the one that is not known, or without it."""
    newer = _NEWER.get(invalid)
    kept = {name: newer if asked == invalid and newer else asked for name, asked in fields.items()}
    return {name: asked for name, asked in kept.items() if asked != invalid}


def run(host: Host, argv: list[str], timeout_s: float, env: Mapping[str, str] | None) -> str | NoGpus:
    """What a command of nvidia-smi's says, or why it says nothing."""
    try:
        done = host.run(argv, timeout_s=timeout_s, env=env)
    except CommandTimeout:
        return NoGpus(
            "hanging", f"{argv[0]} did not answer within {timeout_s:g} s: the driver hangs; look at dmesg"
        )
    except HostError as error:
        return NoGpus("failed", str(error))
    said = f"{done.stdout}\n{done.stderr}".strip()
    if done.code == 127:
        return NoGpus("missing", f"there is no {argv[0]} on {host.name}")
    if "No devices were found" in said:
        return NoGpus("no devices", "No devices were found")
    if done.code and not _INVALID.search(said) and not _LOST.search(said):
        driver = "driver" in said.lower() or "NVML" in said
        first = said.splitlines()[0] if said else f"{argv[0]} ended with status {done.code} and no word"
        return NoGpus("no driver" if driver else "failed", first)
    return said


def parse(text: str, names: Sequence[str]) -> tuple[tuple[Gpu, ...], tuple[str, ...]]:
    """Lines of ``--format=csv,noheader,nounits``, one a card, and what is said of cards that are lost."""
    gpus, lost = [], []
    for line in text.splitlines():
        row = _row(line, names)
        if row is not None and (gpu := _gpu(row)) is not None:
            gpus.append(gpu)  # what a lost one answers in its fields is in `silent`
        elif row is not None or _LOST.search(line):
            lost.append(line.strip())
    return tuple(gpus), tuple(lost)


def rows(text: str, names: Sequence[str]) -> list[dict[str, str]]:
    """The lines that hold as many values as were asked for."""
    return [row for line in text.splitlines() if (row := _row(line, names)) is not None]


def _row(line: str, names: Sequence[str]) -> dict[str, str] | None:
    values = [value.strip() for value in line.split(",")]  # nvidia-smi quotes nothing
    return dict(zip(names, values, strict=True)) if len(values) == len(names) else None


def _gpu(values: Mapping[str, str]) -> Gpu | None:
    index = number(values.get("index", ""))
    if index is None:
        return None
    return Gpu(
        index=int(index),
        uuid=values.get("uuid", ""),
        name=_told(values.get("name")) or "",
        bus=values.get("bus", ""),
        compute_capability=_told(values.get("compute_capability")),
        driver=_told(values.get("driver")),
        persistence={"Enabled": True, "Disabled": False}.get(values.get("persistence", "")),
        reasons=_mask(values.get("reasons", "")),
        silent={name: said for name, said in values.items() if _is_silent(name, said)},
        **{name: number(values.get(name, "")) for name in _NUMBERS},
    )


def _is_silent(name: str, said: str) -> bool:
    if name in _NUMBERS:
        return number(said) is None
    return _mask(said) is None if name == "reasons" else _told(said) is None


_NUMBERS = tuple(name for name in FIELDS if name.endswith(("_c", "_w", "_mhz", "_mib", "_percent")))


def _told(value: str | None) -> str | None:
    """A value, unless it is one of nvidia-smi's ways to say nothing (``[N/A]``, ``[Not Supported]``, ``ERR!``)."""
    return None if not value or value.startswith("[") or value in ("N/A", "ERR!") else value


def number(value: str) -> float | None:
    """A figure as nvidia-smi prints it without units; ``None`` for its ways to say nothing."""
    try:
        figure = float(value)
    except ValueError:
        return None
    return figure if math.isfinite(figure) else None


def _mask(value: str) -> int | None:
    try:
        return int(value, 16)
    except ValueError:
        return None


def processes(
    host: Host,
    command: str = "nvidia-smi",
    timeout_s: float = 10.0,
    env: Mapping[str, str] | None = None,
) -> tuple[Process, ...]:
    """Who computes on the cards; empty where that cannot be asked."""
    fields = "pid,process_name,gpu_uuid,used_memory"
    argv = [command, f"--query-compute-apps={fields}", "--format=csv,noheader,nounits"]
    answer = run(host, argv, timeout_s, env)
    lines = [] if isinstance(answer, NoGpus) else answer.splitlines()
    rows = [[value.strip() for value in line.split(",")] for line in lines]
    return tuple(  # a name may hold commas
        Process(int(row[0]), ", ".join(row[1:-2]), row[-2], number(row[-1].removesuffix(" MiB")))
        for row in rows
        if len(row) >= 4 and row[0].isdecimal()
    )


def kernel_log(
    host: Host, command: str = "dmesg", timeout_s: float = 10.0, env: Mapping[str, str] | None = None
) -> str | None:
    """The kernel's log of this boot, or ``None`` where it may not be read."""
    for argv in ([command], ["journalctl", "--dmesg", "--boot", "--no-pager", "--quiet"]):
        try:
            done = host.run(argv, timeout_s=timeout_s, env=env)
        except HostError:
            continue
        if done.code == 0 and done.stdout.strip():
            return done.stdout
    return None
