"""Launching as a process, here and over SSH: ready, watched, failed in time, ended."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.config import ConfigError
from suite.servers import (
    CannotStart,
    ChildDied,
    DriverError,
    ExitedEarly,
    IncompatibleFlags,
    NotReadyInTime,
    PortTaken,
    ServerDied,
)
from tests.hosts.ssh_servers import SSHServer
from tests.hosts.test_hosts import hostile_text
from tests.servers.conftest import MakeLauncher, Said, alive, arm


@pytest.fixture(params=["here", "ssh"])
def place(request: pytest.FixtureRequest) -> dict[str, object]:
    """Keys of a target on this machine, or on a host over SSH."""
    if request.param == "here":
        return {}
    sshd: SSHServer = request.getfixturevalue("sshd")
    return {"host": "box", "hosts": {"box": sshd.host().model_dump(exclude={"name"})}}


def test_a_server_is_ready_answers_and_is_gone_at_the_end(
    launcher: MakeLauncher, place: dict[str, object], said: Said
) -> None:
    with launcher([], flags={"api-key": "s3cr3t-key"}, **place) as opened:
        server = opened.start(arm(opened))
        with urllib.request.urlopen(server.base_url + "/model_info", timeout=20) as answer:
            assert json.load(answer)["model_path"] == "/models/x"
        assert server.pid is not None
        assert alive(server.pid)
        server.check()
        assert server.api_key is not None
        assert server.api_key.reveal() == "s3cr3t-key"
        ended = server.stop()
        assert not alive(server.pid)
    assert ended.how == "SIGTERM"
    assert list(server.phases or ()) == ["starting", "loading weights", "allocating memory", "warming up"]
    assert said[0].startswith("launching plain ... ")
    assert said[-2].startswith("launching plain ... ready after")
    seen = [str(server.command), Path(str(server.log_path)).read_text(), *said]
    assert not any("s3cr3t-key" in text for text in seen)
    assert "--api-key ***" in " ".join(server.command)
    assert "'api_key': '***'" in seen[1]


def test_two_arms_are_two_launches_one_after_the_other(launcher: MakeLauncher) -> None:
    arms = {"off": {}, "on": {"flags": {"speculative-algorithm": "NEXTN"}}}
    with launcher(arms=arms) as opened:
        first = opened.start(arm(opened, "off"))
        with pytest.raises(RuntimeError, match="off is still up"):
            opened.start(arm(opened, "on"))
        first.stop()
        second = opened.start(arm(opened, "on"))
        assert first.stop().how == "had been stopped already"
        with pytest.raises(ServerDied, match="has been stopped"):
            first.check()
        second.check()
        assert second.pid != first.pid
        assert opened.launches == 2
    assert sorted(path.name for path in Path(str(first.log_path)).parent.iterdir()) == [
        "01-off.log",
        "02-on.log",
    ]


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(hostile_text.filter(lambda text: not text.startswith("--")), min_size=2, max_size=6))
def test_hostile_flags_and_variables_arrive_as_they_are(
    launcher: MakeLauncher, place: dict[str, object], tmp_path: Path, words: list[str]
) -> None:
    note = tmp_path / "a note $(x)'"
    odd = tmp_path / "dir `id`; \n"
    odd.mkdir(exist_ok=True)
    with launcher(
        flags={"note": str(note), "behave": [f"odd{word}" for word in words]},
        env={"ODD": words[0] or "x", "PYTHONPATH": str(Path(__file__).parent / "standins")},
        launch={"kind": "process", "module": "standin_server", "cwd": str(odd)},
        **place,
    ) as opened:
        opened.start(arm(opened))
    seen = json.loads(note.read_text())
    begin = seen["argv"].index("--behave") + 1
    assert seen["argv"][begin : begin + len(words)] == [f"odd{word}" for word in words]
    assert (seen["env"]["ODD"], seen["cwd"]) == (words[0] or "x", str(odd))
    assert list(odd.iterdir()) == []


def test_a_bad_flag_is_reported_with_the_servers_own_words(
    launcher: MakeLauncher, place: dict[str, object]
) -> None:
    with launcher(arms={"plain": {"flags": {"no-such-flag": "$(x)"}}}, **place) as opened:
        begun = time.monotonic()
        with pytest.raises(IncompatibleFlags) as caught:
            opened.start(arm(opened))
        assert time.monotonic() - begun < 15
    text = str(caught.value)
    assert "refuses its command line: unrecognized arguments: --no-such-flag $(x)" in text
    assert "--no-such-flag '$(x)' --host 127.0.0.1 --port" in text
    assert "usage:" in text


def test_an_exit_is_noticed_within_a_second(launcher: MakeLauncher) -> None:
    with launcher(["say=last words", "exit=3"]) as opened, pytest.raises(ExitedEarly, match="last words"):
        opened.start(arm(opened))
    log = Path(opened.log_dir / "01-plain.log")
    assert time.time() - log.stat().st_mtime < 1.0 + 5.0  # ours is 0.2 s; the rest is for a loaded machine


def test_a_dead_child_is_not_the_kernels_doing(launcher: MakeLauncher) -> None:
    with launcher(["sigquit"]) as opened, pytest.raises(ChildDied, match="while loading weights"):
        opened.start(arm(opened))


def test_an_xid_in_the_kernels_log_is_noticed(
    launcher: MakeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``dmesg`` is a stand-in: one line from before the launch, one from during it."""
    program = tmp_path / "bin" / "dmesg"
    program.parent.mkdir()
    xid = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    program.write_text(
        f"#!/bin/sh\necho '[    0.5] NVRM: Xid (PCI:0000:02:00): 13'\necho '[9999999999.5] {xid}'\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with launcher(["sigquit"]) as opened, pytest.raises(DriverError, match="0000:01:00"):
        opened.start(arm(opened))


def test_a_server_that_hangs_is_given_up_and_ended(launcher: MakeLauncher, place: dict[str, object]) -> None:
    timeouts = {"ready_s": 2.0, "drain_s": 1.0}
    words = "not ready within 2 s, while loading weights"
    with launcher(["hang"], timeouts=timeouts, **place) as opened, pytest.raises(NotReadyInTime, match=words):
        opened.start(arm(opened))


def test_a_phase_has_a_deadline_of_its_own(launcher: MakeLauncher) -> None:
    timeouts = {"ready_s": 60.0, "phase_s": {"loading weights": 0.5}}
    words = r"loading weights took longer than 0\.5 s"
    with launcher(["hang"], timeouts=timeouts) as opened, pytest.raises(NotReadyInTime, match=words):
        opened.start(arm(opened))


def test_a_phase_that_there_is_not_is_a_mistake_of_the_configuration(launcher: MakeLauncher) -> None:
    with pytest.raises(
        ConfigError, match=r"phase_s\] unknown phase 'loading'; there are: starting, loading weights"
    ):
        launcher(timeouts={"phase_s": {"loading": 1.0}})


def test_a_taken_port_is_known_before_anything_is_loaded(launcher: MakeLauncher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with launcher([], port=port) as opened, pytest.raises(PortTaken) as caught:
            opened.start(arm(opened))
    assert f"port {port} on local is taken by process" in str(caught.value)
    assert sys.executable.rpartition("/")[2] in str(caught.value)
    assert not opened.log_dir.exists()


def test_whoever_holds_the_port_keeps_their_secrets(launcher: MakeLauncher) -> None:
    arms = {"plain": {"flags": {"api-key": "s3cr3t-key"}}}
    with launcher(arms=arms) as first:
        port = int(first.start(arm(first)).base_url.rpartition(":")[2])
        other = {"other": {"flags": {}}}
        with launcher(arms=other, gpus=1, port=port) as second, pytest.raises(PortTaken) as caught:
            second.start(arm(second, "other"))
    assert "--api-key ***" in str(caught.value)
    assert "s3cr3t-key" not in str(caught.value)


def test_a_fixed_port_is_used_again_at_once(launcher: MakeLauncher) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with launcher([], port=port) as opened:
        for _ in range(2):
            server = opened.start(arm(opened))
            assert server.base_url == f"http://127.0.0.1:{port}"
            server.stop()


@pytest.mark.parametrize(
    "launch", [{"python": "/no/such/python"}, {"module": "no_such_module"}, {"cwd": "/no/such/dir"}]
)
def test_what_cannot_start_says_so(
    launcher: MakeLauncher, place: dict[str, object], launch: dict[str, str]
) -> None:
    table = {"kind": "process", "module": "standin_server", **launch}
    with launcher([], launch=table, **place) as opened, pytest.raises(CannotStart) as caught:
        opened.start(arm(opened))
    assert next(iter(launch.values())) in str(caught.value)


def test_a_server_that_dies_later_is_noticed(launcher: MakeLauncher) -> None:
    with launcher(["die-later=1"]) as opened:
        server = opened.start(arm(opened))
        server.check()
        deadline = time.monotonic() + 30
        while alive(server.pid or 0) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        with pytest.raises(ServerDied, match="died: the server ended with signal 9"):
            server.check()
