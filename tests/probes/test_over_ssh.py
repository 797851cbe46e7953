"""The probes work the same over SSH: sshd on loopback, nothing copied, hostile names as data."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite import config, doctor
from suite.hosts import Host, open_host
from suite.probes import checkpoint, gpus, installation
from suite.sglang.errors import ProbeHostError
from suite.sglang.flags import Flags
from tests.hosts import ssh_servers
from tests.probes.making import CONSTRUCTED, install_sglang, whole

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ssh_servers.SSHServer]:
    with ssh_servers.openssh(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def host(sshd: ssh_servers.SSHServer) -> Iterator[Host]:
    with open_host(sshd.host()) as opened:
        yield opened


def test_source_resolution_and_checkpoint_over_ssh(host: Host, tmp_path: Path) -> None:
    folder = tmp_path / "$(touch owned) 'a \"b"
    folder.mkdir()
    env = install_sglang(folder, CONSTRUCTED)
    scanned = installation.scan(host, sys.executable, env=env)
    assert scanned.installation.root == str(folder / "sglang")
    assert [site.kind for site in scanned.resolutions] == ["attribute"]
    outcome = installation.resolve(
        host, sys.executable, Flags({"model-path": "m", "speculative-algorithm": "NEXTN"}), env
    )
    assert isinstance(outcome, installation.Resolved)
    assert outcome.speculation.algorithm == "EAGLE"
    assert checkpoint.read(host, str(whole(folder / "model")), sys.executable).has_mtp
    assert not (tmp_path / "owned").exists()


def test_what_is_missing_over_ssh_has_the_same_names(host: Host) -> None:
    found = gpus.read(host, "/no/such/nvidia-smi")
    assert isinstance(found, gpus.NoGpus)
    assert found.why == "missing"
    with pytest.raises(ProbeHostError, match=r"loopback: no such interpreter"):
        installation.look(host, "/no/such/python")


def test_a_round_is_sampled_over_ssh(host: Host, tmp_path: Path) -> None:
    command = tmp_path / "nvidia-smi"
    words = [sys.executable, str(HERE / "replay_nvidia_smi.py"), str(HERE / "nvidia_smi" / "overheating.csv")]
    command.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    command.chmod(0o755)
    sampler = gpus.Sampler(host, interval_s=0.1, command=str(command)).start()
    end = time.monotonic() + 20
    while len(sampler._samples) < 10 and time.monotonic() < end:
        time.sleep(0.1)
    samples = sampler.stop()
    assert all(len(sample) == 4 for sample in samples)
    assert "thermal (software)" in samples[-2][2].slowed_by


def test_the_doctor_visits_over_ssh(sshd: ssh_servers.SSHServer, tmp_path: Path) -> None:
    env = install_sglang(tmp_path, CONSTRUCTED)
    table = sshd.host().model_dump(exclude={"name"}, exclude_none=True)
    target = {
        "host": "box",
        "model": str(whole(tmp_path / "model")),
        "env": env,
        "launch": {"kind": "process", "python": sys.executable},
        "arms": {"off": {}, "on": {"flags": {"speculative-algorithm": "NEXTN"}}},
    }
    data = {
        "default_target": "t",
        "builtin": False,
        "budgets": {"quick": {}},
        "hosts": {"box": table},
        "targets": {"t": target},
    }
    suite = config.parse(data, tmp_path / "suite.toml")
    lines = list(doctor.examine(suite, suite.target()))
    assert lines[0].said == "box can be reached"
    assert [line for line in lines if line.status == "problem"] == []
    assert [line.said.partition(",")[0] for line in lines if line.what == "arms"] == [
        "speculation off: off",
        "EAGLE",
    ]
    unknown = config.parse({**data, "hosts": {"box": {**table, "known_hosts": "/dev/null"}}}, suite.path)
    (refused,) = list(doctor.examine(unknown, unknown.target()))
    assert (refused.status, refused.what) == ("problem", "host")
    assert "ssh-keyscan" in refused.said
