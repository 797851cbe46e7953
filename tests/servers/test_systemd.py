"""Transient copies of a unit, which is stopped before and started after, whatever happens. systemd is a stand-in."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from suite.servers import ServerError, SupervisorFailed, SupervisorLost, UnitUnusable
from suite.servers.errors import ServerDied
from suite.servers.runtimes import LaunchRequest
from tests.servers.conftest import (
    STANDINS,
    TAG,
    MakeLauncher,
    Said,
    StandinDaemon,
    arm,
    standins_running,
    wait_until,
)

UNIT = {"kind": "systemd", "unit": "sglang@big.service"}


def service(*lines: str, exec_start: str | None = None, flags: str = "--model-path /old --port 29999") -> str:
    command = exec_start or f"{sys.executable} -m standin_server {flags}"
    return "\n".join(
        [
            f"ExecStart={command}",
            "Restart=always",
            "Type=simple",
            f"Environment=PYTHONPATH={STANDINS}",
            *lines,
        ]
    )


@pytest.fixture
def running(daemon: StandinDaemon) -> StandinDaemon:
    """The unit is there and active, as on a box in service."""
    original = [sys.executable, "-c", "import time; time.sleep(300)", "original", TAG]
    daemon.write_unit("sglang@big.service", service(), original)
    daemon.systemctl("start", "sglang@big.service")
    assert wait_until(
        lambda: daemon.systemctl("show", "--property=ActiveState", "sglang@big.service").endswith("=active")
    )
    return daemon


def originals() -> int:
    return sum("original" in process.cmdline() for process in standins_running())


def end_original(daemon: StandinDaemon) -> None:
    daemon.systemctl("stop", "sglang@big.service")


def test_arms_run_as_copies_while_the_unit_rests(
    launcher: MakeLauncher, running: StandinDaemon, said: Said
) -> None:
    arms = {
        "plain": {
            "flags": {"speculative-algorithm": "NEXTN", "note": False},
            "env": {"ARM": "a b", "API_KEY": "sec%ret"},
        }
    }
    running.write_unit(
        "sglang@big.service",
        service(
            "Nice=5", "User=%u", "Environment=WHO=%i%%", flags="--model-path /old --port 29999 --note ${GONE}"
        ),
        [sys.executable, "-c", "import time; time.sleep(300)", "original", TAG],
    )
    with launcher(arms=arms, launch=UNIT) as opened:
        assert originals() == 0
        server = opened.start(arm(opened))
        assert server.flags["model-path"] == "/models/x"
        assert server.flags["speculative-algorithm"] == "NEXTN"
        assert "note" not in server.flags
        assert server.log_tail(1) == ["[2026-01-01 00:00:00] The server is fired up and ready to roll!"]
        order = running.orders("start")[-1]
        server.stop()
    assert originals() == 1
    assert order["properties"] == ["Type=exec", "TimeoutStopSec=5", "Nice=5", "User=root"]
    assert {key: order["env"][key] for key in ("WHO", "ARM", "API_KEY")} == {
        "WHO": "big%",
        "ARM": "a b",
        "API_KEY": "sec%ret",
    }
    assert "sec%ret" not in " ".join(server.command)
    assert [line for line in said if "systemctl" in line] == [
        "local: systemctl stop sglang@big.service",
        "local: systemctl start sglang@big.service",
    ]
    end_original(running)


def test_a_unit_that_was_not_running_stays_so(launcher: MakeLauncher, daemon: StandinDaemon) -> None:
    daemon.write_unit("sglang@big.service", service())
    with launcher([], launch=UNIT) as opened:
        opened.start(arm(opened))
    assert [order["name"].startswith("sglang-perf-gate-") for order in daemon.orders("start")] == [True]


def test_the_unit_comes_back_after_failures(launcher: MakeLauncher, running: StandinDaemon) -> None:
    arms = {"flag": {"flags": {"no-such-flag": 1}}, "late": {"flags": {"behave": ["orphan", "die-later=1"]}}}
    opened = launcher(arms=arms, launch=UNIT)
    with opened, pytest.raises(ServerError, match="unrecognized arguments: --no-such-flag"):
        opened.start(arm(opened, "flag"))
    assert originals() == 1
    with launcher(arms=arms, launch=UNIT) as opened:
        server = opened.start(arm(opened, "late"))
        with pytest.raises(ServerDied, match="ended with signal 9"):
            wait_until(lambda: server.check() is not None, 20)
    assert originals() == 1
    end_original(running)


def test_teardown_starts_the_unit_again_when_the_keeper_is_killed(
    launcher: MakeLauncher, running: StandinDaemon, said: Said
) -> None:
    opened = launcher([], launch=UNIT)
    opened.__enter__()
    opened.start(arm(opened))
    os.kill(opened.nodes[0].supervisor.pid, 9)
    assert wait_until(lambda: (originals(), len(standins_running())) == (0, 1))
    with launcher([], launch=UNIT):
        assert standins_running() == []
    assert originals() == 1
    assert any("did what it could not" in line for line in said)
    end_original(running)


def test_a_unit_that_does_not_come_back_is_an_error(launcher: MakeLauncher, running: StandinDaemon) -> None:
    opened = launcher([], launch=UNIT)
    opened.__enter__()
    (running.directory / "units" / "sglang@big.service.broken").touch()
    with pytest.raises(
        SupervisorFailed, match=r"systemctl start sglang@big\.service ended with status 1: Job .* failed"
    ):
        opened.__exit__(None, None, None)


def test_variables_and_files_of_the_unit_are_taken_in(
    launcher: MakeLauncher, daemon: StandinDaemon, tmp_path: Path
) -> None:
    (tmp_path / "env").write_text('MODEL=/from/file\nEXTRA="--api-key k3y3y3y --tag x"\nARM=file\n')
    daemon.write_unit(
        "sglang@big.service",
        service(
            f"EnvironmentFile={tmp_path}/env",
            "EnvironmentFile=-/no/such/file",
            flags="--model-path ${MODEL} $EXTRA --note 'a $$ b'",
        ),
    )
    arms = {"plain": {"env": {"ARM": "arm"}, "flags": {"note": False}}}
    with launcher(arms=arms, launch=UNIT, flags={"tag": TAG}) as opened:
        server = opened.start(arm(opened))
        assert server.api_key is not None
        assert server.api_key.reveal() == "k3y3y3y"
        assert "k3y3y3y" not in " ".join(server.command)
        assert "--api-key ***" in " ".join(server.command)
    order = daemon.orders("start")[-1]
    assert (order["env"]["ARM"], order["env"]["MODEL"]) == ("arm", "/from/file")
    assert order["argv"][order["argv"].index("--api-key") + 1] == "k3y3y3y"


def test_a_missing_environment_file_is_an_error(launcher: MakeLauncher, daemon: StandinDaemon) -> None:
    daemon.write_unit("sglang@big.service", service("EnvironmentFile=/no/such/file"))
    with (
        pytest.raises(UnitUnusable, match="EnvironmentFile that cannot be read: /no/such/file"),
        launcher([], launch=UNIT),
    ):
        pass


@pytest.mark.parametrize(
    ("exec_start", "words"),
    [
        (
            "/usr/bin/docker run --gpus all img python3 -m sglang.launch_server --model-path /x",
            'kind = "docker", engine = "docker"',
        ),
        (
            "/usr/local/bin/start-sglang.sh",
            "not run SGLang in plain sight, but /usr/local/bin/start-sglang.sh",
        ),
        (
            "/bin/bash -c 'python3 -m sglang.launch_server --model-path $(cat /etc/model)'",
            "runs a line by bash that goes on behind SGLang's flags: python3 -m sglang.launch_server",
        ),
        ("/bin/bash /opt/start.sh", "runs a script by bash"),
        ("/usr/sbin/nginx -g 'daemon off;'", "not run SGLang in plain sight"),
        ("/usr/bin/python3 -m http.server 80", "not run SGLang in plain sight"),
        ("python3 -m sglang.launch_server --model-path 'x", "' is not closed"),
        ("python3 -m sglang.launch_server --model-path %Z", "uses %Z"),
    ],
)
def test_units_that_cannot_be_copied_say_what_to_do(
    launcher: MakeLauncher, daemon: StandinDaemon, exec_start: str, words: str
) -> None:
    daemon.write_unit("sglang@big.service", service(exec_start=exec_start))
    with pytest.raises(UnitUnusable) as caught, launcher([], launch=UNIT):
        pass
    assert words in str(caught.value)


def test_no_such_unit(launcher: MakeLauncher, daemon: StandinDaemon) -> None:
    with (
        pytest.raises(UnitUnusable, match=r"No files found for sglang@big\.service"),
        launcher([], launch=UNIT),
    ):
        pass


@pytest.mark.parametrize(
    "exec_start",
    [
        "/usr/bin/env X=1 numactl -N 0 /opt/python -m sglang.launch_server --model-path /x --tp 8",
        "-/opt/bin/sglang serve --model-path /x --tp 8",
        "@/opt/python name -m sglang.launch_server --model-path /x --tp 8",
        "/bin/bash -lc 'cd /opt && exec python3 -m sglang.launch_server --model-path /x --tp 8'",
        '"/opt/py thon" -m sglang.launch_server "--model-path=/x" --tp 8',
    ],
)
def test_commands_that_can_be_copied(launcher: MakeLauncher, daemon: StandinDaemon, exec_start: str) -> None:
    daemon.write_unit("sglang@big.service", service(exec_start=exec_start))
    with launcher(arms={"plain": {"flags": {"tp-size": 4}}}, launch=UNIT) as opened:
        plan = opened._runtimes[0].plan(
            LaunchRequest(opened._flags(arm(opened)), {}, "token", "target", "plain")
        )
    assert "--tp-size 4" in " ".join(plan.shown)


def test_hostile_kill_of_the_supervisor_leaves_the_unit_stopped_until_the_end(
    launcher: MakeLauncher, running: StandinDaemon
) -> None:
    """Ending what the killed one left starts the unit again; the next launch has to stop it once more."""
    with launcher([], launch=UNIT) as opened:
        server = opened.start(arm(opened))
        pid = opened.nodes[0].supervisor.pid
        assert pid is not None
        os.kill(pid, 9)
        with pytest.raises(SupervisorLost, match="was killed by SIGKILL"):
            wait_until(lambda: bool(server.check()))
        server.stop()
        opened.start(arm(opened)).stop()
        assert originals() == 0
    assert originals() == 1
    end_original(running)
