"""Which arm a running server is, told from its command line or, of older releases, from what it resolved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from suite import config
from suite.servers.what_runs import arm_of, flags_of, speculates
from suite.sglang import server

BUILT_IN = {
    "default_target": "t",
    "targets": {"t": {"model": "/m", "flags": {"tp-size": 8, "enable-metrics": True}}},
}


def target(**changes: Any) -> config.Target:
    table = {**BUILT_IN["targets"]["t"], **changes}  # type: ignore[index]
    return config.parse(
        {**BUILT_IN, "targets": {"t": table}}, config.Suite.model_fields["path"].default
    ).target()


def info(command: str | None, **resolved: Any) -> server.ServerInfo:
    told: dict[str, Any] = {
        "version": "0.5.23",
        "model_path": "/m",
        "speculative_algorithm": None,
        **resolved,
    }
    if command is not None:
        told["launch_command"] = f"python -m sglang.launch_server --model-path /m {command}"
    return server.parse(json.dumps(told), "http://x")


ON = {"speculative_algorithm": "EAGLE", "speculative_num_steps": 3}


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (info("--tp 8"), "mtp-off"),
        (info("--speculative-algorithm NEXTN", **ON), "mtp-on"),
        (info("--speculative-algorithm EAGLE", **ON), "mtp-on"),
        (info("--speculative-algo nextn", **ON), "mtp-on"),
        (info("--speculative-algorithm EAGLE --speculative-num-steps 5 --speculative-eagle-topk 1 --speculative-num-draft-tokens 6", **ON), "mtp-depth-5"),
        (info("--speculative-algorithm EAGLE --speculative-num-steps 7 --speculative-eagle-topk 2 --speculative-num-draft-tokens 16", **ON), "mtp-eagle-7-2-16"),
        (info("--speculative-algorithm EAGLE3 --speculative-draft-model-path /d", **ON), "mtp-eagle3"),
        (info("--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"), "mtp-steps-only"),
        (info("--tp 8", **ON), "mtp-off"),  # on without being asked: mtp-off's broken promise
        (info("--speculative-algorithm NEXTN"), "mtp-on"),  # asked for, and not on: mtp-on's
        (info("--config c.yaml", **ON), "mtp-on"),
        (info(None, **ON), "mtp-on"),
        (info(None), "mtp-off"),
    ],
)  # fmt: skip
def test_the_arm_that_runs(found: server.ServerInfo, name: str) -> None:
    arm = arm_of(target(), found)
    assert arm is not None
    assert arm.name == name


def test_a_server_that_says_nothing_is_no_arm() -> None:
    silent = server.parse('{"version": "0.5.9", "model_path": "/m"}', "http://x")
    assert arm_of(target(), silent) is None


def test_an_arms_other_flags_are_what_runs_and_no_demand() -> None:
    arms = {"mtp-off": {"flags": {"mem-fraction-static": 0.7}}}
    found = info("--mem-fraction-static 0.8", mem_fraction_static=0.8)
    arm = arm_of(target(arms=arms), found)
    assert arm is not None
    assert (arm.name, arm.flags) == ("mtp-off", {})
    assert not speculates(arm)


def test_flags_are_those_it_was_started_with_in_the_targets_words() -> None:
    found = info(
        "--enable-metrics --port 1 --host h --api-key k3yk3y --page-size 16 --tp 8 --speculative-algorithm NEXTN"
    )
    flags = flags_of(target(), found)
    assert flags == {"tp-size": 8, "enable-metrics": True, "page-size": "16"}
    assert list(flags) == ["tp-size", "enable-metrics", "page-size"]
    old = info(None, tp_size=8, enable_metrics=False)
    assert flags_of(target(), old) == {"tp-size": 8}


def test_a_server_that_no_arm_asks_for_is_none() -> None:
    demanding = {name: {"flags": {"attention-backend": "triton"}} for name in ("mtp-off", "mtp-on")}
    found = info("--attention-backend flashinfer", attention_backend="flashinfer")
    assert arm_of(target(arms=demanding), found) is None
    assert arm_of(target(arms=demanding), info("", attention_backend="triton")) is not None
