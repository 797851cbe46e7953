"""What a checkpoint's files say about its MTP heads, from config.json, the index and the shards' headers.

Arguments: a directory, or a Hugging Face name that is looked up in this host's cache, and a revision. Prints JSON.
The files that SGLang would load are looked at one by one; no tensor is loaded, of each file only the header is read.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any

_DECLARING = (
    "mtp_num_hidden_layers",
    "num_nextn_predict_layers",
    "num_mtp_layers",
    "mtp_num_layers",
    "num_mtp_modules",
    "n_mtp",
)
_ASSUMING = (
    *(
        "Qwen3NextForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3_5",
        "Qwen4Exp",
        "Glm5Next",
        "DeepseekV4ForCausalLM",
    ),
    *("ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM", "NemotronH", "HYV3ForCausalLM", "HYV4ForCausalLM"),
    *("InternS2", "MiMoV2"),
)
"""Families, by how their architecture begins, for which SGLang takes one MTP layer whatever config.json counts."""
_ADDING = frozenset({"Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM"})
"""Architectures for which SGLang adds mtp.safetensors to what the index names."""
_INDEX = "model.safetensors.index.json"
_NESTED = ("text_config", "llm_config", "language_config", "thinker_config")
_MTP = re.compile(r"(^|\.)(mtp|mtp_layers|mtp_block|mtp_modules|nextn)(?=\.|_|\d|$)")
_MTP_LAYER = re.compile(r"(?:^|\.)(?:mtp(?:\.layers|_layers|_modules|_block)?|nextn)[._](\d+)(?=\.|$)")
_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")
_HEADER_LIMIT = 512 * 2**20


def main(arguments: Sequence[str]) -> None:
    """Print what the files say."""
    print(json.dumps(look(*arguments)))


def look(path: str, revision: str = "") -> dict[str, Any]:
    """Everything that was found; ``problem`` when the path is no checkpoint."""
    place = path if os.path.isdir(path) else cached(path, revision)
    if place is None:
        of = f" of revision {revision}" if revision else ""
        return {
            "problem": f"{path}: no such directory, and no such model{of} in this host's Hugging Face cache"
        }
    result: dict[str, Any] = {"path": place, "problems": []}
    config = _json(os.path.join(place, "config.json"), result)
    if config is None:
        return result
    result["architectures"] = config.get("architectures") or []
    result["declared"], layers = declared(config)
    result["assumed"] = 0 if any(result["declared"].values()) else assumed(result["architectures"])
    result["quantization"] = _quantization(config, place)
    indexed, present = _files(place, result)
    added = _added(indexed, present, result)
    loaded = sorted({*indexed.values(), *added} if indexed else present)
    _read_shards(place, indexed, loaded, layers, result)
    result["added"] = sorted(added)
    result["outside"] = _outside(place, present - set(loaded), layers)
    return result


def cached(name: str, revision: str = "") -> str | None:
    """A snapshot of a model in the Hugging Face cache of this host: a branch's, a tag's, or that of a commit."""
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    hub = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    folder = os.path.join(hub, "models--" + name.replace("/", "--"))
    commit = revision
    try:
        with open(os.path.join(folder, "refs", *(revision or "main").split("/")), encoding="utf-8") as file:
            commit = file.read().strip()
    except (OSError, ValueError):
        pass
    snapshot = os.path.join(folder, "snapshots", commit)
    return snapshot if commit and os.path.isdir(snapshot) else None


def assumed(architectures: Sequence[str]) -> int:
    """How many MTP layers SGLang takes without being told (``srt/configs/model_config.py`` of 0.5.23)."""
    return int(any(str(name).startswith(_ASSUMING) for name in architectures[:1]))


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


def _mtp_layers(names: Iterable[str], layers: int | None) -> int:
    """How many heads the tensors are of. Tensors that name no head belong to all of them: at least one."""
    listed = list(names)
    numbers = {("mtp", m[1]) for name in listed if (m := _MTP_LAYER.search(name))}
    for name in listed:
        layer = _LAYER.search(name)
        if layer and layers is not None and int(layer[1]) >= layers and not _MTP.search(name):
            numbers.add(("layer", layer[1]))
    return len(numbers) or (1 if listed else 0)


def _files(place: str, result: dict[str, Any]) -> tuple[dict[str, str], set[str]]:
    """Tensor names to shard files as the index has them, and all shard files that are there."""
    present = {name for name in os.listdir(place) if name.endswith(".safetensors")}
    if not os.path.exists(os.path.join(place, _INDEX)):
        if not present:
            result["problems"].append(f"no .safetensors file and no {_INDEX}")
        if present == {"consolidated.safetensors", "model.safetensors"}:
            present = {"model.safetensors"}  # the other is the same in another layout
        return {}, present
    data = _json(os.path.join(place, _INDEX), result)
    found = data.get("weight_map") if isinstance(data, dict) else None
    if not isinstance(found, dict):
        result["problems"].append(f"{_INDEX} has no weight_map")
        return {}, present
    return {str(name): str(shard) for name, shard in found.items()}, present


def _added(indexed: dict[str, str], present: set[str], result: dict[str, Any]) -> set[str]:
    """Files that SGLang loads although the index does not name them (``maybe_add_mtp_safetensors``)."""
    adds = any(str(name) in _ADDING for name in result["architectures"][:1])
    known = adds and any(result["declared"].values()) and indexed and "mtp.safetensors" in present
    return {"mtp.safetensors"} - set(indexed.values()) if known else set()


def _outside(place: str, files: Iterable[str], layers: int | None) -> dict[str, int]:
    """MTP tensors in files that are there and that SGLang would not load."""
    found = {}
    for shard in sorted(files):
        header, _ = header_of(os.path.join(place, shard))
        count = sum(is_mtp(name, layers) for name in header or {})
        if count:
            found[shard] = count
    return found


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
                return (
                    None,
                    f"its header cannot be read ({size} bytes): copied in part, or no safetensors file",
                )
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        end = max((tensor["data_offsets"][1] for tensor in header.values()), default=0)
    except FileNotFoundError:
        return None, "missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"its header cannot be read: {error}"
    if 8 + length + end != size:
        return header, f"{size} bytes, but its header says {8 + length + end}: copied in part"
    return header, None


def _read_shards(
    place: str, indexed: dict[str, str], loaded: list[str], layers: int | None, result: dict[str, Any]
) -> None:
    """What the files that SGLang would load hold: all tensors of each, whether the index names them or not."""
    missing: list[str] = []
    broken: dict[str, str] = {}
    dtypes: dict[str, int] = {}
    held: dict[str, str] = {}
    unread: set[str] = set()
    for shard in loaded:
        header, fault = header_of(os.path.join(place, shard))
        if fault == "missing":
            missing.append(shard)
        elif fault:
            broken[shard] = fault
        if header is None:
            unread.add(shard)
            continue
        for name, tensor in header.items():
            held[name] = shard
            if is_mtp(name, layers):
                dtype = tensor.get("dtype", "?")
                dtypes[dtype] = dtypes.get(dtype, 0) + 1
    promised = {name for name, shard in indexed.items() if shard in unread}
    mtp = [name for name in {*held, *promised} if is_mtp(name, layers)]
    result.update(shards=len(loaded), missing=missing, broken=broken, mtp_dtypes=dtypes)
    result.update(tensors=len({*held, *indexed}), mtp_tensors=len(mtp), mtp_layers=_mtp_layers(mtp, layers))
    absent = [name for name, shard in indexed.items() if shard not in unread and held.get(name) != shard]
    if absent:
        result["problems"].append(f"{len(absent)} tensors of the index are not in the shard that it names")


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
