"""The doctor's page: each thing that would spoil a measurement is a line with what to do, without a launch."""

from __future__ import annotations

import json
import re
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from suite import __main__ as command_line
from suite import config, doctor
from suite.doctor import Line
from suite.doctor.machine import processor
from suite.hosts import Host, LocalHost
from suite.probes import gpus
from suite.servers.runtimes import Runtime
from suite.servers.runtimes.docker import in_container
from tests.probes.answering import Answer, answering
from tests.probes.making import CONSTRUCTED, install_sglang, whole

Examine = Callable[..., list[Line]]
ALIAS_LINE = next(n for n, line in enumerate(CONSTRUCTED.splitlines(), 1) if '= "EAGLE"' in line)
ANSWERS = Path(__file__).parent / "answers"


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """A well target of a small SGLang with a small checkpoint, changed in some keys, and what the doctor says of it."""
    monkeypatch.setattr(gpus, "read", lambda host, *_, **__: gpus.NoGpus("missing", "there is no nvidia-smi"))
    whole(tmp_path / "model")

    def make(source: str = CONSTRUCTED, **changes: Any) -> list[Line]:
        env = install_sglang(tmp_path, source)
        target = {
            "model": str(tmp_path / "model"),
            "env": env,
            "launch": {"kind": "process", "python": sys.executable},
            "arms": {"off": {}, "on": {"flags": {"speculative-algorithm": "NEXTN"}}},
        }
        data = {
            "default_target": "small",
            "builtin": False,
            "budgets": {"quick": {}},
            "targets": {"small": _laid_over(target, changes)},
        }
        suite = config.parse(data, tmp_path / "suite.toml")
        return list(doctor.examine(suite, suite.target()))

    return make


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``changes`` over ``base``, variables and arms one by one; ``...`` takes a key away."""
    inner = {
        key: _laid_over(base[key], changes[key]) for key in ("env", "arms") if key in changes and key in base
    }
    return {key: value for key, value in {**base, **changes, **inner}.items() if value is not ...}


def bad(lines: list[Line], what: str) -> Line:
    """The one line about ``what`` that is not ok."""
    (line,) = [line for line in lines if line.what == what and line.status != "ok"]
    return line


def test_a_well_target_has_no_problem(examine: Examine) -> None:
    lines = examine()
    assert [line for line in lines if line.status == "problem"] == []
    said = {line.what: line for line in lines}
    assert {"host", "sglang", "source", "checkpoint", "arms", "gpus"} <= set(said)
    assert [line.said.split(", topk")[0] for line in lines if line.what == "arms"] == [
        "speculation off: off",
        "EAGLE, 3 steps",
    ]
    assert said["sglang"].said.startswith("0.0.0.dev1+gd91c3682b")
    assert "3 MTP tensors" in said["checkpoint"].said


def test_every_line_that_is_not_ok_says_what_to_do(examine: Examine) -> None:
    lines = examine(env={"SGLANG_SIMULATE_ACC_LEN": "3", "LD_PRELOAD": ""}, gpus=8, model="nowhere")
    wrong = [line for line in lines if line.status != "ok"]
    assert {"environment", "gpus", "checkpoint"} <= {line.what for line in wrong}
    assert [line for line in wrong if not line.todo] == []


def test_an_arm_with_a_flag_that_this_sglang_lacks(examine: Examine) -> None:
    lines = examine(arms={"old": {"flags": {"mamba-scheduler-strategy": "no_buffer"}}})
    line = bad(lines, "arm old")
    assert line.status == "problem"
    assert "unrecognized arguments: --mamba-scheduler-strategy" in line.said
    assert "mamba-radix-cache-strategy" in line.todo


def test_speculation_that_nobody_asked_for_is_found_in_source_and_in_resolution(examine: Examine) -> None:
    lines = examine(CONSTRUCTED.replace('if self.speculative_algorithm == "NEXTN":', "if True:"))
    assert "not asked for" in bad(lines, "arm off").said
    assert f"server_args.py:{ALIAS_LINE}" in bad(lines, "source").said


def test_an_abbreviated_flag_and_a_config_file_ask_as_well(examine: Examine, tmp_path: Path) -> None:
    (tmp_path / "ask.yaml").write_text("speculative-algorithm: NEXTN\n")
    (tmp_path / "bad.yaml").write_text("no-such-flag: 1\n")
    lines = examine(
        arms={
            "short": {"flags": {"speculative-algo": "NEXTN"}},
            "file": {"flags": {"config": "ask.yaml"}},
            "bad": {"flags": {"config": "bad.yaml"}},
        }
    )
    assert [line.said for line in lines if line.what == "arms"][1].endswith(": on, short, file")
    assert "unrecognized arguments: --no-such-flag" in bad(lines, "arm bad").said


def test_plugins_are_a_warning_unless_the_target_brings_them(examine: Examine, tmp_path: Path) -> None:
    info = tmp_path / "auto_mtp-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: auto-mtp\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[sglang.srt.plugins]\nauto = auto_mtp:activate\n")
    (tmp_path / "auto_mtp.py").write_text("def activate(args):\n    pass\n")
    assert [line.status for line in examine() if line.what == "plugins"] == ["ok"]


def test_an_arm_with_a_checkpoint_of_its_own_is_looked_at_but_only_warned_of(
    examine: Examine, tmp_path: Path
) -> None:
    whole(tmp_path / "bare", config={"num_hidden_layers": 60}, head=[])
    flags = {"model-path": str(tmp_path / "bare"), "speculative-algorithm": "NEXTN"}
    lines = examine(arms={"bare": {"flags": flags}})
    assert bad(lines, "checkpoint of bare").status == "warning"


def test_a_container_is_examined_through_its_engine(examine: Examine, tmp_path: Path) -> None:
    """The engine is a stand-in that runs the image's Python here."""
    engine = tmp_path / "docker"
    engine.write_text(
        f"""#!{sys.executable}
import os, sys
words = sys.argv[1:]
assert words[:3] == ["run", "--rm", "--interactive"], words
assert words[words.index("--env") + 1] == "PYTHONPATH" and os.environ["PYTHONPATH"]
os.execv(sys.executable, [sys.executable, *words[words.index("an/image") + 1:]])
"""
    )
    engine.chmod(0o755)
    lines = examine(launch={"kind": "docker", "engine": str(engine), "image": "an/image"})
    assert [line for line in lines if line.status == "problem"] == []
    assert any(line.what == "arms" and "EAGLE" in line.said for line in lines)


