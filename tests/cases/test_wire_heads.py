"""MTP heads that the index or config.json does not show: what SGLang would load, file by file; in doubt, doubt."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.hosts import LocalHost
from suite.probes import checkpoint
from suite.probes.checkpoint import Checkpoint
from tests.probes.making import write, write_shard

GLM = {"architectures": ["Glm4MoeForCausalLM"], "num_hidden_layers": 92, "num_nextn_predict_layers": 1}
NEXT = {"architectures": ["Qwen3NextForCausalLM"], "num_hidden_layers": 48}
BODY = {"model.layers.0.mlp.gate.weight": "U8"}
BEYOND = {"model.layers.92.eh_proj.weight": "BF16", "model.layers.92.mlp.gate.weight": "BF16"}
NAMED = {"mtp.fc.weight": "BF16", "mtp.layers.0.mlp.gate.weight": "BF16"}


def looked_at(folder: Path, **more: Any) -> Checkpoint:
    return checkpoint.read(LocalHost(), str(folder), sys.executable, **more)


def outside(folder: Path, config: dict[str, Any], name: str, heads: dict[str, str]) -> Path:
    """A checkpoint whose heads are in a file that its index leaves out."""
    made = write(folder, config, {"model-1.safetensors": BODY})
    write_shard(made / name, heads)
    return made


@pytest.mark.parametrize("family", ["Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM"])
def test_mtp_safetensors_is_added_by_sglang_itself(tmp_path: Path, family: str) -> None:
    found = looked_at(outside(tmp_path / "glm", GLM | {"architectures": [family]}, "mtp.safetensors", BEYOND))
    assert (found.has_mtp, found.agrees, found.problems, found.doubts) == (True, True, (), ())
    assert found.mtp_dtypes == {"BF16": 2}
    assert "which the index leaves out and SGLang adds" in str(found)


@pytest.mark.parametrize(
    ("config", "name", "heads"),
    [
        (GLM, "model-mtp.safetensors", BEYOND),
        (NEXT, "mtp.safetensors", NAMED),
        ({**GLM, "architectures": ["DeepseekV3ForCausalLM"]}, "mtp.safetensors", BEYOND),
    ],
)
def test_heads_in_another_file_outside_the_index_are_a_doubt(
    tmp_path: Path, config: dict[str, Any], name: str, heads: dict[str, str]
) -> None:
    found = looked_at(outside(tmp_path / "odd", config, name, heads))
    assert not found.agrees
    assert name in found.doubts[0]
    assert found.problems == ()


@pytest.mark.parametrize("family", ["Qwen3NextForCausalLM", "Qwen3MoeForCausalLM", "NemotronHForCausalLM"])
def test_a_family_without_a_counting_key_has_the_head_that_sglang_takes(tmp_path: Path, family: str) -> None:
    config = NEXT | {"architectures": [family]}
    found = looked_at(write(tmp_path / "next", config, {"a.safetensors": BODY, "b.safetensors": NAMED}))
    assert (found.has_mtp, found.agrees, found.problems, found.doubts) == (True, True, (), ())
    assert f"SGLang takes 1 for {family}" in str(found)


def test_such_a_family_without_heads_has_none(tmp_path: Path) -> None:
    found = looked_at(write(tmp_path / "next", NEXT, {"a.safetensors": BODY}))
    assert (found.has_mtp, found.agrees, found.problems) == (False, True, ())


def test_of_an_unknown_family_undeclared_heads_are_a_doubt(tmp_path: Path) -> None:
    config = {"architectures": ["NewForCausalLM"], "num_hidden_layers": 4}
    found = looked_at(write(tmp_path / "new", config, {"a.safetensors": BODY | NAMED}))
    assert not found.agrees
    assert "NewForCausalLM is not known" in found.doubts[0]


def test_heads_in_an_indexed_file_count_though_the_index_does_not_name_them(tmp_path: Path) -> None:
    made = write(tmp_path / "half", NEXT, {"a.safetensors": BODY})
    write_shard(made / "a.safetensors", BODY | NAMED)
    assert looked_at(made).has_mtp


def cache(home: Path, revision_of: dict[str, str], snapshots: dict[str, dict[str, str]]) -> Path:
    """A Hugging Face cache with one model: refs by name, and a snapshot's heads by commit."""
    folder = home / "hub" / "models--org--model"
    for ref, commit in revision_of.items():
        path = folder / "refs" / ref
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(commit)
    (folder / "snapshots").mkdir(parents=True, exist_ok=True)
    for commit, heads in snapshots.items():
        write(folder / "snapshots" / commit, NEXT, {"a.safetensors": BODY | heads})
    return home


@pytest.mark.parametrize(
    ("revision", "heads"), [("", False), ("main", False), ("mtp", True), ("c0ffee", True), ("pr/7", True)]
)
def test_the_revision_asked_for_is_looked_at(tmp_path: Path, revision: str, heads: bool) -> None:
    refs = {"main": "abc", "mtp": "c0ffee", "pr/7": "c0ffee"}
    home = cache(tmp_path, refs, {"abc": {}, "c0ffee": NAMED})
    env = {"HF_HOME": str(home), "HF_HUB_CACHE": ""}
    found = checkpoint.read(LocalHost(), "org/model", sys.executable, env=env, revision=revision)
    assert found.has_mtp is heads


def test_a_revision_that_is_not_there_is_said(tmp_path: Path) -> None:
    home = cache(tmp_path, {"main": "abc"}, {"abc": {}})
    command = [sys.executable, "-m", "suite", "probe", "checkpoint", "org/model", "--revision", "v2"]
    env = {"HF_HOME": str(home), "HF_HUB_CACHE": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0
    assert "no such model of revision v2" in done.stdout + done.stderr


def test_the_command_tells_doubts(tmp_path: Path) -> None:
    made = outside(tmp_path / "odd", NEXT, "mtp.safetensors", NAMED)
    command = [sys.executable, "-m", "suite", "probe", "checkpoint", str(made)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "doubt: 2 MTP tensors are in mtp.safetensors" in done.stdout
