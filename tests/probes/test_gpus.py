"""GPUs through nvidia-smi: each thing that it can do wrong has a name, and slowed cards are told from busy ones."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import xids
from suite.gate.invalid import clocks_throttled
from suite.gate.records import Invalid
from suite.hosts import LocalHost
from suite.probes import gpus
from suite.probes.gpus import Gpu
from suite.session.gpu_monitor import Watched

HERE = Path(__file__).parent
RECORDINGS = HERE / "nvidia_smi"
Replay = Callable[[str], str]


@pytest.fixture
def replay(tmp_path: Path) -> Replay:
    """An executable that replays a recording."""

    def make(recording: str) -> str:
        command = tmp_path / "nvidia-smi"
        words = [sys.executable, str(HERE / "replay_nvidia_smi.py"), str(RECORDINGS / recording)]
        command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        command.chmod(0o755)
        return str(command)

    return make


def read(command: str) -> gpus.Gpus:
    found = gpus.read(LocalHost(), command)
    assert isinstance(found, gpus.Gpus)
    return found


def judged(samples: list[tuple[Gpu, ...]]) -> Invalid | None:
    """What the gate makes of a round's samples."""
    return clocks_throttled(Watched(samples).record()["gpu_samples"])


def test_eight_idle_cards(replay: Replay) -> None:
    found = read(replay("idle.csv"))
    assert found.identity() == {
        "gpu": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "gpus": 8,
        "compute_capability": "12.0",
    }
    assert found.subject() == {"driver": "580.105.08", "power_limit_w": "600"}
    first = found.gpus[0]
    assert (first.temperature_c, first.power_w, first.sm_clock_mhz, first.memory_total_mib) == (
        31,
        32.1,
        180,
        97887,
    )
    assert first.persistence is True
    assert first.reasons == 0x1
    assert first.slowed_by == ()
    assert found.processes == ()


def test_who_computes_on_the_cards(replay: Replay) -> None:
    found = read(replay("serving.csv"))
    assert [(p.pid, p.name, p.memory_mib) for p in found.processes] == [
        (48694, "sglang::scheduler_TP0", 88196),
        (48695, "sglang::scheduler_TP1", 88196),
    ]
    assert [process.pid for process in found.others([48694])] == [48695]
    assert found.gpus[0].slowed_by == ("power cap",)


def test_an_old_driver_is_asked_only_what_it_knows(replay: Replay) -> None:
    found = read(replay("old-driver.csv"))
    assert found.gpus[0].compute_capability is None
    assert found.gpus[0].reasons == 0
    assert found.gpus[0].memory_total_mib == 40536
    assert "compute_capability" not in found.fields


def test_what_a_card_does_not_tell_is_none(replay: Replay) -> None:
    card = read(replay("untold.csv")).gpus[0]
    assert (card.power_w, card.memory_clock_mhz, card.utilization_percent) == (None, None, None)
    assert card.sm_clock_mhz == 300


@pytest.mark.parametrize(
    ("recording", "why", "says"),
    [
        ("no-driver.txt", "no driver", "communicate"),
        ("mismatch.txt", "no driver", "mismatch"),
        ("no-devices.txt", "no devices", "No devices"),
        ("lost.txt", "lost", "GPU is lost"),
    ],
)
def test_each_failure_has_its_own_name(replay: Replay, recording: str, why: str, says: str) -> None:
    found = gpus.read(LocalHost(), replay(recording))
    assert isinstance(found, gpus.NoGpus)
    assert found.why == why
    assert says in found.message
    assert found.expected is (why == "no devices")


def test_missing_and_hanging(tmp_path: Path) -> None:
    missing = gpus.read(LocalHost(), str(tmp_path / "nvidia-smi"))
    assert isinstance(missing, gpus.NoGpus)
    assert missing.why == "missing"
    hanging = tmp_path / "hanging"
    hanging.write_text("#!/bin/sh\nexec sleep 60\n")
    hanging.chmod(0o755)
    found = gpus.read(LocalHost(), str(hanging), timeout_s=0.3)
    assert isinstance(found, gpus.NoGpus)
    assert found.why == "hanging"


def test_a_round_on_an_overheating_card_leaves_evidence(replay: Replay) -> None:
    sampler = gpus.Sampler(LocalHost(), interval_s=0.1, command=replay("overheating.csv"))
    with sampler:
        _until(lambda: len(sampler._samples) >= 10)
    samples = sampler.stop()
    assert sampler.outcome is None
    assert all(len(sample) == 4 for sample in samples)
    throttled = judged(samples)  # the last sample is the replay's first frame again
    assert throttled is not None
    assert throttled.name == "clocks_throttled"
    assert "GPU 2: software thermal" in throttled.evidence
    assert [samples[place][2].sm_clock_mhz for place in (0, -2)] == [1965, 1580]
    assert max(sample[2].temperature_c or 0 for sample in samples) == 93


def test_a_round_at_the_power_limit_with_steady_clocks_is_no_throttling(replay: Replay) -> None:
    sampler = gpus.Sampler(LocalHost(), interval_s=0.1, command=replay("serving.csv")).start()
    _until(lambda: len(sampler._samples) >= 4)
    assert judged(sampler.stop()) is None


def test_a_host_without_cards_is_sampled_in_vain_and_says_so(tmp_path: Path) -> None:
    sampler = gpus.Sampler(LocalHost(), command=str(tmp_path / "nvidia-smi")).start()
    assert sampler.stop() == []
    assert sampler.outcome is not None
    assert sampler.outcome.expected


def test_one_that_cannot_loop_is_asked_again(replay: Replay, tmp_path: Path) -> None:
    once = tmp_path / "once"
    once.write_text(f'#!/bin/sh\n{replay("serving.csv")} "$1" "$2"\n')
    once.chmod(0o755)
    sampler = gpus.Sampler(LocalHost(), interval_s=0.05, command=str(once)).start()
    _until(lambda: len(sampler._samples) >= 4)
    assert len(sampler.stop()) >= 4


def test_a_card_lost_in_mid_round_is_an_outcome(replay: Replay, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("serving.csv")
    script = tmp_path / "fails-later"
    replayer = shlex.join([sys.executable, str(HERE / "replay_nvidia_smi.py")])
    script.write_text(f'#!/bin/sh\nexec {replayer} "{RECORDINGS}/$(cat {state})" "$@"\n')
    script.chmod(0o755)
    sampler = gpus.Sampler(LocalHost(), interval_s=0.1, command=str(script)).start()
    state.write_text("lost.txt")
    sampler.stop()
    assert sampler.outcome is not None
    assert sampler.outcome.why == "lost"


def test_xids_are_found_in_the_kernels_log() -> None:
    first, second = xids.read((RECORDINGS / "kernel.log").read_text())
    assert first == xids.Xid("PCI:0000:01:00", 8, "pid=48694, name=python3, channel 0x00000008")
    assert (first.pid, first.process) == (48694, "python3")
    assert second == xids.Xid("PCI:0000:21:00", 79, "GPU has fallen off the bus.")
    assert (second.pid, second.process) == (None, "")


@given(st.text(max_size=200))
def test_any_output_is_read_without_falling(text: str) -> None:
    gpus.parse(text, tuple(gpus.query.FIELDS))


def _until(true: Callable[[], bool], timeout_s: float = 20.0) -> None:
    end = time.monotonic() + timeout_s
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
