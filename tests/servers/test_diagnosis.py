"""Failures of a launch are named for what a person would do next: on real SGLang's logs, and on quoted texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.servers import errors
from suite.servers.diagnosis import Signs, diagnose, hopeless
from suite.servers.errors import Evidence
from suite.servers.phases import PhaseClock

LOGS = Path(__file__).parents[1] / "sglang_cpu" / "logs"
EXITS: dict[str, int | None] = json.loads((LOGS / "exits.json").read_text())


def real(name: str, version: str | None = "0.5.23") -> Signs:
    """A recorded log of SGLang 0.5.23 with the exit status it had."""
    lines = (LOGS / f"{name}.log").read_text().splitlines()
    clock = PhaseClock()
    for line in lines:
        clock.read(line)
    return Signs(lines[-2000:], clock.current, EXITS[name], version=version)


@pytest.mark.parametrize(
    ("log", "kind", "words"),
    [
        ("unknown-flag", errors.IncompatibleFlags, ["--mamba-scheduler-strategy", "removed", "0.5.20"]),
        ("unknown-flag", errors.IncompatibleFlags, ["use --mamba-radix-cache-strategy"]),
        (
            "ambiguous-flag",
            errors.IncompatibleFlags,
            ["--speculative-num could match --speculative-num-steps"],
        ),
        ("wrong-type", errors.IncompatibleFlags, ["--speculative-num-steps", "invalid int value: 'three'"]),
        ("unknown-algorithm", errors.IncompatibleFlags, ["no speculative algorithm NEXTT"]),
        ("draft-tokens-alone", errors.IncompatibleFlags, ["--speculative-num-draft-tokens without"]),
        ("model-path-missing", errors.WeightsMissing, ["no checkpoint at .sglang-cpu/checkpoints/nowhere"]),
        ("port-taken", errors.PortTaken, ["took the port"]),
    ],
)
def test_real_failures_of_sglang_are_named(log: str, kind: type[Exception], words: list[str]) -> None:
    failure = diagnose(real(log), Evidence())
    assert type(failure) is kind
    for word in words:
        assert word in str(failure)


def test_a_taken_port_is_noticed_long_before_sglang_gives_up() -> None:
    signs = real("port-taken")
    cut = next(i for i, line in enumerate(signs.lines) if "Errno 98" in line)
    early = Signs(signs.lines[: cut + 1], signs.phase)
    assert type(hopeless(early, Evidence())) is errors.PortTaken


@pytest.mark.parametrize("log", ["ready", "no-mtp-heads"])
def test_a_healthy_start_is_not_hopeless(log: str) -> None:
    assert hopeless(real(log), Evidence()) is None


QUOTED = [
    # (exit status, phase, the server's lines, kind, words). Texts of the published SGLang, torch, CUDA and docker.
    (
        -9,
        "allocating memory",
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "mem_fraction_static=0.7\nReceived sigquit from a child process. It usually means the child failed.",
        errors.OutOfMemory,
        "RAISE",
    ),
    (
        -9,
        "capturing graphs",
        "Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB.\nPossible "
        "solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
        errors.OutOfMemory,
        "LOWER",
    ),
    (
        -9,
        "warming up",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.",
        errors.OutOfMemory,
        "LOWER",
    ),
    (
        -9,
        "loading weights",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB.",
        errors.OutOfMemory,
        "do not fit",
    ),
    (
        1,
        "loading weights",
        "RuntimeError: Cannot find any model weights with `/models/x`",
        errors.WeightsMissing,
        "/models/x",
    ),
    (
        1,
        "loading draft weights",
        "RuntimeError: Cannot find any model weights with `/models/draft`",
        errors.DraftWeightsMissing,
        "/models/draft",
    ),
    (
        -9,
        "loading weights",
        "safetensors_rust.SafetensorError: Error while deserializing header: incomplete metadata",
        errors.WeightsMissing,
        "copied in part",
    ),
    (
        -9,
        "loading draft weights",
        "ValueError: num_nextn_predict_layers is not in the config",
        errors.DraftWeightsMissing,
        "MTP",
    ),
    (
        1,
        "starting",
        "RuntimeError: No CUDA GPUs are available: no CUDA-capable device is detected",
        errors.DriverError,
        "nvidia-smi",
    ),
    (
        -9,
        "warming up",
        "[2026-01-01 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):\n"
        "ZeroDivisionError: division by zero\n"
        "Received sigquit from a child process. It usually means the child failed.",
        errors.ChildDied,
        "ZeroDivisionError",
    ),
    (-9, "loading weights", "Load weight begin.", errors.ExitedEarly, "somebody killed it"),
    (1, "starting", "/usr/bin/python3: No module named sglang", errors.CannotStart, "no module sglang"),
    (
        125,
        "starting",
        "docker: Error response from daemon: pull access denied for x",
        errors.CannotStart,
        "image",
    ),
    (
        126,
        "starting",
        "sh: permission denied",
        errors.CannotStart,
        "status 126 before there was a server: sh: perm",
    ),
    (
        125,
        "starting",
        "Error: initializing source docker://x: pinging",
        errors.CannotStart,
        "initializing source",
    ),
    (125, "starting", "Error: container-init binary not found on the host", errors.CannotStart, "catatonit"),
    (3, "starting", "", errors.ExitedEarly, "exit status 3"),
]


@pytest.mark.parametrize(("code", "phase", "log", "kind", "words"), QUOTED)
def test_quoted_failures_are_named(
    code: int, phase: str, log: str, kind: type[Exception], words: str
) -> None:
    failure = diagnose(Signs(log.splitlines(), phase, code), Evidence())
    assert type(failure) is kind
    assert words in str(failure)


def test_the_kernels_kill_is_told_from_a_childs_death() -> None:
    lines = ["Load weight begin."]
    by_kernel = diagnose(Signs(lines, "loading weights", -9, out_of_memory_kills=1), Evidence())
    assert type(by_kernel) is errors.KilledByKernel
    in_container = diagnose(Signs(lines, "loading weights", 137, status="OOMKilled=true"), Evidence())
    assert type(in_container) is errors.KilledByKernel
    lines = ["Received sigquit from a child process. It usually means the child failed."]
    assert type(diagnose(Signs(lines, "loading weights", -9), Evidence())) is errors.ChildDied


def test_an_xid_is_the_machines_fault_whatever_sglang_says() -> None:
    kernel = ("NVRM: Xid (PCI:0000:01:00): 79, pid=1234, name=python, GPU has fallen off the bus.",)
    failure = diagnose(Signs(["RuntimeError: CUDA error"], "warming up", -9, kernel=kernel), Evidence())
    assert type(failure) is errors.DriverError
    assert "Xid 79 on PCI:0000:01:00" in failure.summary


def test_a_misspelt_flag_is_told_its_neighbour() -> None:
    lines = [
        "usage: launch_server.py [--mem-fraction-static X]",
        "e: error: unrecognized arguments: --mem-fraction-statc 1",
    ]
    failure = diagnose(Signs(lines, "starting", 2), Evidence())
    assert "it has --mem-fraction-static" in failure.advice


@given(
    lines=st.lists(st.text(), max_size=8),
    code=st.integers(-64, 255),
    phase=st.text(max_size=5),
    kernel=st.lists(st.text(), max_size=2),
)
def test_every_end_has_a_name_and_shows_its_evidence(
    lines: list[str], code: int, phase: str, kernel: list[str]
) -> None:
    evidence = Evidence(command=["python", "x y"], last_lines=["last words"], log_path="the.log")
    failure = diagnose(Signs(lines, phase, code, kernel=tuple(kernel)), evidence)
    for part in ("python 'x y'", "last words", "the.log"):
        assert part in str(failure)
