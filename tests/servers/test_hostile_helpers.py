"""Whoever helps the suite may die unseen: logs may be lost, events and servers may not, and every wait ends."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.hosts.base import Running
from suite.servers import (
    CannotStart,
    Launcher,
    Locked,
    ServerError,
    SupervisorFailed,
    SupervisorLost,
    supervisor_client,
)
from suite.servers.log import LogCopy
from suite.servers.supervisor_client import SupervisorClient
from tests.hosts import ssh_servers
from tests.servers.conftest import MakeLauncher, Said, StandinDaemon, arm, standins_running, wait_until
from tests.servers.test_docker import container


def full_disk(path: Path) -> None:
    """Whatever is written into the file of this name finds no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/dev/full")


# ---------------------------------------------------------------- logs may fail


def test_a_log_without_room_keeps_its_last_lines_and_tells_once(tmp_path: Path) -> None:
    full_disk(tmp_path / "logs" / "a.log")
    read: list[str] = []
    failures: list[OSError] = []
    log = LogCopy(tmp_path / "logs" / "a.log", ["sesame"], read.append, failures.append)
    for number in range(3):
        log.write(f"line {number} sesame\n")
    log.write("unfinished")
    log.close()
    log.write("too late\n")
    assert read == ["line 0 ***", "line 1 ***", "line 2 ***", "unfinished", "too late"]
    assert log.tail(2) == ["unfinished", "too late"]
    assert [failure.strerror for failure in failures] == ["No space left on device"]


def test_a_log_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where the directory should be")
    failures: list[OSError] = []
    log = LogCopy(tmp_path / "logs" / "a.log", [], lambda line: None, failures.append)
    log.write("one\n")
    assert log.tail(5) == ["one"]
    assert len(failures) == 1


def test_a_server_lives_and_ends_although_its_log_has_no_room(
    launcher: MakeLauncher, said: Said, tmp_path: Path
) -> None:
    full_disk(tmp_path / "run" / "logs" / "01-plain.log")
    with launcher(["orphan"]) as opened:
        server = opened.start(arm(opened))
        assert any("fired up" in line for line in server.log_tail(5))
        assert server.stop().how == "SIGTERM"
        assert opened.start(arm(opened)).stop().how == "SIGTERM"  # and the second arm is not lost
    (told,) = [line for line in said if "No space left" in line]
    assert "01-plain.log" in told


class Scripted(Running):
    """A program that says what it is given, and how it ended."""

    def __init__(self, lines: list[bytes], how: str | None) -> None:
        super().__init__()
        self._how = how
        for line in lines:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, data: bytes) -> None:
        return

    def ended(self) -> str | None:
        return self._how

    def close_input(self, last: bytes = b"") -> None:
        return

    def close(self, timeout_s: float) -> None:
        return


def _broken(text: str) -> None:
    raise ZeroDivisionError


