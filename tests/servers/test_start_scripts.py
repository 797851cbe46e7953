"""Start scripts and other commands that take the flags behind them; one that drops them is found out at once."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from suite.config import ConfigError
from suite.hosts import LocalHost
from suite.servers import ArgumentsDropped, CannotStart
from suite.servers.passed_on import by_command, elsewhere
from suite.servers.runtimes import runtime_of
from suite.sglang.flags import Flags
from tests.hosts.ssh_servers import free_port
from tests.servers.conftest import STANDINS, TAG, MakeLauncher, arm, make_suite

RUN = f"cd {STANDINS} && exec {sys.executable} -m standin_server --model-path /models/own --tag {TAG}"


def script(tmp_path: Path, line: str) -> dict[str, Any]:
    path = tmp_path / "start.sh"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return {"kind": "process", "command": [str(path)]}


def test_a_script_that_passes_its_arguments_on_is_an_arm_as_any_other(
    launcher: MakeLauncher, tmp_path: Path
) -> None:
    arms = {"on": {"flags": {"speculative-algorithm": "NEXTN", "note": str(tmp_path / "seen")}}}
    with launcher(arms=arms, launch=script(tmp_path, f'{RUN} "$@"')) as opened:
        server = opened.start(arm(opened, "on"))
        server.check()
    seen = json.loads((tmp_path / "seen").read_text())["argv"]
    assert seen[seen.index("--speculative-algorithm") + 1] == "NEXTN"


@pytest.mark.parametrize("after", ["", '"$@" --port {port}'])
def test_a_script_that_drops_them_is_found_out_at_once(
    launcher: MakeLauncher, tmp_path: Path, after: str
) -> None:
    port = free_port()
    line = f"{RUN} {after.format(port=port) or f'--port {port}'} --behave slow=60"
    began = time.monotonic()
    with (
        launcher(arms={"plain": {}}, launch=script(tmp_path, line)) as opened,
        pytest.raises(ArgumentsDropped, match=rf"listens on {port}, not on \d+: pass the arguments on"),
    ):
        opened.start(arm(opened))
    assert time.monotonic() - began < 40  # long before the server is there, or ready_s is over


def test_a_script_with_the_right_port_by_chance_is_found_out_too(
    launcher: MakeLauncher, tmp_path: Path
) -> None:
    port = free_port()
    arms = {"on": {"flags": {"speculative-algorithm": "NEXTN"}}}
    line = f"{RUN} --host 127.0.0.1 --port {port}"
    with (
        launcher(arms=arms, port=port, launch=script(tmp_path, line)) as opened,
        pytest.raises(ArgumentsDropped, match=r"started without .*--speculative-algorithm NEXTN"),
    ):
        opened.start(arm(opened, "on"))


def test_a_server_in_no_plain_sight_is_found_by_its_port(launcher: MakeLauncher, tmp_path: Path) -> None:
    port = free_port()
    code = f"import standin_server, sys; sys.argv[1:] = ['--port', '{port}', '--model-path', 'x']; standin_server.main()"
    line = f'cd {STANDINS} && exec {sys.executable} -c "{code}" {TAG}'
    with (
        launcher(arms={"plain": {}}, launch=script(tmp_path, line)) as opened,
        pytest.raises(ArgumentsDropped, match=f"listens on {port}, not on"),
    ):
        opened.start(arm(opened))


ASKED = Flags({"model-path": "m", "port": 23579, "api-key": "sesame1", "tp-size": 8})
RIGHT = [*("python3", "-m", "sglang.launch_server"), *ASKED.argv()]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (RIGHT, None),
        (["sh", "start.sh", *ASKED.argv()], None),
        ([*RIGHT, "--port=30001"], "listens on 30001, not on 23579"),
        (["sglang", "serve", "m"], "listens on 30000, not on 23579"),
        (["sglang", "serve", "m", "--port", "23579", "--tp", "8"], "started without --api-key: pass"),
        (["sglang", "serve", "m", "--port", "23579", "--tp", "4", "--api-key", "sesame1"], "without --tp-size 8"),
    ],
)  # fmt: skip
def test_command_lines(words: list[str], said: str | None) -> None:
    found = by_command([{"words": words, "ports": []}], ASKED)
    assert found is None if said is None else said in (found or "")
    assert "sesame1" not in (found or "")


def test_the_log_of_a_container_says_it_too() -> None:
    lines = ["INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"]
    assert elsewhere(lines, 23579) == "the server listens on 30000, not on 23579: pass the arguments on"
    assert elsewhere(lines, 30000) is None


@pytest.mark.parametrize(
    ("launch", "python"),
    [
        ({"command": ["/opt/s/bin/sglang", "serve"]}, ["/opt/s/bin/python"]),
        ({"command": ["conda", "run", "-n", "s", "python", "-m", "sglang.launch_server"]}, ["conda", "run", "-n", "s", "python"]),
        ({"command": ["uv", "run", "--project", "/opt/s", "sglang", "serve"]}, ["uv", "run", "--project", "/opt/s", "python"]),
        ({"command": ["bash", "-c", 'cd /x; exec /y/python -m sglang.launch_server "$@"', "sglang"]}, ["/y/python"]),
        ({"command": ["./start.sh"]}, None),
        ({"command": ["./start.sh"], "python": "/opt/s/bin/python"}, ["/opt/s/bin/python"]),
        ({}, [sys.executable]),
    ],
)  # fmt: skip
def test_who_has_the_sglang_of_a_command(
    tmp_path: Path, launch: dict[str, Any], python: list[str] | None
) -> None:
    suite = make_suite(tmp_path, launch={"kind": "process", **launch})
    assert runtime_of(suite, suite.target(), LocalHost()).python({}) == python


def test_a_secret_is_taken_from_here_at_the_launch(
    launcher: MakeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = {"api-key": "{env:THE_KEY}", "note": str(tmp_path / "seen")}
    with launcher(arms={"plain": {}}, flags=flags, env={"HF_TOKEN": "x{env:THE_KEY}"}) as opened:
        with pytest.raises(CannotStart, match=r"--api-key takes the variable THE_KEY from here.*not set"):
            opened.start(arm(opened))
        monkeypatch.setenv("THE_KEY", "sesame-open")
        server = opened.start(arm(opened))
        assert server.api_key is not None
        assert server.api_key.reveal() == "sesame-open"
        assert "sesame" not in " ".join(server.command)
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["env"]["HF_TOKEN"] == "xsesame-open"
    assert "sesame-open" in seen["argv"]


def test_an_unknown_key_of_a_launch_lists_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"unknown key 'comand'; did you mean 'command'\?; there are: kind, python"
    ):
        make_suite(tmp_path, launch={"kind": "process", "comand": ["x"]})
