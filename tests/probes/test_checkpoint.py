"""MTP heads are read from what a checkpoint declares and from what its files hold, and half copies are seen."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.hosts import LocalHost
from suite.probes import checkpoint
from suite.probes.checkpoint import Checkpoint
from suite.probes.on_host.read_checkpoint import header_of, is_mtp
from suite.sglang.errors import CheckpointError
from tests.probes.making import BODY, HEAD, QWEN35, whole, write, write_shard


def read(folder: Path) -> Checkpoint:
    return checkpoint.read(LocalHost(), str(folder))


def test_a_whole_checkpoint_with_heads(tmp_path: Path) -> None:
    found = read(whole(tmp_path))
    assert found.declared == {"text_config.mtp_num_hidden_layers": 1}
    assert (found.tensors, found.mtp_tensors, found.mtp_layers, found.shards) == (5, 3, 1, 2)
    assert found.mtp_dtypes == {"BF16": 3}
    assert found.has_mtp
    assert found.agrees
    assert found.problems == ()


def test_without_an_index_the_headers_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path, QWEN35, {"model.safetensors": dict.fromkeys(BODY + HEAD, "BF16")}, index=False)
    assert (read(folder).tensors, read(folder).mtp_tensors) == (5, 3)


@pytest.mark.parametrize(
    ("config", "heads", "key", "layers"),
    [
        (
            {"num_hidden_layers": 61, "num_nextn_predict_layers": 1},
            ["model.layers.61.eh_proj.weight", "model.layers.61.mlp.experts.0.up_proj.weight"],
            "num_nextn_predict_layers",
            1,
        ),
        (
            {"num_hidden_layers": 36, "num_nextn_predict_layers": 2},
            ["model.mtp_layers.0.input_proj.weight", "model.mtp_layers.1.input_proj.weight"],
            "num_nextn_predict_layers",
            2,
        ),
        (
            {"num_hidden_layers": 48, "mtp_num_hidden_layers": 1},
            ["mtp.fc.weight"],
            "mtp_num_hidden_layers",
            1,
        ),
    ],
)
def test_families_declare_and_name_their_heads_differently(
    tmp_path: Path, config: dict[str, Any], heads: list[str], key: str, layers: int
) -> None:
    found = read(
        write(tmp_path, config, {"a.safetensors": dict.fromkeys(["model.layers.0.x", *heads], "BF16")})
    )
    assert found.declared == {key: layers}
    assert (found.mtp_tensors, found.mtp_layers) == (len(heads), layers)
    assert found.problems == ()


@pytest.mark.parametrize(
    "name",
    [
        "model.layers.3.mlp.weight",
        "model.visual.blocks.70.layers.70.w",
        "model.smtp.weight",
        "lm_head.weight",
    ],
)
def test_ordinary_tensors_are_no_heads(name: str) -> None:
    assert not is_mtp(name, 60)


def test_declared_without_tensors_is_a_problem(tmp_path: Path) -> None:
    found = read(whole(tmp_path, head=[]))
    assert not found.has_mtp
    assert not found.agrees
    assert "stripped" in found.problems[0]


def test_tensors_without_declaration_are_a_doubt(tmp_path: Path) -> None:
    found = read(whole(tmp_path, config={"num_hidden_layers": 60}))
    assert not found.agrees
    assert "counts no MTP layers" in found.doubts[0]


def test_fewer_heads_than_declared_is_a_problem(tmp_path: Path) -> None:
    found = read(whole(tmp_path, config={"num_hidden_layers": 60, "mtp_num_hidden_layers": 3}))
    assert "declares 3 MTP layers, the tensors are of 1" in found.problems[0]


def test_no_heads_at_all_agree(tmp_path: Path) -> None:
    found = read(whole(tmp_path, config={"num_hidden_layers": 60}, head=[]))
    assert found.agrees
    assert not found.has_mtp
    assert found.problems == ()


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    (whole(tmp_path) / "b.safetensors").unlink()
    found = read(tmp_path)
    assert found.missing == ("b.safetensors",)
    assert "1 of 2 shards are missing: b.safetensors" in found.problems


def test_a_half_copied_shard_is_named(tmp_path: Path) -> None:
    shard = whole(tmp_path) / "a.safetensors"
    shard.write_bytes(shard.read_bytes()[:-1])
    assert "copied in part" in read(tmp_path).broken["a.safetensors"]
    shard.write_bytes(shard.read_bytes()[:5])
    assert "copied in part" in read(tmp_path).broken["a.safetensors"]


def test_a_git_lfs_pointer_is_told_from_a_file(tmp_path: Path) -> None:
    (whole(tmp_path) / "a.safetensors").write_text(
        "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"
    )
    assert "git lfs pull" in read(tmp_path).broken["a.safetensors"]


def test_an_index_that_names_what_the_shard_has_not(tmp_path: Path) -> None:
    write_shard(whole(tmp_path) / "b.safetensors", {"mtp.fc.weight": "BF16"})
    assert any(
        "2 tensors of the index are not in the shard" in problem for problem in read(tmp_path).problems
    )


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_a_config_that_is_none_is_a_problem_not_a_traceback(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    assert "config.json" in read(tmp_path).problems[0]


def test_an_empty_directory_and_no_directory(tmp_path: Path) -> None:
    assert read(tmp_path).problems == ("config.json is missing",)
    with pytest.raises(CheckpointError, match="no such directory"):
        read(tmp_path / "not there")


def test_a_name_is_looked_up_in_the_hosts_cache(tmp_path: Path) -> None:
    folder = tmp_path / "hub" / "models--nvidia--Qwen3.5"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc")
    (folder / "snapshots").mkdir()
    whole(folder / "snapshots" / "abc")
    found = checkpoint.read(LocalHost(), "nvidia/Qwen3.5", env={"HF_HOME": str(tmp_path), "HF_HUB_CACHE": ""})
    assert found.has_mtp
    assert found.path.endswith("snapshots/abc")


def test_a_hostile_path_is_data(tmp_path: Path) -> None:
    folder = whole(tmp_path / "$(touch owned) 'a \"b\nc; d")
    assert read(folder).has_mtp
    assert not (tmp_path / "owned").exists()


@given(st.binary(max_size=80))
def test_any_bytes_are_a_shard_or_are_said_to_be_none(data: bytes) -> None:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        header, fault = header_of(file.name)
    assert fault is not None or header == {}