def test_a_log_that_breaks_its_reader_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the thread that delivers events dies of, who waits for one learns that none will come."""
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    from suite.hosts import LocalHost

    host = LocalHost()
    said: list[bytes] = [b'{"event": "log", "text": "x"}', b'{"event": "ready", "pid": 1}']
    monkeypatch.setattr(host, "start", lambda argv: Scripted(said, "ended with status 1"))
    supervisor = SupervisorClient(host, _broken, print, lambda kind, text: None)
    begun = time.monotonic()
    with pytest.raises(SupervisorLost, match="ended with status 1"):
        supervisor.open([], {}, wait_s=600.0)
    assert time.monotonic() - begun < 30.0


# ---------------------------------------------------------------- a supervisor that is killed


def kill_supervisor(opened: Launcher) -> int:
    pid = opened.nodes[0].supervisor.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    return pid


def lost(check: Callable[[], None], limit_s: float = 20.0) -> str:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        try:
            check()
        except SupervisorLost as error:
            return str(error)
        time.sleep(0.05)
    pytest.fail("nobody noticed")


def test_a_killed_supervisor_is_told_as_killed_and_replaced(launcher: MakeLauncher, said: Said) -> None:
    with launcher(["orphan"], gpus=1) as opened:
        server = opened.start(arm(opened))
        pid = kill_supervisor(opened)
        told = lost(server.check)
        assert f"(process {pid}) was killed by SIGKILL" in told
        assert server.stop().how.endswith("was killed by SIGKILL")
        again = opened.start(arm(opened))
        assert len(standins_running()) == 4  # three orphans of the first one are gone
        assert again.stop().how == "SIGTERM"
        with pytest.raises(Locked), launcher([], gpus=1):  # and the locks are held again
            pass
    assert any("left over on local" in line for line in said)


def test_a_supervisor_killed_while_it_starts_a_server(launcher: MakeLauncher) -> None:
    with launcher(["slow=30"]) as opened:
        threading.Timer(1.5, kill_supervisor, [opened]).start()
        with pytest.raises(SupervisorLost, match="was killed by SIGKILL"):
            opened.start(arm(opened))


def test_a_supervisor_killed_over_ssh_is_no_broken_connection(
    launcher: MakeLauncher,
    sshd: ssh_servers.SSHServer,
) -> None:
    table = sshd.host().model_dump(exclude={"name"})
    with launcher(["orphan"], host="box", hosts={"box": table}) as opened:
        server = opened.start(arm(opened))
        kill_supervisor(opened)
        assert "was killed by SIGKILL" in lost(server.check)
        server.stop()
        assert opened.start(arm(opened)).stop().how == "SIGTERM"


def test_a_container_of_a_killed_supervisor_is_gone_before_the_next(
    launcher: MakeLauncher, daemon: StandinDaemon
) -> None:
    with launcher(["orphan"], launch=container(engine="docker")) as opened:
        server = opened.start(arm(opened))
        kill_supervisor(opened)
        lost(server.check)
        server.stop()
        opened.start(arm(opened))
        assert len(standins_running()) == 4
    assert standins_running() == []


# ---------------------------------------------------------------- ended early


@pytest.mark.parametrize("kind", ["process", "docker"])
def test_abandoned_servers_are_ended_in_seconds_however_long_they_may_drain(
    launcher: MakeLauncher, daemon: StandinDaemon, kind: str
) -> None:
    launch = {"launch": container(engine="docker")} if kind == "docker" else {}
    opened = launcher(["deaf", "orphan"], timeouts={"ready_s": 60.0, "drain_s": 120.0}, **launch)
    begun = time.monotonic()
    with opened:
        opened.start(arm(opened))
        begun = time.monotonic()
        opened.abandon()
    assert standins_running() == []
    assert time.monotonic() - begun < 20.0


def test_abandoned_while_it_drains(launcher: MakeLauncher) -> None:
    with launcher(["deaf"], timeouts={"ready_s": 60.0, "drain_s": 120.0}) as opened:
        server = opened.start(arm(opened))
        stopping = threading.Thread(target=lambda: _quietly(server.stop))
        stopping.start()
        time.sleep(1.0)
        begun = time.monotonic()
        opened.abandon()
        stopping.join(30.0)
        assert not stopping.is_alive()
    assert time.monotonic() - begun < 20.0


def _quietly(do: Callable[[], object]) -> None:
    with contextlib.suppress(ServerError):
        do()


@pytest.mark.parametrize("before", ["nothing", "abandoned", "stopping"])
def test_all_at_once(launcher: MakeLauncher, before: str) -> None:
    opened = launcher(["deaf", "orphan"], timeouts={"ready_s": 60.0, "drain_s": 120.0})
    with opened:
        server = opened.start(arm(opened))
        if before == "abandoned":
            opened.abandon()
        elif before == "stopping":
            threading.Thread(target=lambda: _quietly(server.stop), daemon=True).start()
            time.sleep(0.5)
        begun = time.monotonic()
        assert supervisor_client.end_all_at_once(15.0)
        assert standins_running() == []
        if before != "stopping":
            assert time.monotonic() - begun < 2.5  # less than the time of a goodbye
        opened.abandon()


def test_who_waits_for_a_lock_can_be_told_to_leave(launcher: MakeLauncher) -> None:
    with launcher([], gpus=1):
        waiting = launcher([], gpus=1, wait_s=120.0)
        outcome: queue.SimpleQueue[BaseException] = queue.SimpleQueue()

        def enter() -> None:
            try:
                with waiting:
                    pass
            except ServerError as error:
                outcome.put(error)

        thread = threading.Thread(target=enter)
        before = set(supervisor_client._OPEN)
        thread.start()
        assert wait_until(lambda: bool(supervisor_client._OPEN - before))
        time.sleep(1.5)
        (theirs,) = supervisor_client._OPEN - before
        theirs.hurry()
        assert isinstance(outcome.get(timeout=20.0), Locked | SupervisorFailed)
        thread.join(20.0)


# ---------------------------------------------------------------- no room on the host


def test_a_host_without_room_for_records_still_ends_its_server(
    launcher: MakeLauncher, said: Said, claims: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The note on the host cannot be written any more: that is told, and the server ended all the same."""
    with launcher(["orphan"]) as opened:
        token = opened.nodes[0].supervisor.token
        # a directory where the note's next version is to be written: root may write everywhere else
        (claims / f"{token}.json.part").mkdir()
        server = opened.start(arm(opened))
        assert len(standins_running()) == 4
        server.stop()
    assert any("IsADirectoryError" in line for line in said)


def test_a_server_whose_log_cannot_be_made_on_the_host_does_not_start(
    launcher: MakeLauncher, claims: Path
) -> None:
    with launcher([]) as opened:
        (claims / f"{opened.nodes[0].supervisor.token}-1.log").mkdir()
        with pytest.raises(CannotStart, match="Is a directory"):
            opened.start(arm(opened))
        assert opened.start(arm(opened)).stop().how == "SIGTERM"
