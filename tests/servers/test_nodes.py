"""One server over several hosts: ranks, a meeting point, ready by rank 0, all ended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from suite.servers import ExitedEarly, Launcher, Locked
from tests.hosts import ssh_servers
from tests.servers.conftest import MakeLauncher, arm, standins_running, wait_until


@pytest.fixture
def hosts(sshd: ssh_servers.SSHServer) -> dict[str, Any]:
    """A second host: this machine again, over SSH."""
    return {"one": sshd.host().model_dump(exclude={"name"})}


def test_ranks_are_told_where_to_meet_and_all_are_ended(
    launcher: MakeLauncher, hosts: dict[str, Any], tmp_path: Path
) -> None:
    note = str(tmp_path / "note")
    opened = launcher(["orphan"], hosts=hosts, nodes=["one"], flags={"note": note})
    with opened:
        server = opened.start(arm(opened))
        assert len(standins_running()) == 8
        commands = [process.cmdline() for process in standins_running() if "--node-rank" in process.cmdline()]
        server.check()
        server.stop()
        assert standins_running() == []
    assert sorted(words[words.index("--node-rank") + 1] for words in commands) == ["0", "1"]
    meeting = {words[words.index("--dist-init-addr") + 1] for words in commands}
    assert len(meeting) == 1
    assert meeting.pop().startswith("127.0.0.1:")
    assert {words[words.index("--nnodes") + 1] for words in commands} == {"2"}
    assert json.loads(Path(note).read_text())["argv"]
    assert sorted(path.name for path in opened.log_dir.iterdir()) == ["01-plain.log", "01-plain.rank1.log"]


def test_a_rank_that_fails_fails_the_launch_and_ends_the_others(
    launcher: MakeLauncher, hosts: dict[str, Any]
) -> None:
    opened = launcher(["exit-rank=1", "slow=20"], hosts=hosts, nodes=["one"])
    with opened, pytest.raises(ExitedEarly) as caught:
        opened.start(arm(opened))
    assert "command (on one):" in str(caught.value)
    assert "--node-rank 1" in str(caught.value)
    assert wait_until(lambda: not standins_running())


def test_a_host_that_is_taken_gives_back_the_others(launcher: MakeLauncher, hosts: dict[str, Any]) -> None:
    changes = {"hosts": hosts, "arms": {"plain": {}}}
    with launcher(host="one", **changes), pytest.raises(Locked, match="on one is in use"):
        _enter(launcher(nodes=["one"], **changes))
    with launcher(nodes=["one"], **changes) as opened:
        opened.start(arm(opened))


def _enter(opened: Launcher) -> None:
    with opened:
        pytest.fail("both hosts were given")
