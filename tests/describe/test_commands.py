"""Pasted commands, start scripts, compose files and unit files as targets: what is read, what is refused, and why."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from suite import config
from suite.config import Target
from suite.describe import CannotDescribe, describe, table
from suite.hosts import LocalHost

SPEC = "--speculative-algorithm NEXTN --speculative-num-steps 5 --speculative-eagle-topk 1"


def target(given: str, cwd: Path | str = "/srv", **options: Any) -> Target:
    """The target that a person would get: the text is written, and read as ``suite.toml`` is."""
    text = table(describe(given, LocalHost(), cwd=str(cwd), **options), "t")
    suite = config.parse(tomllib.loads('default_target = "t"\n' + text), Path("suite.toml"))
    return suite.target("t")


def launch_of(given: str, **options: Any) -> dict[str, Any]:
    return target(given, **options).launch.model_dump(exclude_unset=True, exclude={"kind", "cwd"})


@pytest.mark.parametrize(
    ("given", "launch"),
    [
        ("/o/bin/python -m sglang.launch_server --model-path /m", {"python": "/o/bin/python"}),
        ("numactl -N 0 /o/bin/python3.12 -m sglang.launch_server --model /m", {"python": "/o/bin/python3.12", "wrapper": ["numactl", "-N", "0"]}),
        ("/o/bin/sglang serve /m --tp 1", {"command": ["/o/bin/sglang", "serve"]}),
        ("nohup /o/bin/sglang serve --model-path /m > log 2>&1 &", {"command": ["/o/bin/sglang", "serve"]}),
        ("exec sudo -E /o/bin/sglang serve /m | tee log", {"command": ["/o/bin/sglang", "serve"]}),
        ("uv run --project /o sglang serve /m", {"command": ["uv", "run", "--project", "/o", "sglang", "serve"]}),
        ("conda run -n s python -m sglang.launch_server --model-path /m",
         {"command": ["conda", "run", "--no-capture-output", "-n", "s", "python", "-m", "sglang.launch_server"]}),
        ("conda activate s && python -m sglang.launch_server --model-path /m",
         {"command": ["conda", "run", "--no-capture-output", "-n", "s", "python", "-m", "sglang.launch_server"]}),
        ("source /o/bin/activate; python3 -m sglang.launch_server --model-path /m", {"python": "/o/bin/python3"}),
        ("tmux new-session -d -s x '/o/bin/sglang serve /m'", {"command": ["bash", "-c", '/o/bin/sglang serve "$@"', "sglang"]}),
        ("screen -dmS x /o/bin/sglang serve /m", {"command": ["/o/bin/sglang", "serve"]}),
        ("/o/bin/python -m simulator --model-path /m", {"python": "/o/bin/python", "module": "simulator"}),
    ],
)  # fmt: skip
def test_how_it_is_launched(given: str, launch: dict[str, Any]) -> None:
    assert launch_of(given) == launch


def test_flags_variables_and_place_of_a_command() -> None:
    got = target(
        "cd /opt/s && CUDA_VISIBLE_DEVICES=0,1,2,3 NOTE='a b' /o/bin/python -m sglang.launch_server "
        f"--model-path /m --tp 4 --host 0.0.0.0 --port 30000 --mem-fraction-static 0.80 --enable-metrics {SPEC}"
    )
    assert got.launch.model_dump()["cwd"] == "/opt/s"
    assert (got.model, got.gpus) == ("/m", 4)
    assert got.flags == {"tp-size": 4, "mem-fraction-static": "0.80", "enable-metrics": True}
    assert got.env == {"CUDA_VISIBLE_DEVICES": "0,1,2,3", "NOTE": "a b"}


def test_speculation_of_what_runs_is_the_arms() -> None:
    got = target(f"/o/bin/sglang serve /m {SPEC}")
    assert not any(name.startswith("speculative") for name in got.arm_flags(got.arm("mtp-off")))
    on = got.arm_flags(got.arm("mtp-on"))
    assert on["speculative-algorithm"] == "NEXTN"
    assert on["speculative-num-steps"] == 5
    assert "mtp-on]" not in table(
        describe("/o/bin/sglang serve /m --speculative-algo NEXTN", LocalHost()), "t"
    )


@pytest.mark.parametrize(
    "given",
    [
        "HF_TOKEN=hf_verysecret /o/bin/sglang serve /m --api-key hf_verysecret",
        "export HF_TOKEN=hf_verysecret\n/o/bin/sglang serve /m --api-key=hf_verysecret",
        "docker run -e HF_TOKEN=hf_verysecret i sglang serve /m --api-key hf_verysecret",
    ],
)
def test_secrets_are_references(given: str) -> None:
    text = table(describe(given, LocalHost(), cwd="/srv"), "t")
    assert "hf_verysecret" not in text
    got = target(given)
    assert got.env == {"HF_TOKEN": "{env:HF_TOKEN}"}
    assert got.flags["api-key"] == "{env:SGLANG_API_KEY}"
    assert text.count("unsure: a secret: export") == 2


def test_docker_run() -> None:
    got = target(
        "sudo docker run -itd --rm --name x --gpus '\"device=0,1\"' -p30000:30000 -v /a:/b:ro --shm-size=32g \\\n"
        " --ulimit memlock=-1 --ipc=host --restart always -e SGLANG_X=1 -e HF_TOKEN img:1 \\\n"
        " python3 -m sglang.launch_server --model-path /b/m --tp 2 --port 30000"
    )
    assert got.launch.model_dump(exclude_unset=True) == {
        "kind": "docker",
        "image": "img:1",
        "gpus": "device=0,1",
        "mounts": ["/a:/b:ro"],
        "options": ["--shm-size", "32g", "--ulimit", "memlock=-1", "--env", "HF_TOKEN"],
    }
    assert (got.model, got.gpus, got.env) == ("/b/m", 2, {"SGLANG_X": "1"})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("docker run i sglang serve /m", ["sglang", "serve"]),
        ("docker run --entrypoint sglang i serve /m", ["serve"]),
        ("docker run i --model-path /m", ["-m", "sglang.launch_server"]),
        ("docker run i bash -c 'pip install x && python3 -m sglang.launch_server --model-path /m'",
         ["bash", "-c", 'pip install x && python3 -m sglang.launch_server "$@"', "sglang"]),
        ("podman run --device nvidia.com/gpu=all i /v/bin/python -m sglang.launch_server --model-path /m", ["/v/bin/python", "-m", "sglang.launch_server"]),
    ],
)  # fmt: skip
def test_what_runs_within_a_container(given: str, words: list[str]) -> None:
    got = target(given).launch
    assert isinstance(got, config.DockerLaunch)
    assert got.words == words


START = """#!/usr/bin/env bash
set -euo pipefail
export HF_HUB_OFFLINE=1 NCCL_DEBUG="WARN"   # as told
MODEL=${MODEL_OF_NOBODY:-/models/Q}
ARGS=(
  --tp 8            # all of them
  --tool-call-parser "a b"
)
ARGS+=(--reasoning-parser qwen3)
mkdir -p logs; cd /opt/s
exec /o/bin/python -m sglang.launch_server \\
   --model-path "$MODEL" --port "${1:-30000}" "${ARGS[@]}" "$@" 2>&1 | tee logs/log
