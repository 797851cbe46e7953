"""``python -m suite init``: a simulator that runs, a container, a unit and a command, each measured at once."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from suite import __main__ as command_line
from suite import config
from tests.cases.lookalike import Odd
from tests.cases.lookalike import serving as looking_alike
from tests.hosts.ssh_servers import openssh
from tests.perf.running import MODEL, ROOT, perf
from tests.servers.conftest import StandinDaemon, daemon
from tests.simulator.process import serving

__all__ = ["daemon"]  # the fixture

SIMULATOR = (
    f"{sys.executable} -m simulator --model-path {ROOT / MODEL} --port 30000 --enable-metrics "
    "--speculative-algorithm NEXTN --speculative-num-steps 2 --speculative-eagle-topk 1 --speculative-num-draft-tokens 3"
)
BUDGET = '\n[targets.{name}.budgets.quick]\nscenarios = ["activation"]\nround_estimate_s = 1.0\n'


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def init(tmp_path: Path, *options: str, source: str, given: str = "") -> Done:
    """``python -m suite init``, in this process."""
    out, err = io.StringIO(), io.StringIO()
    words = ["init", f"--suite-config={tmp_path / 'suite.toml'}", "--from", source, *options]
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(ROOT)
        patch.setattr("sys.stdin", io.StringIO(given))
        code = command_line.main(words)
    return Done(code, out.getvalue(), err.getvalue())


def written(tmp_path: Path, name: str) -> config.Target:
    return config.load(tmp_path / "suite.toml").target(name)


def measured(tmp_path: Path, name: str, *options: str) -> str:
    """The target as it was written, measured a little; a busy machine may leave it undecided."""
    path = tmp_path / "suite.toml"
    path.write_text(path.read_text() + BUDGET.format(name=name))
    ran = perf(tmp_path, f"--suite-config={path}", f"--target={name}", "--rounds=2", *options)
    assert ran.code in (0, 8), ran.out
    return ran.out


def test_a_server_that_runs_is_launched_again_as_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "log", "--speculative-algorithm", "NEXTN", "--api-key", "sesame-open") as server:
        url = f"http://127.0.0.1:{server.port}"
        refused = init(tmp_path, source=url)
        assert (refused.returncode, "another API key" in refused.stderr) == (2, True), refused.stderr
        monkeypatch.setenv("THE_KEY", "sesame-open")
        done = init(tmp_path, "--name=box", "--api-key-env=THE_KEY", source=url)
    assert done.returncode == 0, done.stderr
    assert "sesame-open" not in done.stdout + done.stderr + (tmp_path / "suite.toml").read_text()
    assert f"--server-url {url}" in done.stdout
    got = written(tmp_path, "box")
    assert isinstance(got.launch, config.ProcessLaunch)
    assert got.launch.module == "simulator"
    assert got.flags["api-key"] == "{env:SGLANG_API_KEY}"
    assert "port" not in got.flags
    assert "checkpoint" in done.stdout  # the doctor looked at it


def test_a_server_whose_start_cannot_be_seen_is_attached_to(tmp_path: Path) -> None:

    with looking_alike(Odd()) as url:
        done = init(tmp_path, "--no-doctor", source=url)
    assert done.returncode == 0, done.stderr
    got = next(iter(config.load(tmp_path / "suite.toml").targets.values()))
    assert got.launch == config.AttachLaunch(kind="attach", url=url)
    assert got.model.endswith("Qwen3.5-397B-A17B-NVFP4")
    assert "how it was started is not to be seen" in done.stdout


def test_a_pasted_command_measures_at_once(tmp_path: Path) -> None:
    done = init(tmp_path, "--name=box", "--no-doctor", source=SIMULATOR)
    assert done.returncode == 0, done.stderr
    got = written(tmp_path, "box")
    assert "speculative-algorithm" not in got.arm_flags(got.arm("mtp-off"))
    plan = perf(tmp_path, f"--suite-config={tmp_path / 'suite.toml'}", "--target=box", "--plan")
    assert plan.code == 0, plan.out
    assert "(EAGLE, 2 steps, topk 1, 3 draft tokens)" in measured(tmp_path, "box")


def inspected(words: list[str], entrypoint: list[str]) -> list[dict[str, Any]]:
    """As docker's ``inspect`` writes it, shortened."""
    return [
        {
            "Id": "5b0c" * 16,
            "Path": "/opt/nvidia/nvidia_entrypoint.sh",
            "Config": {
                "Image": "some/sglang:0.5.23",
                "Env": ["HF_TOKEN=hf_verysecret", "SGLANG_X=1", "PATH=/usr/bin", "CUDA_VERSION=13.0"],
                "Cmd": words,
                "Entrypoint": entrypoint,
                "WorkingDir": str(ROOT),
            },
            "HostConfig": {
                "Binds": ["/models:/models:ro"],
                "ShmSize": 34359738368,
                "NetworkMode": "host",
                "IpcMode": "private",
                "DeviceRequests": None,
                "Ulimits": [{"Name": "memlock", "Soft": -1, "Hard": -1}],
            },
        }
    ]


