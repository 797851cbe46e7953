"""Containers: a name and labels of ours, logs from the engine, ended by name. The engine is a stand-in."""

from __future__ import annotations

import os
from typing import Any

import pytest

from suite.servers import CannotStart, ChildDied, IncompatibleFlags, KilledByKernel, ServerDied
from tests.servers.conftest import TAG, MakeLauncher, Said, StandinDaemon, arm, standins_running, wait_until


def container(**changes: Any) -> dict[str, Any]:
    return {
        "kind": "docker",
        "image": "some/sglang:0.5.23",
        "module": "standin_server",
        "gpus": None,
        **changes,
    }


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_is_run_by_name_and_gone_at_the_end(
    launcher: MakeLauncher, daemon: StandinDaemon, engine: str
) -> None:
    launch = container(
        engine=engine, mounts=["/models:/models:ro"], options=["--shm-size", "8g"], gpus="device=0,1"
    )
    env = {"PLAIN": "a b", "HF_TOKEN": "hf_secret"}
    with launcher(["orphan"], launch=launch, env=env) as opened:
        server = opened.start(arm(opened))
        assert len(standins_running()) == 4
        assert server.log_tail(1) == ["[2026-01-01 00:00:00] The server is fired up and ready to roll!"]
        server.stop()
        assert standins_running() == []
    words = daemon.orders("start")[0]["words"]
    assert [w for w in words if w.startswith("sglang-perf-gate.target=")] == ["sglang-perf-gate.target=t"]
    assert words[words.index("--name") + 1].startswith("sglang-perf-gate-")
    assert words[words.index("--volume") + 1] == "/models:/models:ro"
    assert words[words.index("--shm-size") + 1] == "8g"
    if engine == "docker":
        assert words[words.index("--gpus") + 1] == '"device=0,1"'
    else:
        assert [words[i + 1] for i, w in enumerate(words) if w == "--device"] == [
            "nvidia.com/gpu=0",
            "nvidia.com/gpu=1",
        ]
    assert daemon.orders("start")[0]["env"]["HF_TOKEN"] == "hf_secret"
    assert "hf_secret" not in " ".join([*words, *server.command])
    assert daemon.orders("forget")


def test_an_image_that_is_not_there(launcher: MakeLauncher, daemon: StandinDaemon) -> None:
    with (
        launcher([], launch=container(image="no/such:image")) as opened,
        pytest.raises(CannotStart) as caught,
    ):
        opened.start(arm(opened))
    assert "pull access denied" in str(caught.value)


def test_failures_inside_are_named_by_the_containers_own_exit(
    launcher: MakeLauncher, daemon: StandinDaemon
) -> None:
    arms = {
        "flag": {"flags": {"no-such-flag": 1}},
        "child": {"flags": {"behave": ["sigquit"]}},
        "late": {"flags": {"behave": ["die-later=1"]}},
    }
    with launcher(arms=arms, launch=container()) as opened:
        with pytest.raises(IncompatibleFlags, match="--no-such-flag"):
            opened.start(arm(opened, "flag"))
        with pytest.raises(ChildDied):
            opened.start(arm(opened, "child"))
        server = opened.start(arm(opened, "late"))
        with pytest.raises(ServerDied, match="exit status 137"):
            wait_until(lambda: server.check() is not None, 20)


def test_the_engine_knows_a_kill_for_memory(launcher: MakeLauncher, daemon: StandinDaemon) -> None:
    (daemon.directory / "oom").touch()
    with launcher(["exit=137"], launch=container()) as opened, pytest.raises(KilledByKernel):
        opened.start(arm(opened))


def test_teardown_of_a_container_when_the_keeper_is_killed(
    launcher: MakeLauncher, daemon: StandinDaemon, said: Said
) -> None:
    opened = launcher([], launch=container())
    opened.__enter__()
    opened.start(arm(opened))
    for process in standins_running():
        assert TAG in process.cmdline()
    supervisor = opened.nodes[0].supervisor
    os.kill(supervisor.pid, 9)
    assert len(standins_running()) == 1  # the engine's own: nobody has ended it
    with launcher([], launch=container()):
        assert standins_running() == []
    assert any(line.startswith("left over on local") and "docker rm --force" in line for line in said)
