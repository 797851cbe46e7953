"""Whose an Xid is, which count, and cards that answer words in place of numbers."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import xids
from suite.hosts import LocalHost
from suite.probes import gpus
from suite.probes.gpus.query import FIELDS
from suite.servers import DriverError, KernelFault
from suite.servers.diagnosis import Signs, diagnose
from suite.servers.errors import Evidence

PAGE_FAULT = (
    "[ 812.5] NVRM: Xid (PCI:0000:c1:00): 31, pid=48211, name=sglang::schedul, channel 0x0000000a, intr 00000000. "
    "MMU Fault: ENGINE GRAPHICS GPC4 GPCCLIENT_T1_9 faulted @ 0x7f21_40a27000. Fault is of type FAULT_PDE"
)
GONE = "[ 901.2] NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
CLEANED = "[ 901.3] NVRM: Xid (PCI:0000:61:00): 45, pid=48211, name=sglang::schedul, Ch 00000008"
DIED = ["torch.AcceleratorError: CUDA error: an illegal memory access was encountered"]


@pytest.mark.parametrize("number", [13, 31, 32, 43, 45, 69])
def test_the_programs(number: int) -> None:
    assert xids.Xid("PCI:0000:01:00", number, "").meaning.whose == "program"


@pytest.mark.parametrize("number", [48, 62, 64, 74, 79, 94, 95, 109, 119, 120, 140, 154])
def test_the_machines(number: int) -> None:
    assert xids.Xid("PCI:0000:01:00", number, "").meaning.whose == "machine"


def test_one_that_no_table_knows_is_nobodys() -> None:
    assert xids.Xid("PCI:0000:01:00", 999, "").meaning.whose == "unknown"


def test_a_server_that_died_of_its_own_kernel_is_no_broken_machine() -> None:
    failure = diagnose(Signs(DIED, "serving", -9, kernel=(PAGE_FAULT,)), Evidence())
    assert isinstance(failure, KernelFault)
    assert "Xid 31" in failure.summary
    assert "machine" not in failure.summary


def test_a_card_that_went_takes_its_program_along() -> None:
    failure = diagnose(Signs(DIED, "serving", -9, kernel=(CLEANED, GONE)), Evidence())
    assert isinstance(failure, DriverError)
    assert "Xid 79" in failure.summary


def test_another_cards_xid_explains_nothing() -> None:
    ours = ("00000000:C1:00.0", "00000000:C2:00.0")
    failure = diagnose(Signs(DIED, "serving", -9, kernel=(GONE,), cards=ours), Evidence())
    assert not isinstance(failure, DriverError | KernelFault)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("PCI:0000:c1:00", "00000000:C1:00.0", True),
        ("0000:03:00", "00000000:03:00.0", True),
        ("PCI:0001:c1:00", "00000000:C1:00.0", False),
        ("PCI:0000:c1:00", "00000000:C2:00.0", False),
        ("PCI:0000:c1:00 GPU-I:05", "00000000:C1:00.0", True),
    ],
)
def test_addresses_as_the_kernel_and_as_nvidia_smi_write_them(one: str, other: str, same: bool) -> None:
    assert bool(xids.of_cards([xids.Xid(one, 79, "")], [other])) is same


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_only_what_is_new_counts_though_the_ring_turned(
    old: int, turned: int, new: int, stamped: bool
) -> None:
    def line(number: int) -> str:
        return f"[{number}.5] " * stamped + "NVRM: Xid (PCI:0000:01:00): 13, pid=1, name=x"

    everything = [line(number) for number in range(old + new)]
    found = xids.since(everything[:old], everything[min(turned, old) :])
    if stamped:
        assert len(found) == new
    else:  # without time stamps nobody can tell a repeated line from an old one that is still there
        assert len(found) == max(0, new - min(turned, old))


@given(st.text(max_size=300))
def test_any_text_may_be_a_kernels_log(text: str) -> None:
    for xid in xids.read(text):
        assert str(xid)


SMI = """#!/bin/sh
case "$*" in *compute-apps*) exit 0;; esac
{rows}
"""
HEALTHY = "{i}, GPU-{i}, NVIDIA RTX PRO 6000, 00000000:0{i}:00.0, 12.0, 580.105, Enabled, 34, 33.1, 600.00, 600.00, 180, 2430, 405, 0x1, 2, 97887, 0"


def stand_in(tmp_path: Path, *rows: str) -> str:
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI.format(rows="\n".join(f"echo '{row}'" for row in rows)))
    program.chmod(0o755)
    return str(program)


def row(number: int, **words: str) -> str:
    """A card's line; ``words`` stand in place of a figure of that name."""
    names = tuple(FIELDS)
    values = HEALTHY.format(i=number).split(", ")
    return ", ".join(words.get(name, value) for name, value in zip(names, values, strict=True))


@pytest.mark.parametrize(
    ("words", "broken"),
    [
        ({"temperature_c": "[GPU requires reset]", "utilization_percent": "[GPU requires reset]"}, True),
        ({"power_w": "ERR!"}, True),
        ({"utilization_percent": "[Unknown Error]"}, True),
        ({"sm_clock_mhz": "[GPU is lost]"}, True),
        ({"persistence": "[GPU requires reset]"}, True),
        ({"name": "[Unknown Error]", "driver": "[Unknown Error]"}, True),
        ({"utilization_percent": "[GPU reset required]"}, True),
        ({"power_w": "[Insufficient Permissions]"}, False),
        ({"reasons": "[N/A]"}, False),
        ({"power_w": "[Not Supported]"}, False),
        ({"memory_used_mib": "N/A"}, False),
    ],
)
def test_a_card_that_answers_words_is_named(tmp_path: Path, words: dict[str, str], broken: bool) -> None:
    found = gpus.read(LocalHost(), stand_in(tmp_path, row(0), row(1, **words), row(2)))
    assert isinstance(found, gpus.Gpus)
    (fault,) = gpus.card_faults(found.gpus)
    assert (fault.gpu, fault.broken) == (1, broken)
    assert next(iter(words.values())) in str(fault)


def test_what_no_card_of_a_kind_tells_is_no_fault_unless_it_is_needed(tmp_path: Path) -> None:
    quiet = {"memory_used_mib": "[N/A]", "power_default_w": "[N/A]"}
    found = gpus.read(LocalHost(), stand_in(tmp_path, row(0, **quiet), row(1, **quiet)))
    assert isinstance(found, gpus.Gpus)
    assert gpus.card_faults(found.gpus) == []


def test_a_sick_card_changes_no_identity(tmp_path: Path) -> None:
    words = dict.fromkeys(("name", "compute_capability", "driver", "power_limit_w"), "ERR!")
    sound = gpus.read(LocalHost(), stand_in(tmp_path, row(0), row(1)))
    sick = gpus.read(LocalHost(), stand_in(tmp_path, row(0), row(1, **words)))
    assert isinstance(sound, gpus.Gpus)
    assert isinstance(sick, gpus.Gpus)
    assert (sick.identity(), sick.subject()) == (sound.identity(), sound.subject())
