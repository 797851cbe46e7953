"""Checkpoints: same options, same bytes; a well-formed safetensors file; the MTP head changes nothing but itself."""

from __future__ import annotations

import json
import math
import struct
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from . import checkpoint
from .checkpoint import FAMILIES, MTP_HEADS, Options, main, write_checkpoint
from .tokenizer import VOCABULARY, WORDS, tokenizer_json
from .weights import bf16_bytes

MTP_PREFIXES = ("mtp.", "model.mtp_layers.")


def header(directory: Path) -> dict[str, Any]:
    """The header of model.safetensors, read as the format's description says."""
    data = (directory / "model.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    found: dict[str, Any] = json.loads(data[8 : 8 + length])
    return found


def tensors(directory: Path) -> dict[str, bytes]:
    """The bytes of every tensor."""
    data = (directory / "model.safetensors").read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    entries = {name: entry for name, entry in header(directory).items() if name != "__metadata__"}
    return {
        name: data[start + e["data_offsets"][0] : start + e["data_offsets"][1]] for name, e in entries.items()
    }


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


@pytest.mark.parametrize("family", FAMILIES)
def test_same_options_give_the_same_bytes(family: str, tmp_path: Path) -> None:
    for name in ("one", "other"):
        write_checkpoint(family, Options(), tmp_path / name)
    write_checkpoint(family, Options(seed=1), tmp_path / "seeded")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")
    assert contents(tmp_path / "one") != contents(tmp_path / "seeded")


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_fill_the_file_without_gap_or_overlap(family: str, tmp_path: Path) -> None:
    write_checkpoint(family, Options(), tmp_path / "made")
    entries = sorted(
        (entry["data_offsets"], entry["dtype"], entry["shape"])
        for name, entry in header(tmp_path / "made").items()
        if name != "__metadata__"
    )
    end = 0
    for (start, stop), dtype, shape in entries:
        assert start == end
        assert stop - start == math.prod(shape) * {"BF16": 2, "F32": 4}[dtype]
        end = stop
    length = struct.unpack("<Q", (tmp_path / "made/model.safetensors").read_bytes()[:8])[0]
    assert length % 8 == 0
    assert (tmp_path / "made/model.safetensors").stat().st_size == 8 + length + end


@pytest.mark.parametrize("family", FAMILIES)
def test_the_mtp_head_changes_nothing_but_itself(family: str, tmp_path: Path) -> None:
    for head in MTP_HEADS:
        write_checkpoint(family, Options(mtp_head=head), tmp_path / head)
    target = tensors(tmp_path / "none")
    for head in MTP_HEADS:
        rest = {n: d for n, d in tensors(tmp_path / head).items() if not n.startswith(MTP_PREFIXES)}
        assert rest == target
        stored = any(name.startswith(MTP_PREFIXES) for name in tensors(tmp_path / head))
        assert stored == (head in ("copy", "random"))
        config = json.loads((tmp_path / head / "config.json").read_text())
        text = config.get("text_config", config)
        declared = "mtp_num_hidden_layers" in text or "num_nextn_predict_layers" in text
        assert declared == (head != "none")


def test_only_words_can_be_answered(tmp_path: Path) -> None:
    write_checkpoint("qwen3_5_moe_vl", Options(), tmp_path / "made")
    head = tensors(tmp_path / "made")["lm_head.weight"]
    row = len(head) // VOCABULARY
    assert row == 2 * checkpoint.HIDDEN
    silent = {index for index in range(VOCABULARY) if not any(head[index * row : (index + 1) * row])}
    assert silent == set(range(VOCABULARY)) - set(WORDS)


def test_every_token_has_one_id() -> None:
    content: Any = tokenizer_json()
    ids = [*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])]
    assert sorted(ids) == list(range(VOCABULARY))


@settings(deadline=None)
@given(
    st.lists(
        st.floats(width=32, allow_nan=False, allow_infinity=False, min_value=-(2**100), max_value=2**100)
    )
)
def test_bf16_is_the_nearest_there_is(values: list[float]) -> None:
    for value, (upper,) in zip(values, struct.iter_unpack("<H", bf16_bytes(values)), strict=True):
        near = [
            array("f", struct.pack("<I", bits << 16))[0] for bits in (upper, max(upper - 1, 0), upper + 1)
        ]
        assert abs(near[0] - value) <= min(abs(other - value) for other in near[1:] if math.isfinite(other))


def test_a_checkpoint_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "made"
    assert main([str(target)]) == 0
    (target / "stray").write_text("from an earlier version")
    assert main(["--mtp-head", "none", str(target)]) == 0
    assert not (target / "stray").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_a_directory_that_is_no_checkpoint_is_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("three years of work")
    assert main([str(tmp_path)]) == 2
    assert (tmp_path / "thesis.txt").exists()
    assert "not replaced" in capsys.readouterr().err
