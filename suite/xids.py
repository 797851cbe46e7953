"""NVIDIA's Xid errors: read off a kernel's log, and whose each one is, the program's on the GPU or the machine's."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

Whose = Literal["program", "machine", "unknown"]


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an Xid stands for, and whose fault it is in the first place."""

    what: str
    whose: Whose


_PROGRAM: Mapping[int, str] = {
    8: "GPU stopped processing",
    11: "invalid push buffer stream",
    13: "exception in a kernel",
    25: "illegal push buffer stream",
    31: "access to memory that is not mapped",
    32: "corrupted push buffer stream",
    39: "exception in a copy engine",
    40: "exception in a copy engine",
    41: "exception in a copy engine",
    43: "channel stopped after an error of the program",
    45: "channels torn down after an error before, or a kill",
    59: "internal error of the video decoder's firmware",
    68: "exception in a video decoder",
    69: "exception of the engine's class",
    70: "exception in a copy engine",
    71: "exception in a copy engine",
    **dict.fromkeys((72, 75, 76, 77), "exception in a copy engine"),
    **dict.fromkeys((42, 47, 60, 65), "exception in the video processor"),
    84: "exception in a copy engine",
    85: "exception in a copy engine",
    137: "illegal access to another GPU's memory over NVLink",
}
_MACHINE: Mapping[int, str] = {
    16: "display engine hung",
    18: "bus mastering was switched off",
    26: "memory did not answer",
    44: "fault while switching contexts",
    46: "GPU stopped and must be reset",
    48: "memory error of two bits that ECC could not correct",
    54: "auxiliary power is not connected",
    38: "error of the driver's firmware",
    56: "display engine error",
    57: "error while the memory interface was set up",
    58: "unstable memory interface",
    61: "power management controller stopped at an internal breakpoint",
    62: "power management controller halted",
    63: "a row of memory was marked for remapping",
    64: "a row of memory could not be remapped",
    74: "NVLink error",
    78: "error of a virtual GPU",
    79: "GPU has fallen off the bus",
    80: "data arrived corrupted at the GPU",
    92: "many single-bit memory errors",
    93: "wear limit of the board's InfoROM exceeded",
    94: "uncorrectable memory error, contained in one program",
    95: "uncorrectable memory error, not contained",
    109: "timeout while switching contexts",
    110: "security fault",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
    121: "error on the link between CPU and GPU",
    122: "error of the board's controller",
    123: "power management controller cannot be reached",
    124: "error of the board's controller",
    125: "error of the InfoROM's file system",
    136: "a link could not be trained",
    140: "uncorrectable memory error",
    143: "the GPU could not be initialised",
    **dict.fromkeys(range(144, 151), "NVLink error"),
    151: "error while keys were rotated",
    154: "the GPU asks for a recovery: reset, reboot or repair",
    155: "NVLink error",
    156: "resources of the GPU were retired",
    157: "resources of the GPU could not be retired",
    158: "fatal timeout",
    159: "error on the link between CPU and GPU",
    160: "a channel of the memory was repaired or retired",
    161: "a channel of the memory could not be retired",
    167: "timeout on the PCIe bus",
    171: "uncorrectable memory error, beside a 48",
    172: "uncorrectable memory error, beside a 48",
    173: "fatal error on the link between CPU and GPU",
}
"""After NVIDIA's published catalogue (docs.nvidia.com/deploy/xid-errors), in words of our own: the program's are those
that restarting it clears; what needs a reset, a reboot or new hardware is the machine's."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One report: which card, by PCI address as the driver wrote it, its number, what was said, and by whose process."""

    bus: str
    number: int
    said: str

    @property
    def meaning(self) -> Meaning:
        """What it stands for; one that is not in the table is nobody's."""
        if self.number in _PROGRAM:
            return Meaning(_PROGRAM[self.number], "program")
        if self.number in _MACHINE:
            return Meaning(_MACHINE[self.number], "machine")
        return Meaning("not in this suite's table", "unknown")

    @property
    def pid(self) -> int | None:
        """The process whose work the card was doing, where the driver knew."""
        found = re.search(r"\bpid='?(\d+)", self.said)
        return int(found[1]) if found else None

    @property
    def process(self) -> str:
        """That process's name, cut to 15 letters by the kernel; empty where the driver did not know."""
        found = re.search(r"\bname=([^,\s]+)", self.said)
        return "" if found is None or found[1] == "<unknown>" else found[1]

    def __str__(self) -> str:
        return f"Xid {self.number} on {self.bus} ({self.meaning.what}): {self.said}"


_LINE = re.compile(r"NVRM: Xid \(([^)]{1,80})\): (\d{1,4})\b,? *([^\n]*)")
_ADDRESS = re.compile(
    r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f])?(?![0-9a-f:])", re.IGNORECASE
)


def read(kernel_log: str) -> list[Xid]:
    """The Xids in a kernel's log, in its order."""
    return [Xid(match[1], int(match[2]), match[3].strip()) for match in _LINE.finditer(kernel_log)]


def lines(kernel_log: str) -> list[str]:
    """The lines that hold an Xid, as they stand, time stamps included."""
    return [line for line in kernel_log.split("\n") if _LINE.search(line)]


def since(before: Iterable[str], now: Iterable[str]) -> list[Xid]:
    """The Xids of ``now``'s lines that were not among ``before``'s; the log is a ring that may have turned meanwhile."""
    known = Counter(before)
    fresh = []
    for line in now:
        if known[line]:
            known[line] -= 1
        else:
            fresh += read(line)
    return fresh


def of_cards(found: Iterable[Xid], buses: Iterable[str]) -> list[Xid]:
    """Those of some cards; all where no address is known."""
    ours = {address for bus in buses if (address := _address(bus))}
    return [xid for xid in found if not ours or (_address(xid.bus) or next(iter(ours))) in ours]


def worst(found: Iterable[Xid]) -> Xid | None:
    """The one that says most: the machine's before what nobody knows before the program's, the first of a kind.

    A card that dies takes its program along, so that the program's Xids after the machine's are a consequence; and 45
    is but the cleaning up after another.
    """
    order = {"machine": 0, "unknown": 1, "program": 2}
    return min(found, key=lambda xid: (order[xid.meaning.whose], xid.number == 45), default=None)


def _address(text: str) -> tuple[int, int, int] | None:
    found = _ADDRESS.search(text)
    return (int(found[1] or "0", 16), int(found[2], 16), int(found[3], 16)) if found else None
