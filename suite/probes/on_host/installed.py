"""Where SGLang is for this interpreter, of which version, with what beside it, and what could change its arguments.

Arguments: none for this interpreter's own SGLang, or the path of a package, a checkout or a wheel. Prints JSON.
Nothing of SGLang is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import re
import site
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from typing import Any

from suite.probes.on_host import code_identity
from suite.redact import MASK, is_secret, scrub

_GROUPS = ("sglang.srt.plugins", "sglang.srt.platforms")
_NAMES = r"SGLANG_(?!PERF_GATE_)|SGL_|NCCL_|FLASHINFER_|CUDA_|NVSHMEM_|PYTORCH_|TORCH|TRITON_|OMP_NUM_THREADS$|LD_PRELOAD$"
BUILD_VARIABLES = re.compile(rf"^({_NAMES})")
"""Variables that are part of what a server is; the suite's own are not."""
_VARIABLES = re.compile(rf"^({_NAMES}|CUBLAS|CUDNN|VLLM_|PYTHON(PATH|STARTUP)$)")
_BESIDE = re.compile(
    r"(torch|triton|transformers|tokenizers|xgrammar|numpy|cuda-.*|nvidia-.*|flashinfer-.*|quack-kernels|tilelang"
    r"|sgl(ang)?-(kernel|deep-gemm|flash-mla|fa4|attn).*|deep-gemm|deep-ep|tensorrt-.*|cutlass.*)"
)
"""Distributions whose version changes speed or answers, besides those that SGLang itself requires."""


def locate(path: str) -> str | None:
    """The package's directory or wheel: ``path`` itself, the ``sglang`` in it, or a checkout's ``python/sglang``."""
    if path.endswith(".whl") and os.path.isfile(path):
        return path
    for place in (path, os.path.join(path, "sglang"), os.path.join(path, "python", "sglang")):
        if os.path.isfile(os.path.join(place, "__init__.py")) or os.path.isdir(os.path.join(place, "srt")):
            return place
    return None


def own() -> str | None:
    """The directory of the SGLang that ``import sglang`` would find here."""
    spec = importlib.util.find_spec("sglang")
    places = list(spec.submodule_search_locations or []) if spec else []
    return places[0] if places else None


def version_of(root: str) -> tuple[str | None, str | None]:
    """Version and commit as ``_version.py`` and the packaging metadata beside it have them."""
    text = _read(root, "_version.py") or _read(root, "version.py") or ""
    version = re.search(r"^(?:__version__|version)\b[^\n'\"]*['\"]([^'\"]+)", text, re.MULTILINE)
    commit = re.search(r"^(?:__commit_id__|commit_id)\b[^\n'\"]*['\"]g?([0-9a-f]{7,40})", text, re.MULTILINE)
    found = version[1] if version else None
    if found is None:
        beside = root[: -len(".whl")] if root.endswith(".whl") else ""
        named = re.search(r"sglang-([^-]+)", os.path.basename(beside))
        found = named[1] if named else None
    inside = re.search(r"\+g([0-9a-f]{7,40})", found or "")
    return found, commit[1] if commit else inside[1] if inside else None


def _read(root: str, name: str) -> str | None:
    try:
        if os.path.isfile(root):
            with zipfile.ZipFile(root) as archive:
                return archive.read(f"sglang/{name}").decode("utf-8", "replace")
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (OSError, KeyError, zipfile.BadZipFile):
        return None


def plugins(distributions: Iterable[metadata.Distribution]) -> list[dict[str, str]]:
    """Entry points that SGLang loads into its server, with the directory of each one's package."""
    found: list[dict[str, str]] = []
    for distribution in distributions:
        for point in distribution.entry_points:
            if point.group in _GROUPS:
                package = point.value.split(":")[0].split(".")[0]
                place = {
                    "group": point.group,
                    "name": point.name,
                    "value": point.value,
                    "root": _root_of(package),
                }
                point_of = {**place, "distribution": f"{distribution.name} {distribution.version}"}
                if point_of not in found:  # a directory that stands twice in the path
                    found.append(point_of)
    return sorted(found, key=lambda point: (point["group"], point["name"]))


def _root_of(package: str) -> str:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return ""
    if spec is None:
        return ""
    return next(iter(spec.submodule_search_locations or []), spec.origin or "")


def customized() -> list[str]:
    """What Python runs before any program: ``sitecustomize`` and the like, and ``.pth`` files that name SGLang."""
    found = [_root_of(name) for name in ("sitecustomize", "usercustomize")]
    for folder in site.getsitepackages():
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        found += [
            os.path.join(folder, name) for name in names if name.endswith(".pth") and _hooks(folder, name)
        ]
    return [place for place in found if place]


def _hooks(folder: str, name: str) -> bool:
    """Does a ``.pth`` file run code (a line that begins with ``import``) that speaks of SGLang, and not of this suite?"""
    lines = (_read(folder, name) or "").replace("sglang_perf_gate", "").splitlines()
    return any(line.startswith("import") and "sglang" in line for line in lines)


def look(arguments: Sequence[str]) -> dict[str, Any]:
    """All of it; ``root`` is ``None`` when there is no SGLang."""
    root = locate(arguments[0]) if arguments else own()
    result: dict[str, Any] = {"root": root, "python": platform.python_version(), "executable": sys.executable}
    if root is None:
        return result
    result["version"], result["commit"] = version_of(root)
    if arguments:
        return result
    result |= _code(root)
    there = {code_identity.normalized(d.name): d for d in metadata.distributions() if d.name}
    own_name = there.get("sglang")
    wanted = {*(code_identity.required(own_name) if own_name else ()), *filter(_BESIDE.fullmatch, there)}
    result["beside"] = {name: there[name].version for name in sorted(wanted & there.keys())}
    if own_name and "changed" not in result:
        result["commit"] = result["commit"] or code_identity.commit_of_url(own_name)
        result["changed"] = code_identity.patched(own_name, root)
    torch = importlib.util.find_spec("torch")
    result["cuda"] = code_identity.cuda_of(list(torch.submodule_search_locations or [])) if torch else None
    result["plugins"] = plugins(metadata.distributions())
    result["customized"] = customized()
    result["environment"] = telling(os.environ)
    return result


def telling(variables: Mapping[str, str]) -> dict[str, str]:
    """Of a process's variables those that change what SGLang does or how fast, secrets masked."""
    return {
        name: MASK if is_secret(name) else scrub(value)
        for name, value in sorted(variables.items())
        if _VARIABLES.search(name)
    }


def _code(root: str) -> dict[str, Any]:
    """Hash and number of the package's files, and what git says of them; git's commit wins over a stale version file."""
    digest, files = code_identity.files_hash(root)
    found: dict[str, Any] = {"hash": digest, "files": files}
    of_git = code_identity.checkout(root)
    return found | of_git if of_git else found


def main(arguments: Sequence[str]) -> None:
    """Print what was found."""
    print(json.dumps(look(arguments)))
