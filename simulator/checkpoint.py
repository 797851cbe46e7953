"""The checkpoint directory as the server reads it: architecture, context length, and whether it has MTP heads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_HEADS = ("mtp_num_hidden_layers", "num_nextn_predict_layers")


class CheckpointError(Exception):
    """The directory cannot be served; the text is what SGLang's last line would say."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What config.json says."""

    architecture: str
    model_type: str
    context_length: int
    mtp_layers: int
    """MTP layers that config.json declares."""
    mtp_tensors: int
    """MTP tensors that the index lists; 0 without an index too."""
    eos_token_id: int
    has_vision: bool
    vision_size: int | None
    """Hidden size of its vision tower, by which SGLang sets memory aside; None without one."""
    hybrid: bool
    """Are some of its layers linear attention, with a state besides the KV cache?"""
    thinks: bool
    """Does the model think before it answers unless told not to?"""


def read(path: str) -> Checkpoint:
    """Read a checkpoint directory; CheckpointError if there is none or it cannot be read."""
    folder = Path(path)
    if not folder.is_dir():
        raise CheckpointError(
            f"OSError: Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. "
            "Use `repo_type` argument if needed."
        )
    config_file = folder / "config.json"
    if not config_file.is_file():
        raise CheckpointError(f"OSError: {path} does not appear to have a file named config.json.")
    try:
        config: dict[str, Any] = json.loads(config_file.read_text())
    except ValueError:
        raise CheckpointError(
            f"OSError: It looks like the config file at '{config_file}' is not a valid JSON file."
        ) from None
    text = {**config, **config.get("text_config", {})}
    model_type = str(config.get("model_type", "unknown"))
    return Checkpoint(
        architecture=(config.get("architectures") or ["Unknown"])[0],
        model_type=model_type,
        context_length=int(text.get("max_position_embeddings", 4096)),
        mtp_layers=next((int(text[key]) for key in _HEADS if text.get(key)), 0),
        mtp_tensors=_mtp_tensors(folder / "model.safetensors.index.json"),
        eos_token_id=_first(text.get("eos_token_id", 0)),
        has_vision="vision_config" in config,
        vision_size=int(config["vision_config"].get("hidden_size", 1024))
        if "vision_config" in config
        else None,
        hybrid=model_type.startswith(("qwen3_5", "qwen3_next")),
        thinks=model_type.startswith(("qwen3_5", "qwen3_next")),
    )


def _mtp_tensors(index: Path) -> int:
    if not index.is_file():
        return 0
    names = json.loads(index.read_text()).get("weight_map", {})
    return sum(name.startswith("mtp.") or ".mtp." in name for name in names)


def _first(token: Any) -> int:
    return int(token[0] if isinstance(token, list) else token)