def test_a_container_measures_at_once(
    tmp_path: Path, daemon: StandinDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["python3", *SIMULATOR.split()[1:]]
    (daemon.directory / "sglang.json").write_text(json.dumps(inspected(words, ["/opt/entry.sh"])))
    image = [{"Config": {"Env": ["PATH=/usr/bin", "CUDA_VERSION=13.0"], "Entrypoint": ["/opt/entry.sh"]}}]
    (daemon.directory / "image.json").write_text(json.dumps(image))
    done = init(tmp_path, "--name=box", "--no-doctor", source="sglang")
    assert done.returncode == 0, done.stderr
    assert "hf_verysecret" not in done.stdout + (tmp_path / "suite.toml").read_text()
    got = written(tmp_path, "box")
    assert got.launch == config.DockerLaunch(
        kind="docker",
        image="some/sglang:0.5.23",
        gpus="",
        mounts=["/models:/models:ro"],
        options=["--shm-size", "34359738368", "--ulimit", "memlock=-1:-1", "--workdir", str(ROOT)],
        command=["python3", "-m", "simulator"],
    )
    assert got.env == {"HF_TOKEN": "{env:HF_TOKEN}", "SGLANG_X": "1"}
    monkeypatch.setenv("HF_TOKEN", "hf_another-secret")
    out = measured(tmp_path, "box")
    assert "hf_another-secret" not in out
    assert any("simulator" in order["words"] for order in daemon.orders("start"))


def test_a_unit_measures_at_once(tmp_path: Path, daemon: StandinDaemon) -> None:
    daemon.write_unit(
        "llm.service", f"WorkingDirectory={ROOT}\nEnvironment=PYTHONPATH={ROOT}\nExecStart={SIMULATOR}"
    )
    done = init(tmp_path, "--name=box", "--no-doctor", source="llm")
    assert done.returncode == 0, done.stderr
    got = written(tmp_path, "box")
    assert got.launch == config.SystemdLaunch(kind="systemd", unit="llm.service")
    assert got.flags["speculative-algorithm"] is False  # the unit's own, taken away
    on = got.arm_flags(got.arm("mtp-on"))
    assert (on["speculative-algorithm"], on["speculative-num-steps"]) == ("NEXTN", 2)
    out = measured(tmp_path, "box")
    assert "mtp-off, launch 1: ready" in out
    assert "(speculation off)" in out


def test_a_script_on_another_host(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text(f'#!/bin/sh\n{SIMULATOR} "$@"\n')
    (tmp_path / "sshd").mkdir()
    with openssh(tmp_path / "sshd") as sshd:
        host = sshd.host()
        lines = [
            f'{k} = "{v}"'
            for k, v in host.model_dump(exclude_none=True).items()
            if isinstance(v, str) and k != "name"
        ]
        (tmp_path / "suite.toml").write_text(
            'default_target = "x"\n[targets.x]\nmodel = "/m"\n[hosts.far]\n' + "\n".join(lines) + "\n"
        )
        done = init(tmp_path, "--name=box", "--host=far", "--no-doctor", source=str(tmp_path / "start.sh"))
    assert done.returncode == 0, done.stderr
    assert (written(tmp_path, "box").host, written(tmp_path, "x").model) == ("far", "/m")


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text('# mine\ndefault_target = "m"\n[targets.m]\nmodel = "/m"')
    before = path.read_text()
    taken = init(tmp_path, "--name=m", source="/o/bin/sglang serve /m")
    assert taken.returncode == 2
    assert "has a target 'm' already" in taken.stderr
    dry = init(tmp_path, "--dry-run", source="-", given="/o/bin/sglang serve /m")
    assert dry.returncode == 0
    assert "[targets.m-2]" in dry.stdout
    assert path.read_text() == before
    assert init(tmp_path, "--no-doctor", source="/o/bin/sglang serve /m").returncode == 0
    assert path.read_text().startswith(before + "\n\n[targets.m-2]\n")
    path.write_text("default_target = ")
    broken = init(tmp_path, source="/o/bin/sglang serve /m")
    assert (broken.returncode, path.read_text()) == (2, "default_target = ")


@pytest.fixture(autouse=True)
def _claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_PERF_GATE_DIR", str(tmp_path / "claims"))
