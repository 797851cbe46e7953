"""Makes what probes look at: checkpoints of a few bytes, and packages that resolve flags as SGLang does."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

QWEN35 = {
    "text_config": {"num_hidden_layers": 60, "mtp_num_hidden_layers": 1},
    "architectures": ["Qwen3_5Moe"],
}
BODY = ["model.language_model.layers.0.mlp.gate.weight", "model.language_model.layers.59.mlp.gate.weight"]
HEAD = ["mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight", "mtp.norm.weight"]


def write_shard(path: Path, tensors: dict[str, str]) -> None:
    """A safetensors file of two-byte tensors: name to dtype."""
    header = {
        name: {"dtype": dtype, "shape": [1], "data_offsets": [2 * place, 2 * place + 2]}
        for place, (name, dtype) in enumerate(tensors.items())
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(2 * len(tensors)))


def write(
    folder: Path, config: dict[str, Any], shards: dict[str, dict[str, str]], index: bool = True
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    for shard, tensors in shards.items():
        write_shard(folder / shard, tensors)
    if index:
        names = {name: shard for shard, tensors in shards.items() for name in tensors}
        (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    return folder


def whole(folder: Path, config: dict[str, Any] = QWEN35, head: list[str] = HEAD) -> Path:
    return write(
        folder,
        config,
        {"a.safetensors": dict.fromkeys(BODY, "U8"), "b.safetensors": dict.fromkeys(head, "BF16")},
    )


PARSER = """
import argparse, dataclasses, os

@dataclasses.dataclass
class ServerArgs:
    model_path: str
    speculative_algorithm: str | None = None
    speculative_num_steps: int | None = None
    table: dict = dataclasses.field(default_factory=lambda: {"decode": {"max_bs": 8}})

    @staticmethod
    def add_cli_args(parser):
        parser.add_argument("--model-path", required=True)
        parser.add_argument("--speculative-algorithm")
        parser.add_argument("--speculative-num-steps", type=int)
        parser.add_argument("--speculative-draft-model-path")
        parser.add_argument("--config")
"""

CONSTRUCTED = (
    PARSER
    + """
    def __post_init__(self):
        if self.speculative_algorithm == "NEXTN":
            self.speculative_algorithm, self.speculative_num_steps = "EAGLE", 3

def prepare_server_args(argv):
    print("noise on standard output")
    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    if "--config" in argv:
        place = argv.index("--config")
        name, value = open(argv[place + 1]).read().split()
        argv = ["--" + name.rstrip(":"), value, *argv[:place], *argv[place + 2 :]]
    given = parser.parse_args(argv)
    return ServerArgs(given.model_path, given.speculative_algorithm, given.speculative_num_steps)
"""
)

RESOLVED_ONCE = CONSTRUCTED.replace("__post_init__", "resolve_once")


def install_sglang(folder: Path, server_args: str) -> dict[str, str]:
    """A package called sglang with this server_args.py; the environment in which Python finds it."""
    for name in ("sglang", "sglang/srt"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "__init__.py").write_text("")
    (folder / "sglang" / "_version.py").write_text('__version__ = version = "0.0.0.dev1+gd91c3682b"\n')
    (folder / "sglang" / "srt" / "server_args.py").write_text(server_args)
    return {"PYTHONPATH": str(folder)}
