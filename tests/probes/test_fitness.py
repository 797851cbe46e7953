"""What makes a box slower than its cards: links, ways between cards, ECC, a card that only waits; and energy per token.

The outputs are written after NVIDIA's documentation and public reports of `nvidia-smi topo -m`; none was recorded on cards of
ours.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suite.doctor import fitness, under_load
from suite.doctor.line import Line
from suite.hosts import LocalHost
from suite.load import Round
from suite.metrics.energy import energy
from suite.probes import gpus as cards
from suite.probes.gpus import Gpu, Link
from suite.probes.remote import run_script
from tests.test_metrics import record, round_of

TOPOLOGY = """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tPHB\tSYS\tSYS\tNODE\t0-31,64-95\t0\t\tN/A
GPU1\tPHB\t X \tSYS\tSYS\tNODE\t0-31,64-95\t0\t\tN/A
GPU2\tSYS\tSYS\t X \tNODE\tSYS\t32-63,96-127\t1\t\tN/A
GPU3\tSYS\tSYS\tNODE\t X \tSYS\t32-63,96-127\t1\t\tN/A
NIC0\tNODE\tNODE\tSYS\tSYS\t X \t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
"""


def told(lines: list[Line]) -> dict[str, list[tuple[str, str]]]:
    by: dict[str, list[tuple[str, str]]] = {}
    for line in lines:
        assert line.status == "ok" or line.todo, line
        by.setdefault(line.what, []).append((line.status, line.said))
    return by


def test_the_ways_between_cards_and_their_nodes() -> None:
    found = cards.read_topology(TOPOLOGY)
    assert found is not None
    assert found.ways == {
        (0, 1): "PHB",
        (0, 2): "SYS",
        (0, 3): "SYS",
        (1, 2): "SYS",
        (1, 3): "SYS",
        (2, 3): "NODE",
    }
    assert found.numa == {0: "0", 1: "0", 2: "1", 3: "1"}
    assert found.farthest == "SYS"
    assert cards.read_topology("GPU is lost") is None


@pytest.mark.parametrize(
    ("env", "status", "says"),
    [
        ({}, "warning", "PHB 1, NODE 1, SYS 4, on 2 NUMA nodes; nothing set: NCCL chooses itself"),
        ({"NCCL_P2P_LEVEL": "SYS"}, "ok", "NCCL_P2P_LEVEL=SYS"),
        ({"NCCL_P2P_DISABLE": "1"}, "warning", "every all-reduce goes through host memory"),
    ],
)
def test_what_nccl_may_use_is_told_with_what_is_set(env: Mapping[str, str], status: str, says: str) -> None:
    (line,) = fitness.of_topology(cards.read_topology(TOPOLOGY), env)
    assert line.status == status
    assert says in line.said


def test_what_nccl_chose_is_told_from_its_log() -> None:
    log = """\
box:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC
box:1:2 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct
box:1:2 [1] NCCL INFO Channel 01/0 : 1[1] -> 2[2] via SHM/direct/direct
box:1:2 [1] NCCL INFO Connected all rings
"""
    seen = cards.nccl_ways(log)
    assert seen == {"P2P/IPC": 1, "SHM/direct/direct": 2}
    (line,) = fitness.of_topology(cards.read_topology(TOPOLOGY), {}, seen)
    assert line.status == "warning"
    assert line.said.endswith("at the last start it connected P2P/IPC 1, SHM/direct/direct 2")
    (line,) = fitness.of_topology(cards.read_topology(TOPOLOGY), {}, {"P2P/CUMEM": 8})
    assert line.status == "ok"


SOUND = Link(0, gen=1, gen_max=5, width=16, width_max=16, ecc=True, ecc_errors=0, utilization_percent=0.0)
BUSY = replace(SOUND, gen=5, utilization_percent=98.0)


def test_cards_that_rest_are_not_accused() -> None:
    lines = told(list(fitness.of_links([SOUND, replace(SOUND, index=1)])))
    assert lines == {"pcie": [("ok", "all at PCIe 5 x16; at rest now, the generation shows under load only")]}
    assert told(list(fitness.of_links([BUSY]))) == {"pcie": [("ok", "all at PCIe 5 x16")]}


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        (replace(SOUND, index=1, width=8), "GPU 1 has 8 of 16 lanes"),
        (replace(BUSY, index=1, gen=3), "GPU 1 is at PCIe 3 of 5 while it works"),
        (replace(SOUND, index=1, width=8, width_max=8), "slots differ: x16, but GPU 1: x8"),
    ],
)
def test_lanes_and_generations_that_are_missing(odd: Link, said: str) -> None:
    assert told(list(fitness.of_links([SOUND, odd, replace(SOUND, index=2)]))) == {
        "pcie": [("warning", said)]
    }


def test_errors_of_memory_and_cards_that_differ_in_ecc() -> None:
    assert told(list(fitness.of_ecc([SOUND]))) == {"ecc": [("ok", "on")]}
    lines = told(list(fitness.of_ecc([SOUND, replace(SOUND, index=1, ecc=False, ecc_errors=3)])))
    assert [status for status, _ in lines["ecc"]] == ["problem", "warning"]
    assert list(fitness.of_ecc([Link(0)])) == []


def test_a_card_at_full_use_and_idle_power_waits() -> None:
    working = Gpu(0, utilization_percent=98.0, power_w=412.0, power_limit_w=600.0)
    hung = replace(working, index=3, utilization_percent=100.0, power_w=95.0)
    (line,) = fitness.waiting([working, hung])
    assert line.status == "problem"
    assert "GPU 3 at 100 % and 95 of 600 W" in line.said
    assert "NCCL_DEBUG=INFO" in line.todo
    assert list(fitness.waiting([working, Gpu(1), replace(hung, utilization_percent=3.0)])) == []


@pytest.fixture
def simulated(tmp_path: Path) -> dict[str, str]:
    return {"SIMULATED_GPU_STATE": str(tmp_path / "none.json"), "SIMULATED_GPUS": "4"}


def test_the_simulators_cards_are_asked_as_real_ones_are(simulated: dict[str, str]) -> None:
    command = str(Path(__file__).parents[2] / "simulator" / "bin" / "nvidia-smi")
    links = cards.links(LocalHost(), command, env=simulated)
    assert [link.index for link in links] == [0, 1, 2, 3]
    assert all((link.width, link.gen_max, link.slow) == (16, 5, None) for link in links)
    found = cards.topology(LocalHost(), command, env=simulated)
    assert found is not None
    assert found.ways[0, 1] == "NODE"
    assert found.farthest == "SYS"


def test_a_driver_that_knows_no_link_and_a_host_without_cards_say_nothing(tmp_path: Path) -> None:
    old = tmp_path / "nvidia-smi"
    old.write_text(
        "#!/bin/sh\ncase $* in *topo*) echo 'Invalid combination of input arguments.'; exit 1;;\n"
        "*pcie.link*|*ecc*) for f in pcie.link.gen.current pcie.link.gen.max pcie.link.width.current "
        "pcie.link.width.max ecc.mode.current ecc.errors.uncorrected.volatile.total; do case $* in *$f*) "
        'echo "Field \\"$f\\" is not a valid field to query."; exit 2;; esac; done;; esac\necho \'0, 7\'\n'
    )
    old.chmod(0o755)
    assert cards.links(LocalHost(), str(old)) == (Link(0, utilization_percent=7.0),)
    assert cards.topology(LocalHost(), str(old)) is None
    assert cards.links(LocalHost(), str(tmp_path / "nothing")) == ()


def test_power_is_told_while_it_is_watched(simulated: dict[str, str]) -> None:
    command = str(Path(__file__).parents[2] / "simulator" / "bin" / "nvidia-smi")
    with cards.Sampler(LocalHost(), 0.1, command, simulated) as sampler:
        all_cards, one = sampler.powers_w(), sampler.powers_w({"00000000:41:00.0"})
    assert [power for _, power in all_cards] == [4 * 31.0] * len(all_cards)
    assert len(one) == len(all_cards) >= 1
    assert one[0][1] == 31.0
    assert sampler.powers_w({"elsewhere"}) == []


def played(tokens: int, seconds: float) -> Round:
    """A round that began at 100 s on the monotonic clock."""
    one = record([(0.1, 1), (seconds, tokens)], intended_s=0.0, started_s=0.0, origin_s=0.0)
    return round_of(*([one] if tokens else []), duration_s=seconds, started_monotonic_s=100.0)


def test_energy_is_power_over_the_round_by_its_tokens() -> None:
    """Two cards at 1000 W in all for four seconds, 400 tokens: 10 J each; samples outside do not count."""
    round_ = played(400, 4.0)
    even = [(100.0 + s, 1000.0) for s in range(-3, 8)]
    told = energy(round_, even)
    assert told.value == pytest.approx(10.0)
    assert told.detail["mean_power_w"] == pytest.approx(1000.0)
    rising = [(100.0 + s, 1000.0 + 500.0 * np.clip(s, 0, 4)) for s in range(-3, 8)]
    assert energy(round_, rising).value == pytest.approx(20.0)


def test_a_round_that_no_sample_saw_has_no_energy() -> None:
    round_ = played(400, 0.3)
    told = energy(round_, [(99.9, 1000.0), (100.9, 1000.0)])
    assert told.value is None
    assert "shorter" in (told.reason or "")
    assert energy(played(0, 4.0), [(101.0, 1000.0)]).value is None


def at_work(index: int, clock: float, power: float = 590.0, reasons: int = 0x4) -> Gpu:
    return Gpu(
        index, utilization_percent=99.0, sm_clock_mhz=clock, power_w=power, power_limit_w=600.0, temperature_c=70.0,
        reasons=reasons,
    )  # fmt: skip


def test_a_slow_and_a_hot_card_show_under_load() -> None:
    told_by_script = {
        "cards": [{"index": 0, "tflops": 310.0}, {"index": 1, "tflops": 250.0}, {"index": 2, "tflops": 312.0}]
    }
    samples = [[at_work(0, 1965.0), at_work(1, 1500.0, reasons=0x24), at_work(2, 1980.0)]]
    lines = list(under_load.of_load(told_by_script, samples))
    assert [line.status for line in lines] == ["problem", "warning", "ok"]
    assert "GPU 1 is slowed within 5 s: power cap, thermal (software), 1500 to 1500 MHz" in lines[0].said
    assert "GPU 1 is 19% slower than the others (250 TFLOP/s)" in lines[1].said
    assert lines[2].said.startswith(
        "3 cards, 250 to 312 TFLOP/s (bf16): 1500 to 1980 MHz, up to 590 of 600 W"
    )
    assert all(line.todo for line in lines[:2])


def test_a_card_that_does_not_compute_and_a_host_without_torch_are_told() -> None:
    broken = {"cards": [{"index": 0, "tflops": 310.0}, {"index": 1, "error": "RuntimeError: CUDA error"}]}
    assert [line.status for line in under_load.of_load(broken, [])] == ["problem", "ok"]
    (line,) = under_load.of_load({"error": "no torch here"}, [])
    assert (line.status, line.said) == ("warning", "not tried: no torch here")


FAKE_TORCH = """
import time
bfloat16 = None
class cuda:
    is_available = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 2)
    synchronize = staticmethod(lambda device: time.sleep(0.001))
def device(kind, index):
    if index == 1: raise RuntimeError("card 1 is gone")
    return (kind, index)
def randn(*size, device, dtype): return size
def mm(left, right): return left
"""


def test_the_load_itself_runs_on_every_card_and_tells_of_one_that_fails(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    env = {"PYTHONPATH": str(tmp_path)}
    told_by_script = run_script(LocalHost(), sys.executable, ["short_load"], ["0.05"], env=env)
    first, second = told_by_script["cards"]
    assert first["tflops"] > 0
    assert second == {"index": 1, "error": "RuntimeError: card 1 is gone"}
    assert "error" in run_script(LocalHost(), [sys.executable, "-S", "-I"], ["short_load"], ["0.05"])
