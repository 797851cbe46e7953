"""What a checkpoint's files say about its MTP heads, from config.json, the index and the shards' headers.

Argument: a directory, or a Hugging Face name that is looked up in this host's cache. Prints JSON. No tensor
is loaded: of each shard only the header is read.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Sequence
from typing import Any

_DECLARING = (
    "mtp_num_hidden_layers",
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_layers",
    "num_mtp_modules",
    "n_mtp",
)
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_MTP = re.compile(r"(^|\.)(mtp|mtp_layers|mtp_block|mtp_modules|nextn)(?=\.|_|\d|$)")
_MTP_LAYER = re.compile(r"(?:^|\.)(?:mtp(?:\.layers|_layers|_modules|_block)?|nextn)[._](\d+)(?=\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_HEADER_LIMIT = 512 * 2**20


def main(arguments: Sequence[str]) -> None:
    """Print what the files say."""
    print(json.dumps(look(arguments[0])))


def look(path: str) -> dict[str, Any]:
    """Everything that was found; ``problem`` when the path is no checkpoint."""
    place = path if os.path.isdir(path) else cached(path)
    if place is None:
        return {"problem": f"{path}: no such directory, and no such model in this host's Hugging Face cache"}
    result: dict[str, Any] = {"path": place, "problems": []}
    config = _json(os.path.join(place, "config.json"), result)
    if config is None:
        return result
    result["architectures"] = config.get("architectures") or []
    result["declared"], layers = declared(config)
    tensors, shards = _tensors(place, result)
    mtp = {name: shard for name, shard in tensors.items() if is_mtp(name, layers)}
    result.update(tensors=len(tensors), mtp_tensors=len(mtp), mtp_layers=_mtp_layers(mtp, layers))
    result["quantization"] = _quantization(config, place)
    _check_shards(place, sorted(set(tensors.values()) | shards), tensors, mtp, result)
    return result


def cached(name: str) -> str | None:
    """The newest snapshot of a model in the Hugging Face cache of this host."""
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(hub, "models--" + name.replace("/", "--"))
    try:
        with open(os.path.join(folder, "refs", "main"), encoding="utf-8") as file:
            snapshot = os.path.join(folder, "snapshots", file.read().strip())
    except (OSError, ValueError):
        return None
    return snapshot if os.path.isdir(snapshot) else None


def declared(config: dict[str, Any]) -> tuple[dict[str, int], int | None]:
    """MTP layers by the key that declares them (with its table), and the number of ordinary layers."""
    found: dict[str, int] = {}
    layers = None
    for table, values in [("", config), *((name, config.get(name)) for name in _NESTED)]:
        if not isinstance(values, dict):
            continue
        prefix = f"{table}." if table else ""
        found.update({prefix + key: values[key] for key in _DECLARING if isinstance(values.get(key), int)})
        if isinstance(values.get("num_hidden_layers"), int):
            layers = values["num_hidden_layers"]
    return found, layers


def is_mtp(name: str, layers: int | None) -> bool:
    """Does a tensor of this name belong to an MTP head? Some families number it after the last ordinary layer."""
    layer = _LAYER.search(name)
    beyond = layers is not None and layer is not None and int(layer[1]) >= layers
    return bool(_MTP.search(name)) or (beyond and "vision" not in name and "visual" not in name)


def _mtp_layers(names: dict[str, str], layers: int | None) -> int:
    """How many heads the tensors are of. Tensors that name no head belong to all of them: at least one."""
    numbers = {("mtp", m[1]) for name in names if (m := _MTP_LAYER.search(name))}
    for name in names:
        layer = _LAYER.search(name)
        if layer and layers is not None and int(layer[1]) >= layers and not _MTP.search(name):
            numbers.add(("layer", layer[1]))
    return len(numbers) or (1 if names else 0)


def _tensors(place: str, result: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
    """Tensor names to shard files, and all shard files that are there."""
    present = {name for name in os.listdir(place) if name.endswith(".safetensors")}
    index = os.path.join(place, "model.safetensors.index.json")
    if os.path.exists(index):
        data = _json(index, result)
        found = data.get("weight_map") if isinstance(data, dict) else None
        if not isinstance(found, dict):
            result["problems"].append("model.safetensors.index.json has no weight_map")
            return {}, present
        return {str(name): str(shard) for name, shard in found.items()}, present
    if not present:
        result["problems"].append("no .safetensors file and no model.safetensors.index.json")
    tensors: dict[str, str] = {}
    for shard in sorted(present):
        header, _ = header_of(os.path.join(place, shard))
        tensors.update(dict.fromkeys(header or {}, shard))
    return tensors, present


def header_of(path: str) -> tuple[dict[str, Any] | None, str | None]:
    """The tensors of a shard by name, or what is wrong with the file: its header says how long it must be."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            first = file.read(8)
            if first.startswith(b"version "):
                return None, "a Git LFS pointer, not the file itself (git lfs pull)"
            length = struct.unpack("<Q", first)[0] if len(first) == 8 else -1
            if not 0 < length <= min(size, _HEADER_LIMIT):
                return None, f"its header cannot be read ({size} bytes): half copied, or no safetensors file"
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    except FileNotFoundError:
        return None, "missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"its header cannot be read: {error}"
    if 8 + length + end != size:
        return header, f"{size} bytes, but its header says {8 + length + end}: half copied"
    return header, None


def _check_shards(
    place: str, shards: list[str], tensors: dict[str, str], mtp: dict[str, str], result: dict[str, Any]
) -> None:
    missing: list[str] = []
    broken: dict[str, str] = {}
    dtypes: dict[str, int] = {}
    absent = 0
    by_shard: dict[str, list[str]] = {}
    for name, shard in tensors.items():
        by_shard.setdefault(shard, []).append(name)
    for shard in shards:
        header, fault = header_of(os.path.join(place, shard))
        if fault == "missing":
            missing.append(shard)
        elif fault:
            broken[shard] = fault
        if header is None:
            continue
        for name in by_shard.get(shard, []):
            if name not in header:
                absent += 1
            elif name in mtp:
                dtype = header[name].get("dtype", "?")
                dtypes[dtype] = dtypes.get(dtype, 0) + 1
    result.update(shards=len(shards), missing=missing, broken=broken, mtp_dtypes=dtypes)
    if absent:
        result["problems"].append(f"{absent} tensors of the index are not in the shard that it names")


def _quantization(config: dict[str, Any], place: str) -> str | None:
    """The checkpoint's own word for its quantization (``modelopt_fp4``, ``NVFP4``, ``fp8`` ...)."""
    table = config.get("quantization_config")
    if not isinstance(table, dict):
        table = (_json(os.path.join(place, "hf_quant_config.json"), {"problems": []}) or {}).get(
            "quantization"
        )
    if not isinstance(table, dict):
        return None
    return str(table.get("quant_algo") or table.get("quant_method") or "unnamed")


def _json(path: str, result: dict[str, Any]) -> dict[str, Any] | None:
    name = os.path.basename(path)
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError:
        result["problems"].append(f"{name} is missing")
        return None
    except (OSError, ValueError) as error:
        result["problems"].append(f"{name} cannot be read: {error}")
        return None
    if not isinstance(data, dict):
        result["problems"].append(f"{name} is not a JSON object")
        return None
    return data