"""


def test_a_start_script_is_taken_apart(tmp_path: Path) -> None:
    (tmp_path / "start.sh").write_text(START)
    got = target(str(tmp_path / "start.sh"))
    assert got.launch.model_dump()["cwd"] == "/opt/s"
    assert got.model == "/models/Q"
    assert got.flags == {"tp-size": 8, "tool-call-parser": "a b", "reasoning-parser": "qwen3"}
    assert got.env == {"HF_HUB_OFFLINE": "1", "NCCL_DEBUG": "WARN"}
    assert target(START, cwd="/").flags == got.flags
    assert target(f"nohup bash {tmp_path}/start.sh &").flags == got.flags


def test_a_script_that_only_a_shell_understands_is_run_as_it_is_if_it_passes_arguments_on(
    tmp_path: Path,
) -> None:
    text = 'if [ -n "$X" ]; then export Y=1; fi\npython3 -m sglang.launch_server --model-path /m "$@"\n'
    path = tmp_path / "start.sh"
    path.write_text(text)
    assert launch_of(str(path)) == {"command": ["bash", str(path)]}
    path.write_text(text.replace('"$@"', "--port 30000"))
    with pytest.raises(CannotDescribe, match=r'only a running shell knows.*end with: \.\.\. "\$@"'):
        target(str(path))
    path.write_text(text.replace("/m", "/m --speculative-algorithm NEXTN"))
    with pytest.raises(CannotDescribe, match="mtp-off could not be off"):
        target(str(path))


COMPOSE = """
x-common: &common
  restart: unless-stopped
services:
  proxy:
    image: nginx
  sglang:
    <<: *common
    image: lmsysorg/sglang:${TAG:-latest}
    volumes: ["./models:/models:ro", "hf:/cache", {type: bind, source: /data, target: /data}]
    environment: {SGLANG_X: "1", HF_TOKEN: "${TOKEN_OF_NOBODY:-hf_verysecret}"}
    entrypoint: python3 -m sglang.launch_server
    command: >
      --model-path /models/Q --host 0.0.0.0
      --port 30000 --tp 2
    ulimits: {memlock: -1, nofile: {soft: 1, hard: 2}}
    shm_size: 32g
    security_opt: ["seccomp=unconfined"]
    deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ['0', '3'], capabilities: [gpu]}]}}}
