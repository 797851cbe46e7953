"""Nothing is left behind, whoever is killed: kill tests that really kill, here and over SSH."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from suite.hosts import HostError
from suite.servers import Launcher, Locked, ServerError
from suite.servers.on_host import processes
from tests.hosts import ssh_servers
from tests.servers.conftest import (
    TAG,
    MakeLauncher,
    Said,
    alive,
    arm,
    run_suite_in,
    standins_running,
    wait_until,
)

OTHER_RUN = """
import os, sys, time
from pathlib import Path
from suite import config
from suite.servers import supervisor_client, launcher_for
supervisor_client.SILENCE_S = float(os.environ.get("SILENCE_S", supervisor_client.SILENCE_S))
suite = config.load(Path(sys.argv[1]))
target = suite.target()
with launcher_for(suite, target, Path(sys.argv[2]), lambda line: print(line, flush=True)) as launcher:
    server = launcher.start(target.arm("plain"))
    print("pid", server.pid, flush=True)
    time.sleep(120)
"""


@contextmanager
def other_run(
    directory: Path, behave: list[str], hosts: str = "", host: str = "local"
) -> Iterator[subprocess.Popen[str]]:
    """Another run of the suite in a process of its own, whose server is up and has orphans."""
    standins = Path(__file__).parent / "standins"
    toml = directory / "suite.toml"
    toml.write_text(
        f'default_target = "t"\n{hosts}\n[targets.t]\nmodel = "/models/x"\nhost = "{host}"\nflags = {{ tag = "{TAG}" }}\n'
        f'[targets.t.launch]\nkind = "process"\nmodule = "standin_server"\ncwd = {json.dumps(str(standins))}\n'
        f"[targets.t.arms.plain]\nflags = {{ behave = {json.dumps(behave)} }}\n[targets.t.budgets.quick]\n"
    )
    command = [*run_suite_in(directory, OTHER_RUN), str(toml), str(directory / "other" / "logs")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("pid"):
                break
        else:
            pytest.fail("the other run did not start its server")
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def supervisor_of(process: subprocess.Popen[str]) -> psutil.Process:
    return next(
        child for child in psutil.Process(process.pid).children() if "json" in " ".join(child.cmdline())
    )


def test_teardown_ends_orphans_that_belong_to_nobody(launcher: MakeLauncher) -> None:
    with launcher(["orphan"]) as opened:
        server = opened.start(arm(opened))
        assert len(standins_running()) == 4
        ended = server.stop()
        assert standins_running() == []
    assert len(ended.stray) == 3
    assert {
        name for stray in ended.stray for name in ("scheduler_TP0", "detokenizer", "deaf") if name in stray
    } == {
        "scheduler_TP0",
        "detokenizer",
        "deaf",
    }


def test_teardown_kills_what_does_not_listen(launcher: MakeLauncher) -> None:
    with launcher(["deaf"], timeouts={"ready_s": 60.0, "drain_s": 1.0}) as opened:
        ended = opened.start(arm(opened)).stop()
    assert ended.how == "SIGKILL after 1 s"


def test_teardown_after_a_failing_test_and_after_a_failed_launch(launcher: MakeLauncher) -> None:
    def fail() -> None:
        with launcher(["orphan"]) as opened:
            opened.start(arm(opened))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert standins_running() == []
    with launcher(["orphan", "exit=1"]) as opened:
        with pytest.raises(ServerError):
            opened.start(arm(opened))
        assert standins_running() == []


def test_teardown_says_what_it_cannot_free(launcher: MakeLauncher, monkeypatch: pytest.MonkeyPatch) -> None:
    from suite.servers.supervisor_client import SupervisorClient

    end = SupervisorClient.end

    def still_taken(self: SupervisorClient, drain_s: float) -> dict[str, object]:
        return {**end(self, drain_s), "busy": ["port 1234"]}

    monkeypatch.setattr(SupervisorClient, "end", still_taken)
    with launcher([]) as opened:
        server = opened.start(arm(opened))
        with pytest.raises(ServerError, match="port 1234 still taken"):
            server.stop()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_teardown_orphans_die_when_the_suite_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    with other_run(tmp_path, ["orphan"]) as run:
        assert len(standins_running()) == 4
        run.send_signal(number)
        assert wait_until(lambda: not standins_running())
        assert wait_until(lambda: not list((tmp_path / "claims").glob("*.json")))


def test_teardown_orphans_of_a_killed_keeper_are_ended_by_the_next_run(
    tmp_path: Path, launcher: MakeLauncher, said: Said
) -> None:
    with other_run(tmp_path, ["orphan"]) as run:
        supervisor = supervisor_of(run)
        os.kill(run.pid, signal.SIGKILL)
        supervisor.kill()
        assert wait_until(lambda: not any("standin_server" in p.cmdline() for p in standins_running()))
        assert len(standins_running()) == 3  # nobody is there to end these
        with launcher([]):
            assert standins_running() == []
    assert said[0].startswith("left over on local from a run of ")
    assert "ended 3 processes of:" in said[0]
    assert "standin_server" in said[0]


def test_teardown_leaves_a_live_run_alone(tmp_path: Path, launcher: MakeLauncher, said: Said) -> None:
    with other_run(tmp_path, []) as run:
        with launcher([], launch={"kind": "process", "module": "x"}, arms={"plain": {}}, gpus=1):
            pass
        assert said == []
        assert len(standins_running()) == 1
        assert run.poll() is None


def test_teardown_over_ssh_when_the_connection_drops(
    tmp_path: Path, launcher: MakeLauncher, claims: Path
) -> None:
    (tmp_path / "sshd").mkdir()
    with ssh_servers.openssh(tmp_path / "sshd") as sshd:
        table = sshd.host().model_dump(exclude={"name"})
        opened = launcher(["orphan"], host="box", hosts={"box": table})
        with pytest.raises(HostError, match="connection"), opened:
            _drop_connections_of(sshd, opened)


def _drop_connections_of(sshd: ssh_servers.SSHServer, opened: Launcher) -> None:
    server = opened.start(arm(opened))
    assert len(standins_running()) == 4
    for session in psutil.Process(sshd.pid).children(recursive=True):
        if session.name().startswith("sshd"):
            session.kill()
    assert wait_until(lambda: not standins_running())
    for _ in range(100):
        time.sleep(0.1)
        server.check()


def test_teardown_over_ssh_when_the_suite_is_killed(tmp_path: Path, sshd: ssh_servers.SSHServer) -> None:
    with other_run(tmp_path, ["orphan"], _hosts(sshd), "box") as run:
        assert len(standins_running()) == 4
        run.kill()
        assert wait_until(lambda: not standins_running())


def _hosts(sshd: ssh_servers.SSHServer) -> str:
    keys = sshd.host().model_dump(exclude={"name", "connect_timeout_s"})
    return "[hosts.box]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())


def test_teardown_over_ssh_when_the_link_falls_silent(
    tmp_path: Path, sshd: ssh_servers.SSHServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is frozen stands for a link that died without a word: nothing is closed, nothing is heard."""
    monkeypatch.setenv("SILENCE_S", "2")
    with other_run(tmp_path, ["orphan"], _hosts(sshd), "box") as run:
        time.sleep(2.5)
        assert len(standins_running()) == 4  # the heartbeat keeps it
        run.send_signal(signal.SIGSTOP)
        assert wait_until(lambda: not standins_running())