def test_a_unit_is_examined_with_its_interpreter_variables_and_flags(
    examine: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``systemctl`` is a stand-in that prints one unit."""
    unit = (
        f"[Service]\nEnvironment=PYTHONPATH={tmp_path}\nExecStart={sys.executable} -m sglang.launch_server "
        f"--model-path /elsewhere --speculative-num-steps 3\n"
    )
    (tmp_path / "unit").write_text(unit)
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(f'#!/bin/sh\ncase "$*" in *cat*) cat {tmp_path}/unit;; *) echo active;; esac\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    lines = examine(launch={"kind": "systemd", "unit": "sglang.service"}, env={"PYTHONPATH": ...})
    assert [line for line in lines if line.status == "problem"] == []
    assert any(line.what == "sglang" and "0.0.0.dev1" in line.said for line in lines)
    assert [line.said.rpartition(": ")[2] for line in lines if line.what == "arms"] == ["off", "on"]
    (tmp_path / "unit").write_text("[Service]\nExecStart=/bin/sh -c run\n")
    assert (
        "by sh with no SGLang command"
        in bad(examine(launch={"kind": "systemd", "unit": "sglang.service"}), "systemd").said
    )


def test_speculation_that_was_asked_for_and_does_not_come(examine: Examine) -> None:
    lines = examine(CONSTRUCTED.replace('"EAGLE", 3', "None, None"))
    assert bad(lines, "arm on").status == "problem"


def test_a_checkpoint_without_heads_under_an_arm_that_wants_them(examine: Examine, tmp_path: Path) -> None:
    whole(tmp_path / "bare", config={"num_hidden_layers": 60}, head=[])
    line = bad(examine(model=str(tmp_path / "bare")), "checkpoint")
    assert line.status == "problem"
    assert "asked for by on" in line.said


def test_a_checkpoint_that_is_not_there(examine: Examine) -> None:
    assert "no such directory" in bad(examine(model="nowhere"), "checkpoint").said


@pytest.mark.parametrize("name", ["SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD"])
def test_made_up_acceptance_is_a_problem(examine: Examine, name: str) -> None:
    assert "made up" in bad(examine(env={name: "3"}), "environment").said


def test_no_interpreter_is_a_problem_of_sglang_and_the_rest_is_still_looked_at(examine: Examine) -> None:
    lines = examine(launch={"kind": "process", "python": "/no/such/python"})
    assert "no such interpreter" in bad(lines, "sglang").said
    assert any(line.what == "load" for line in lines)


def test_a_taken_port(examine: Examine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "taken" in bad(examine(port=port), "port").said
    assert [line.status for line in examine(port=port) if line.what == "port"] == ["ok"]


def test_missing_cards_are_a_problem_where_the_target_wants_some(examine: Examine) -> None:
    assert "wants 8" in bad(examine(gpus=8), "gpus").todo


def test_cards_that_are_used_limited_and_hot(examine: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    card = gpus.Gpu(
        index=0, name="RTX", power_limit_w=450, power_default_w=600, persistence=False, reasons=0x40
    )
    there = gpus.Gpus((card,), (gpus.Process(7, "python", "GPU-0", 900.0),))
    monkeypatch.setattr(gpus, "read", lambda host, *_, **__: there)
    monkeypatch.setattr(
        gpus, "kernel_log", lambda *_, **__: "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    )
    lines = examine(gpus=1)
    assert "process 7 (python)" in bad(lines, "idle").said
    assert "450 of 600 W" in bad(lines, "power").said
    assert "-pm 1" in bad(lines, "persistence").todo
    assert "thermal (hardware)" in bad(lines, "clocks").said
    assert "Xid 79" in bad(lines, "xid").said


class Machine(LocalHost):
    """This machine with some of its files replaced."""

    def __init__(self, files: Mapping[str, str]) -> None:
        super().__init__()
        self._files = files

    def exists(self, path: str) -> bool:
        return path in self._files or any(name.startswith(f"{path}/") for name in self._files)

    def list_dir(self, path: str) -> list[str]:
        return sorted(
            {
                name.removeprefix(f"{path}/").split("/")[0]
                for name in self._files
                if name.startswith(f"{path}/")
            }
        )

    def read_text(self, path: str) -> str:
        return self._files[path]


@pytest.mark.parametrize(
    ("governor", "load", "bad_lines"),
    [("performance", "0.10", set()), ("powersave", "0.10", {"governor"}), ("performance", "3.9", {"load"})],
)
def test_governor_and_load(governor: str, load: str, bad_lines: set[str]) -> None:
    cpu = "/sys/devices/system/cpu"
    files = {f"{cpu}/cpu{n}/cpufreq/scaling_governor": f"{governor}\n" for n in range(4)}
    files |= {
        f"{cpu}/cpufreq/policy0": "",
        "/proc/loadavg": f"{load} 0.2 0.3 1/2 3",
        "/proc/cpuinfo": "processor\t: 0\n" * 4,
    }
    host: Host = Machine(files)
    runtime = Runtime(config.Target(name="t", model="m"), host)
    assert {line.what for line in processor(runtime) if line.status != "ok"} == bad_lines


def test_a_server_that_somebody_else_runs(examine: Examine) -> None:
    answers = {
        "/server_info": Answer(200, (ANSWERS / "0.5.23-nextn.server_info.json").read_text()),
        "/metrics": Answer(200, (ANSWERS / "0.5.23-nextn.metrics.txt").read_text()),
    }
    with answering(answers) as asked:
        lines = examine(launch={"kind": "attach", "url": asked.url})
    said = {line.what: line for line in lines}
    assert said["server"].said == "SGLang 0.5.23, EAGLE, 3 steps, topk 1, 4 draft tokens"
    assert said["idle"].status == "ok"
    busy = (
        answers["/metrics"]
        .body.replace("sglang:num_running_reqs{", 'sglang:num_running_reqs{x="y",')
        .replace(
            "# TYPE sglang:num_running_reqs gauge",
            '# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs{dp_rank="1"} 3',
        )
    )
    answers["/metrics"] = Answer(200, busy)
    with answering(answers) as asked:
        assert "3 requests run" in bad(examine(launch={"kind": "attach", "url": asked.url}), "idle").said
    assert "refused" in bad(examine(launch={"kind": "attach", "url": asked.url}), "server").said


def test_a_container_is_looked_into_with_its_mounts_and_without_network() -> None:
    launch = config.DockerLaunch(
        kind="docker", image="lmsysorg/sglang:v0.5.23", mounts=["/models:/models:ro"]
    )
    assert in_container(launch, {"HF_TOKEN": "hf_secret"}) == [
        "docker", "run", "--rm", "--interactive", "--network", "none", "--volume", "/models:/models:ro",
        "--env", "HF_TOKEN", "--entrypoint", "python3", "lmsysorg/sglang:v0.5.23",
    ]  # fmt: skip


# the command line


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    status = command_line.main(words)
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_doctor_exits_by_its_worst_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    whole(tmp_path / "model")
    text = '[targets.t]\nmodel = "model"\nlaunch = {{ kind = "process", python = "{python}" }}\n'
    (tmp_path / "suite.toml").write_text(
        'default_target = "t"\nbuiltin = false\n[budgets.quick]\n' + text.format(python="/no/such/python")
    )
    status, said = run(capsys, "doctor", "--suite-config", str(tmp_path / "suite.toml"))
    assert status == 1
    assert "problem  sglang" in said
    assert "--record-baseline" in said
    assert re.search(r"not fit to be measured: \d+ problems\n$", said)


def test_doctor_of_a_target_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    status, said = run(capsys, "doctor", "--target", "nowhere")
    assert status == 2
    assert "nowhere" in said


def test_probe_sglang_prints_places_and_exits_1_when_something_activates(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    install_sglang(tmp_path, CONSTRUCTED)
    status, said = run(capsys, "probe", "sglang", str(tmp_path))
    assert status == 0
    assert f"sglang/srt/server_args.py:{ALIAS_LINE}" in said
    assert "Nothing in the server's own code switches speculation on" in said
    (tmp_path / "sglang" / "srt" / "auto.py").write_text("def f(a):\n    a.speculative_algorithm = 'EAGLE'\n")
    status, said = run(capsys, "probe", "sglang", str(tmp_path / "sglang"))
    assert status == 1
    assert "sglang/srt/auto.py:2" in said
    status, said = run(capsys, "probe", "sglang", str(tmp_path), "--json")
    assert [s["file"] for s in json.loads(said)["sites"] if s["meaning"] == "activation"] == [
        "sglang/srt/auto.py"
    ]


def test_probe_checkpoint(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    status, said = run(capsys, "probe", "checkpoint", str(whole(tmp_path / "model")))
    assert status == 0
    assert "3 MTP tensors (3 BF16)" in said
    status, said = run(capsys, "probe", "checkpoint", str(tmp_path / "nowhere"))
    assert status == 2
    assert "no such directory" in said


def test_probe_gpus_without_cards(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    status, said = run(capsys, "probe", "gpus")
    assert (status, said) == (1, "missing: there is no nvidia-smi on local\n")
