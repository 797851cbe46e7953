"""More ways to launch, and to name what is not one: each is understood as the shell, env or systemd would, or refused."""

from __future__ import annotations

import shlex

import pytest

from suite.servers import unit_file
from suite.sglang.command import NotUnderstood, find

FLAGS = "--model-path /models/m --tp 8"
SERVER = f"python -m sglang.launch_server {FLAGS}"

ASKED_BY = {
    f"/usr/bin/env -S 'HF_HUB_OFFLINE=1 {SERVER}'": "env HF_HUB_OFFLINE=1 python",
    f"/usr/bin/env '-S{SERVER}'": "python",
    f"env PYTHONPATH=/opt/patched nice -n 5 /opt/bin/{SERVER}": "env PYTHONPATH=/opt/patched /opt/bin/python",
    f"uv run -m sglang.launch_server {FLAGS}": "uv run python",
    f"uv run --no-sync --module sglang.launch_server {FLAGS}": "uv run --no-sync python",
    f"uvx sglang serve {FLAGS}": "uvx --from sglang python",
    f"uv tool run sglang serve {FLAGS}": "uv tool run --from sglang python",
    f"uvx --from sglang==0.5.23 sglang serve {FLAGS}": "uvx --from sglang==0.5.23 python",
    f"micromamba run -n sgl {SERVER}": "micromamba run -n sgl python",
    f"apptainer exec --nv /opt/x.sif {SERVER}": "apptainer exec --nv /opt/x.sif python",
    f"python -um sglang.launch_server {FLAGS}": "python",
    f"torchrun --nproc-per-node 1 -m sglang.launch_server {FLAGS}": None,
    f"accelerate launch -m sglang.launch_server {FLAGS}": None,
    f"sh -c 'cd /x && exec {SERVER};'": "python",
    f"bash -c 'exec {SERVER}  # the large one'": "python",
    f"bash -c 'exec python -m sglang.launch_server \"$@\"' sglang {FLAGS}": "python",
    "bash -c 'exec sglang serve \"$@\" --tp 8' -- /models/m": None,
}

REFUSED = {
    "bash -c 'exec python -m sglang.launch_server --model-path ~/m --tp 8'": "uses ~/m, which only a shell can expand",
    f"bash -c 'exec {SERVER}' sglang --tp 4": 'words behind it that no "$@" takes',
    "docker start -a sglang": "runs a container",
    "/usr/local/bin/docker-compose up sglang": "runs a container",
    f"podman --remote run image {SERVER}": "runs a container",
    f"ssh gpu1 {SERVER}": "runs SGLang somewhere else, by ssh",
    f"kubectl exec pod -- {SERVER}": "runs SGLang somewhere else, by kubectl",
    "python -m sglang.bench_serving --model-path /models/m": "runs sglang.bench_serving, which is not a single",
    f"python -m sglang_router.launch_server {FLAGS}": "runs sglang_router.launch_server, which is not a single",
    "/usr/bin/env -S 'python -m \"sglang.launch_server'": "has words for env that are none",
}


@pytest.mark.parametrize("line", ASKED_BY)
def test_its_own_python_is_asked(line: str) -> None:
    found = find(shlex.split(line))
    assert dict(found.flags) == {"model-path": "/models/m", "tp-size": "8"}
    assert found.python == (tuple(ASKED_BY[line].split()) if ASKED_BY[line] else None)


@pytest.mark.parametrize("line", REFUSED)
def test_refused(line: str) -> None:
    with pytest.raises(NotUnderstood) as caught:
        find(shlex.split(line))
    assert str(caught.value).startswith(REFUSED[line]) or REFUSED[line] in str(caught.value)


def test_a_profiler_that_runs_the_module_is_no_look_alike() -> None:
    found = find(shlex.split(f"python -m debugpy --listen 5678 -m sglang.launch_server {FLAGS}"))
    assert dict(found.flags) == {"model-path": "/models/m", "tp-size": "8"}
    assert found.program[-2:] == ("-m", "sglang.launch_server")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (
            'ARGS="--model-path /models/m \\\n  --tp 8"\nB=2\n',
            {"ARGS": "--model-path /models/m   --tp 8", "B": "2"},
        ),
        ('CONFIG={"a": 1, "b": "x y"}\n', {"CONFIG": '{"a": 1, "b": "x y"}'}),
        ("KEY='one\nNOT=one'\nB=2\n", {"KEY": "one\nNOT=one", "B": "2"}),
        ('A="x" "y"\nB=it\'s\n', {"A": "xy", "B": "it's"}),
        ("A=1 # no comment\n# A=2\n;A=3\nexport C=1\n", {"A": "1 # no comment"}),
        ('A="\\$x \\"y\\" \\n"\nB=\\$x\n', {"A": '$x "y" \\n', "B": "$x"}),
    ],
)
def test_an_environment_file_is_read_as_systemd_does(text: str, values: dict[str, str]) -> None:
    """After systemd.exec(5) and its reader's states: quotes count from a value's beginning on, over lines."""
    assert unit_file.environment_file(text) == values
