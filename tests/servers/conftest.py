"""What the tests of launching share: targets on stand-in servers, a directory of their own for locks and records."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from suite import config
from suite.servers import Launcher, launcher_for
from suite.servers.supervisor_client import DIRECTORY_VARIABLE
from tests.hosts import ssh_servers

STANDINS = Path(__file__).parent / "standins"


@pytest.fixture(autouse=True)
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Locks and records of this test alone."""
    directory = tmp_path / "claims"
    monkeypatch.setenv(DIRECTORY_VARIABLE, str(directory))
    return directory


TAG = f"tag-{os.urandom(6).hex()}"
"""On the command line of every stand-in of this test run, and of what they spawn: others run tests too."""


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    """Whatever a test does, no process of a stand-in may outlive it."""
    yield
    if not wait_until(lambda: not standins_running()):
        left = standins_running()
        for process in left:
            process.kill()
        pytest.fail(f"left running: {left}")


def wait_until(condition: Callable[[], bool], limit_s: float = 30.0) -> bool:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def standins_running() -> list[psutil.Process]:
    """Stand-in servers, and what they spawned, that run now (not the engines' and shells' commands about them)."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if TAG in words and process.info["status"] != psutil.STATUS_ZOMBIE and "python" in words[0]:
            found.append(process)
    return found


def make_suite(directory: Path, **changes: Any) -> config.Suite:
    """A suite with one target ``t`` of stand-in servers; ``changes`` are keys of the target, or ``hosts``."""
    hosts = changes.pop("hosts", {})
    arms = changes.pop("arms", {"plain": {}})
    target = {
        "model": "/models/x",
        "launch": {"kind": "process", "module": "standin_server", "cwd": str(STANDINS)},
        "timeouts": {"ready_s": 60.0, "drain_s": 5.0},
        "arms": arms,
        "budgets": {"quick": {}},
        **changes,
        "flags": {"tag": TAG, **changes.get("flags", {})},
    }
    tables = {"default_target": "t", "builtin": False, "hosts": hosts, "targets": {"t": target}}
    return config.parse(tables, directory / "suite.toml")


class Said(list[str]):
    """Collects what a launcher says."""

    def __call__(self, line: str) -> None:
        self.append(line)


MakeLauncher = Callable[..., Launcher]


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def launcher(tmp_path: Path, said: Said) -> MakeLauncher:
    """``launcher(behave=[...], **target)`` for one arm ``plain`` with that behaviour."""

    def make(behave: list[str] | None = None, wait_s: float = 0.0, **changes: Any) -> Launcher:
        if behave is not None:
            changes.setdefault("arms", {"plain": {"flags": {"behave": behave}}})
        suite = make_suite(tmp_path, **changes)
        made = launcher_for(suite, suite.target("t"), tmp_path / "run" / "logs", said, wait_s=wait_s)
        assert isinstance(made, Launcher)
        return made

    return make


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SSHServer]:
    with ssh_servers.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


def arm(launcher: Launcher, name: str = "plain") -> config.Arm:
    return launcher.target.arm(name)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def run_suite_in(directory: Path, code: str) -> list[str]:
    """A command line that runs ``code`` with this project importable, as another run of the suite would."""
    root = Path(__file__).parents[2]
    head = f"import sys; sys.path[:0] = [{str(root)!r}, {str(root / 'tests')!r}]\n"
    path = directory / f"other_run_{os.urandom(4).hex()}.py"
    path.write_text(head + code)
    return [sys.executable, str(path)]


class StandinDaemon:
    """The running stand-in of dockerd and systemd."""

    def __init__(self, directory: Path, process: subprocess.Popen[bytes]) -> None:
        self.directory = directory
        self.process = process
        (directory / "units").mkdir()

    def orders(self, do: str) -> list[dict[str, Any]]:
        """What clients asked for so far."""
        journal = self.directory / "journal.jsonl"
        lines = journal.read_text().splitlines() if journal.exists() else []
        return [order for order in map(json.loads, lines) if order["do"] == do]

    def systemctl(self, *words: str) -> str:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def write_unit(self, name: str, service: str, command: list[str] | None = None) -> None:
        (self.directory / "units" / name).write_text(f"[Unit]\nDescription=x\n[Service]\n{service}\n")
        if command:
            (self.directory / "units" / f"{name}.json").write_text(json.dumps(command))


@pytest.fixture
def daemon(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StandinDaemon]:
    """dockerd and systemd, with their clients first on the PATH."""
    directory = tmp_path_factory.mktemp("d")
    monkeypatch.setenv("STANDIN_DAEMON", str(directory))
    monkeypatch.setenv("PATH", f"{STANDINS / 'bin'}:{os.environ['PATH']}")
    process = subprocess.Popen(
        [sys.executable, str(STANDINS / "daemon.py"), str(directory)], start_new_session=True
    )
    try:
        assert wait_until(lambda: (directory / "socket").exists())
        yield StandinDaemon(directory, process)
    finally:
        for child in psutil.Process(process.pid).children(recursive=True):
            child.kill()
        process.kill()
        process.wait()