volumes: {hf: {name: cache}}
"""


def test_a_compose_file(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").write_text(COMPOSE)
    (tmp_path / ".env").write_text("TAG=v0.5.23\n")
    got = target(str(tmp_path / "compose.yaml"))
    launch = got.launch.model_dump()
    assert launch["image"] == "lmsysorg/sglang:v0.5.23"
    assert launch["mounts"] == [f"{tmp_path}/models:/models:ro", "cache:/cache", "/data:/data"]
    assert launch["gpus"] == "device=0,3"
    assert launch["options"] == [
        *("--shm-size", "32g", "--security-opt", "seccomp=unconfined", "--ulimit", "memlock=-1"),
        *("--ulimit", "nofile=1:2", "--entrypoint", "python3"),
    ]
    assert launch["command"] == ["-m", "sglang.launch_server"]
    assert (got.model, got.gpus, got.flags) == ("/models/Q", 2, {"tp-size": 2})
    assert got.env == {"SGLANG_X": "1", "HF_TOKEN": "{env:HF_TOKEN}"}


def test_which_service_of_several_must_be_said() -> None:
    two = COMPOSE.replace("image: nginx", "image: i\n    command: sglang serve /m")
    with pytest.raises(
        CannotDescribe, match="several services that run SGLang: proxy, sglang; name one with --service"
    ):
        target(two)
    assert target(two, service="proxy").model == "/m"
    with pytest.raises(CannotDescribe, match=r"no service 'x'; there are: proxy, sglang"):
        target(two, service="x")


def test_a_units_file_that_is_not_installed(tmp_path: Path) -> None:
    path = tmp_path / "nowhere-installed.service"
    path.write_text(
        "[Service]\nUser=llm\nWorkingDirectory=/opt/s\nEnvironment=A=1 \"B=x y\"\n"
        f"ExecStart=/usr/bin/numactl -m 0 /o/bin/python -m sglang.launch_server \\\n  --model-path /m {SPEC}\n"
    )  # fmt: skip
    got = target(str(path))
    assert got.env == {"A": "1", "B": "x y"}
    assert got.launch.model_dump(exclude_unset=True) == {
        "kind": "process",
        "python": "/o/bin/python",
        "wrapper": ["/usr/bin/numactl", "-m", "0"],
        "cwd": "/opt/s",
    }
    path.write_text("[Service]\nExecStart=/usr/bin/docker run --gpus all i sglang serve /m\n")
    assert target(str(path)).launch.kind == "docker"


def test_a_configuration_file_becomes_flags(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(
        "tp-size: 4\nspeculative-algorithm: NEXTN\nenable-metrics: true\nmodel-path: /m\n"
    )
    got = target(f"/o/bin/sglang serve --config {tmp_path}/c.yaml --tp 2")
    assert (got.model, got.flags) == ("/m", {"tp-size": 2, "enable-metrics": True})
    text = table(describe("/o/bin/sglang serve /m --config /no/such.yaml", LocalHost()), "t")
    assert "unsure: this file was not read" in text


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("", "names nothing"),
        ("nobody", "no such container or unit on"),
        ("vllm serve /m", "does not run SGLang in plain sight"),
        ("python3 -m sglang.launch_server --tp 8", "without --model-path"),
        ("sglang serve $(cat model)", "only a running shell knows"),
        ("sglang serve $NO_SUCH_MODEL", r"\$NO_SUCH_MODEL, which is set nowhere"),
        ("sglang serve '/m", "a quote that is not closed"),
        ("docker run --gpus all", "no image"),
        ("docker compose up -d", "runs a container"),
        ("kubectl exec pod -- sglang serve /m", "somewhere else, by kubectl"),
        ("ssh box sglang serve /m", "init --host HOST"),
        ("bash -c 'export HF_TOKEN=hf_verysecret; sglang serve /m'", "a secret stands within"),
        ("services: {x: {build: .}}", "runs SGLang in plain sight: x: it is built"),
        ("services: [", "is no YAML"),
        ("kind: Deployment\nimage_: x", "Kubernetes"),
        ("http://127.0.0.1:9", "127.0.0.1:9"),
        ("http://user:hf_verysecret@127.0.0.1:9", "holds a user or a password"),
    ],
)
def test_what_cannot_be_is_said_with_the_way_out(given: str, said: str) -> None:
    with pytest.raises(CannotDescribe, match=said) as caught:
        target(given)
    assert "hf_verysecret" not in str(caught.value)