def test_lock_names_its_holder_and_dies_with_it(tmp_path: Path, launcher: MakeLauncher) -> None:
    with other_run(tmp_path, []) as run:
        with pytest.raises(Locked) as caught, launcher([]):
            pass
        assert f"pid {run.pid}" in str(caught.value)
        assert "target t" in str(caught.value)
        run.kill()
        with launcher([]) as opened:  # waits for the end of what the dead run's supervisor is ending
            opened.start(arm(opened))


def test_lock_dies_with_a_keeper_that_is_killed(tmp_path: Path, launcher: MakeLauncher) -> None:
    with other_run(tmp_path, []) as run:
        supervisor_of(run).kill()
        with launcher([]) as opened:
            assert opened.start(arm(opened)).pid


def test_lock_is_waited_for_when_asked(tmp_path: Path, launcher: MakeLauncher) -> None:
    with other_run(tmp_path, []) as run:
        begun = time.monotonic()
        with pytest.raises(Locked), launcher([], wait_s=1.0):
            pass
        assert time.monotonic() - begun >= 1.0
        assert alive(run.pid)


@pytest.mark.parametrize(
    ("first", "second", "free"),
    [
        ({"gpus": 2}, {"gpus": 1}, False),
        (
            {"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "0,1"}},
            {"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "2,3"}},
            True,
        ),
        (
            {"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "0,1"}},
            {"gpus": 2, "env": {"CUDA_VISIBLE_DEVICES": "3,1"}},
            False,
        ),
        ({"gpus": 1}, {"gpus": 0}, True),
    ],
)
def test_lock_is_by_gpu(
    launcher: MakeLauncher, first: dict[str, object], second: dict[str, object], free: bool
) -> None:
    with launcher([], **first):
        if free:
            with launcher([], **second):
                pass
        else:
            with (
                pytest.raises(Locked, match=r"GPU [01] on local is in use by another run"),
                launcher([], **second),
            ):
                pass


def test_a_record_from_before_a_reboot_ends_nobody(launcher: MakeLauncher, said: Said, claims: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        claims.mkdir()
        record = {
            "token": "old",
            "keeper": 1,
            "keeper_start": -1,
            "boot": "another boot",
            "job": {"token": "old", "log": "/x", "sessions": [bystander.pid], "since": 0, "shown": "y"},
        }
        (claims / "old.json").write_text(json.dumps(record))
        with launcher([]):
            assert bystander.poll() is None
        assert not (claims / "old.json").exists()
    finally:
        bystander.kill()
        bystander.wait()


OLD_RECORD = json.dumps(
    {"token": "a", "keeper": 1, "keeper_start": -1, "boot": processes.boot_id(), "job": {"pid": 1}}
)


def test_teardown_waits_for_the_memory_of_the_gpus(
    launcher: MakeLauncher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver frees a dead process's memory a little later: here nvidia-smi shows it for two more seconds."""
    users = tmp_path / "users"
    program = tmp_path / "bin" / "nvidia-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n[ -e {users} ] && cat {users}\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with launcher([], gpus=1) as opened:
        server = opened.start(arm(opened))
        users.write_text(f"{server.pid}\n")
        threading.Timer(2.0, users.unlink).start()
        ended = server.stop()
    assert ended.how == "SIGTERM"
    assert not users.exists()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"token": 3}', '{"token": "a", "keeper": 1, "keeper_start": -1}', OLD_RECORD]
)
def test_a_broken_record_stops_nobody(launcher: MakeLauncher, claims: Path, text: str) -> None:
    claims.mkdir()
    (claims / "broken.json").write_text(text)
    with launcher([]) as opened:
        assert opened.start(arm(opened)).pid
