"""How people launch: the SGLang command is found in a unit or a wrapper, or refused with the line and the way out."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.servers import unit_file
from suite.sglang.command import NotUnderstood, find
from suite.sglang.flags import Flags
from suite.sglang.speculation_sources import in_file

ASKED = Flags({"model-path": "/models/m", "tp-size": "8"})
PY = "/opt/sglang/bin/python"
FLAGS = "--model-path /models/m --tp 8"

UNDERSTOOD = {
    f"numactl -m 0,1 -N 0,1 {PY} -m sglang.launch_server {FLAGS}": [PY],
    f"numactl --membind=0,1 --cpunodebind=0,1 {PY} -m sglang.launch_server {FLAGS}": [PY],
    f"taskset -c 0-63 /usr/bin/env python3 -m sglang.launch_server {FLAGS}": ["python3"],
    f"nice -n -5 chrt -f 10 {PY} -u -X dev -m sglang.launch_server {FLAGS}": [PY],
    f"uv run --project /opt/sglang sglang serve {FLAGS}": ["uv", "run", "--project", "/opt/sglang", "python"],
    f"uv run --with x python -m sglang.launch_server {FLAGS}": ["uv", "run", "--with", "x", "python"],
    f"conda run -n sgl --no-capture-output python -m sglang.launch_server {FLAGS}": [
        *("conda", "run", "-n", "sgl", "--no-capture-output", "python")
    ],
    "/opt/sglang/bin/sglang serve /models/m --tp 8": [PY],
    f"sglang serve {FLAGS}": None,
    f"{PY} -m sglang serve /models/m --tp 8": [PY],
    f"{PY} -msglang.launch_server {FLAGS}": [PY],
    f"/bin/bash -lc 'exec {PY} -m sglang.launch_server {FLAGS}'": [PY],
    f"bash -c 'cd /opt && . ./env.sh; HF_HUB_OFFLINE=1 exec numactl -m 0 {PY} -m sglang.launch_server {FLAGS}'": [
        PY
    ],
    "sh -ec 'ulimit -l unlimited; /opt/sglang/bin/sglang serve $MODEL --tp 8 >> /var/log/x 2>&1'": [PY],
    f'numactl -N 1 bash -l -c "exec {PY} -m sglang.launch_server --model-path \\"${{MODEL}}\\" --tp 8 < /dev/null"': [
        PY
    ],
    f"env A=1 B=2 systemd-inhibit {PY} -m sglang.launch_server {FLAGS}": ["env", "A=1", "B=2", PY],
}

REFUSED = {
    "/usr/local/bin/start-sglang.sh": "not run SGLang in plain sight, but /usr/local/bin/start-sglang.sh",
    "numactl -m 0,1 /usr/local/bin/start": "not run SGLang in plain sight, but numactl",
    "numactl -m 0 python3 -m http.server 80": "not run SGLang in plain sight",
    "bash /opt/run.sh --tp 8": "runs a script by bash",
    f"bash -c 'exec {PY} -m sglang.launch_server {FLAGS} | tee /var/log/x'": "goes on behind SGLang's flags",
    f"bash -c '{PY} -m sglang.launch_server {FLAGS} && echo over'": "goes on behind SGLang's flags",
    f"bash -c '{PY} -m sglang.launch_server --model-path $OTHER'": "uses $OTHER, which only a shell can expand",
    f"bash -c '{PY} -m sglang.launch_server --model-path `cat x`'": "uses `cat",
    "bash -c 'exec /opt/start'": "no SGLang command in plain sight",
    f"bash -c '{PY} -m sglang.launch_server {FLAGS} & {PY} -m sglang.launch_server {FLAGS}'": "2 SGLang commands",
    f"taskset -c 1 docker run --gpus all img python3 -m sglang.launch_server {FLAGS}": "runs a container",
    f"{PY} -m sglang.launch_server --tp 8": "without --model-path",
    "sglang serve /models/a /models/b": "one model was expected",
    "": "but nothing",
}


@pytest.mark.parametrize("line", UNDERSTOOD)
def test_the_command_is_found(line: str) -> None:
    found = find(shlex.split(line), {"MODEL": "/models/m"})
    assert dict(found.flags) == dict(ASKED)
    assert found.python == (tuple(UNDERSTOOD[line]) if UNDERSTOOD[line] else None)
    assert "--tp" not in found.program[:1]


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_understood_is_refused_with_the_way_out(line: str) -> None:
    with pytest.raises(NotUnderstood) as caught:
        find(shlex.split(line))
    assert REFUSED[line] in str(caught.value)
    assert "Write" in caught.value.advice or "Use kind" in caught.value.advice


@pytest.mark.parametrize(
    "unit", sorted((Path(__file__).parent / "units").glob("*.service")), ids=lambda p: p.stem
)
def test_units(unit: Path) -> None:
    (line,) = unit_file.assignments(unit.read_text(), "Service")["ExecStart"]
    found = find(unit_file.split(line))
    assert dict(found.flags) == {**ASKED, "port": "30000", "reasoning-parser": "qwen3"}


def test_a_shells_line_runs_as_it_did_with_other_flags(tmp_path: Path) -> None:
    """What comes of it is tried: the profile part still runs, the flags arrive as words, whatever is in them."""
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("")
    (tmp_path / "sglang" / "launch_server.py").write_text(
        "import os, sys; print(os.environ['A'], os.getcwd(), sys.argv[1:])"
    )
    line = f"cd {shlex.quote(str(tmp_path))} && export A=1; exec {sys.executable} -m sglang.launch_server --model-path x > /dev/null"
    found = find(["/bin/sh", "-c", line])
    other = found.flags.merge({"model-path": "a 'b' $HOME", "tp": 2}).argv()
    done = subprocess.run([*found.program, *other], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"1 {tmp_path} {other}"


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "bash",
                "-c",
                "-lc",
                "python",
                "-m",
                "sglang",
                "serve",
                "sglang.launch_server",
                "|",
                "'",
                "$X",
                "--tp",
                "8",
                "numactl",
                "sglang serve m --tp 2",
                "exec python -m sglang.launch_server --model-path m",
            ]
        )
        | st.text(max_size=6),
        max_size=8,
    )
)
def test_fuzz_any_words_are_a_command_or_refused(words: list[str]) -> None:
    try:
        found = find(words)
    except NotUnderstood:
        return
    assert found.program
    assert "model-path" in found.flags or "config" in found.flags


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("speculative-algorithm: NEXTN", True),
        ("\"speculative_algorithm\": 'EAGLE'", True),
        ("{tp-size: 8, speculative-algorithm: NEXTN}", True),
        ("a: &x NEXTN\nspeculative-algorithm: *x", True),
        ("speculative-algorithm: |\n  NEXTN\n", True),
        ("note: 'speculative-algorithm: NEXTN'", False),
        ("speculative-algorithm: ~", False),
        ("nested:\n  speculative-algorithm: NEXTN", False),
        ("# speculative-algorithm: NEXTN", False),
        ("- speculative-algorithm: NEXTN", False),
        ("{unclosed", False),
        ("[" * 5000, False),
    ],
)
def test_a_config_file_is_read_as_yaml(text: str, asks: bool) -> None:
    assert (in_file(text) is not None) is asks
