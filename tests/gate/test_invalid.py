"""Each reason not to trust a measurement, on recorded values: with its evidence, and silent where all is well."""

from __future__ import annotations

import pytest

from suite.gate import invalid


def samples(clocks: list[float], **fields: object) -> list[dict[str, object]]:
    return [
        {"gpu": 0, "sm_clock_mhz": c, "utilization_percent": 98.0, "reasons": 0, **fields} for c in clocks
    ]


STEADY = samples([1965.0] * 9)
FALLING = samples([1965, 1960, 1955, 1800, 1700, 1650, 1590, 1580, 1580])


def test_clocks_that_fall_while_busy() -> None:
    found = invalid.clocks_throttled(FALLING)
    assert found is not None
    assert found.evidence == "GPU 0: SM clock 1960 -> 1580 MHz while busy"
    assert invalid.clocks_throttled(STEADY) is None


def test_clocks_that_fall_while_idle_are_normal() -> None:
    idle = [s | {"utilization_percent": 3.0} for s in FALLING]
    assert invalid.clocks_throttled(idle) is None


@pytest.mark.parametrize(
    ("bit", "name"), [(0x8, "hardware slowdown"), (0x40, "hardware thermal"), (0x80, "power brake")]
)
def test_hardware_slowdown_is_named(bit: int, name: str) -> None:
    found = invalid.clocks_throttled(samples([1965.0] * 9, reasons=bit))
    assert found is not None
    assert name in found.evidence


def test_running_at_the_power_cap_is_normal_unless_slower_than_before() -> None:
    capped = invalid.clocks(samples([1830.0] * 9, reasons=0x4, power_limit_w=600.0))
    free = invalid.clocks(samples([1830.0] * 9))
    assert invalid.power_capped(capped, {}) is None
    assert invalid.power_capped(capped, {"sm_clock_mhz": 1850.0}) is None
    assert invalid.power_capped(free, {"sm_clock_mhz": 1965.0}) is None
    found = invalid.power_capped(capped, {"sm_clock_mhz": 1965.0})
    assert found is not None
    assert found.evidence == "GPU 0: power cap at 600 W, SM clock 1830 MHz, baseline 1965"


def test_the_slowest_card_is_what_later_runs_are_compared_with() -> None:
    slower = [{**sample, "gpu": 1} for sample in samples([1700.0] * 9, reasons=0x4)]
    found = invalid.clocks([*samples([1965.0] * 9), *slower])
    assert found == {"sm_clock_mhz": 1700.0, "capped_gpu": 1.0}
    assert invalid.clocks([{**sample, "utilization_percent": 0.0} for sample in slower]) == {}


def test_other_processes_are_named() -> None:
    processes = [{"pid": 10, "name": "python"}, {"pid": 99, "name": "blender"}]
    found = invalid.foreign_processes(processes, own_pids=[10, 11])
    assert found is not None
    assert found.evidence == "blender (pid 99) on the GPUs"
    assert invalid.foreign_processes(processes[:1], own_pids=[10]) is None


def test_a_card_that_fell_off_the_bus() -> None:
    found = invalid.gpu_lost(["Xid 79 on PCI:0000:41:00"], ["GPU 4 answers [GPU requires reset]"])
    assert found is not None
    assert found.evidence == "Xid 79 on PCI:0000:41:00, GPU 4 answers [GPU requires reset]"
    assert invalid.gpu_lost([]) is None


def test_forced_acceptance_is_refused_unless_meant() -> None:
    environment = {"SGLANG_SIMULATE_ACC_LEN": "3.0"}
    assert invalid.simulated_acceptance(environment) is not None
    assert invalid.simulated_acceptance(environment, intended=True) is None
    assert invalid.simulated_acceptance({}) is None


@pytest.mark.parametrize(
    ("used", "before", "named"),
    [(False, True, True), (True, True, False), (False, False, False), (None, True, False)],
)
def test_decoding_without_cuda_graphs(used: bool | None, before: bool, named: bool) -> None:
    assert (invalid.no_cuda_graphs(used, before) is not None) is named


def test_a_record_gives_all_its_reasons() -> None:
    record = {"gpu_samples": FALLING, "xids": ["Xid 79"], "silent": ["GPU 1 answers [N/A]"]}
    assert [r.name for r in invalid.of_launch(record)] == ["clocks_throttled", "gpu_lost", "gpu_silent"]
    assert invalid.of_launch({}) == []
