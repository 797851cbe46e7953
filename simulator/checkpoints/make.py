"""Write the two shipped checkpoint directories: `python -m simulator.checkpoints.make`.

The configuration is that of Qwen3.5-397B-A17B in its vision-language form; the weights are a few kilobytes of zeros
under real tensor names, so that whatever reads indexes and safetensors headers finds them true.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
WITH_MTP = "qwen3.5-397b-a17b-nvfp4"
WITHOUT_MTP = "qwen3.5-397b-a17b-no-mtp"
_LAYERS = 60
_BYTES = {"BF16": 2, "U8": 1, "F8_E4M3": 1, "F32": 4}


def config(mtp_layers: int) -> dict[str, Any]:
    """config.json."""
    text = {
        "model_type": "qwen3_5_moe_text",
        "vocab_size": 248320,
        "hidden_size": 4096,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": 32,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "full_attention_interval": 4,
        "layer_types": ["full_attention" if (n + 1) % 4 == 0 else "linear_attention" for n in range(_LAYERS)],
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 64,
        "num_experts": 512,
        "num_experts_per_tok": 10,
        "moe_intermediate_size": 1024,
        "shared_expert_intermediate_size": 1024,
        "max_position_embeddings": 262144,
        "eos_token_id": 248044,
        "dtype": "bfloat16",
    }
    if mtp_layers:
        text |= {"mtp_num_hidden_layers": mtp_layers, "mtp_use_dedicated_embeddings": False}
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "text_config": text,
        "vision_config": {
            "model_type": "qwen3_5_moe",
            "depth": 27,
            "hidden_size": 1152,
            "out_hidden_size": 4096,
        },
        "quantization_config": {
            "quant_method": "modelopt",
            "quant_algo": "NVFP4",
            "ignore": ["lm_head", "mtp*"],
        },
        "tie_word_embeddings": False,
    }


def tensors(mtp: bool) -> dict[str, tuple[str, list[int]]]:
    """Name, dtype and shape of the few tensors that stand for the many."""
    found: dict[str, tuple[str, list[int]]] = {
        "model.language_model.embed_tokens.weight": ("BF16", [4, 8]),
        "model.language_model.norm.weight": ("BF16", [8]),
        "lm_head.weight": ("BF16", [4, 8]),
        "model.visual.patch_embed.proj.weight": ("BF16", [8, 4]),
    }
    for layer in (0, 3):
        path = f"model.language_model.layers.{layer}"
        found |= {
            f"{path}.input_layernorm.weight": ("BF16", [8]),
            f"{path}.mlp.gate.weight": ("BF16", [2, 8]),
            f"{path}.mlp.experts.0.up_proj.weight": ("U8", [8, 4]),
            f"{path}.mlp.experts.0.up_proj.weight_scale": ("F8_E4M3", [8, 1]),
            f"{path}.mlp.experts.0.up_proj.weight_scale_2": ("F32", [1]),
        }
    if mtp:
        found |= {
            name: ("BF16", [8])
            for name in (
                "mtp.norm.weight",
                "mtp.pre_fc_norm_embedding.weight",
                "mtp.pre_fc_norm_hidden.weight",
            )
        }
        found |= {
            "mtp.fc.weight": ("BF16", [8, 16]),
            "mtp.layers.0.self_attn.q_proj.weight": ("BF16", [16, 8]),
        }
        for projection in ("gate_proj", "up_proj", "down_proj"):
            found[f"mtp.layers.0.mlp.experts.0.{projection}.weight"] = ("BF16", [8, 8])
    return found


def shard(wanted: dict[str, tuple[str, list[int]]]) -> bytes:
    """A safetensors file: header length, header, zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in sorted(wanted.items()):
        size = _BYTES[dtype]
        for dimension in shape:
            size *= dimension
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(end)


def files(mtp: bool) -> dict[str, bytes]:
    """Every file of a checkpoint directory."""
    wanted = tensors(mtp)
    parts = {
        "model-00001-of-00002.safetensors": {
            k: v for k, v in wanted.items() if not k.startswith(("mtp.", "lm_head"))
        },
        "model-00002-of-00002.safetensors": {
            k: v for k, v in wanted.items() if k.startswith(("mtp.", "lm_head"))
        },
    }
    shards = {name: shard(part) for name, part in parts.items()}
    index = {
        "metadata": {"total_size": sum(len(data) for data in shards.values())},
        "weight_map": {tensor: name for name, part in parts.items() for tensor in sorted(part)},
    }
    return shards | {
        "config.json": _json(config(int(mtp))),
        "generation_config.json": _json({"eos_token_id": [248044], "temperature": 0.6, "top_p": 0.95}),
        "model.safetensors.index.json": _json(index),
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=1) + "\n").encode()


if __name__ == "__main__":
    for folder, has_mtp in ((WITH_MTP, True), (WITHOUT_MTP, False)):
        (FOLDER / folder).mkdir(exist_ok=True)
        for file_name, content in files(has_mtp).items():
            (FOLDER / folder / file_name).write_bytes(content)
