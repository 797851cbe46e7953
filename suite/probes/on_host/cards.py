"""Cards that are not here: torch and nvidia-smi answer as on a machine that has them, and nothing else is asked."""

from __future__ import annotations

import importlib
import subprocess
from collections.abc import Callable
from typing import Any

from suite.probes.on_host import stand_ins

_TORCH_MIB_LESS = 0.0065
"""What torch reports of a card's memory is less than nvidia-smi does, by about so much (measured on an H200)."""


def pretend(card: dict[str, Any], count: int) -> None:
    """Make torch and nvidia-smi report ``count`` cards: ``name``, ``capability``, ``memory_mib``, ``multiprocessors``."""
    _torch(importlib.import_module("torch"), card, count)
    _nvidia_smi(card, count)
    major, minor = (int(part) for part in card["capability"].split("."))
    target = "triton.runtime.driver.active.get_current_target()"
    stand_ins.known.update(
        {
            f"{target}.backend": "cuda",
            f"{target}.arch": 10 * major + minor,
            "pynvml.nvmlDeviceGetCount()": count,
            "pynvml.nvmlDeviceGetName()": card["name"],
            "pynvml.nvmlDeviceGetCudaComputeCapability()": (major, minor),
        }
    )


def _torch(torch: Any, card: dict[str, Any], count: int) -> None:
    capability = tuple(int(part) for part in card["capability"].split("."))
    total = int(card["memory_mib"] * 2**20 * (1 - _TORCH_MIB_LESS))
    known = {"name": card["name"], "major": capability[0], "minor": capability[1], "total_memory": total}
    known |= {"gcnArchName": "", "warp_size": 32}
    if card.get("multiprocessors"):
        known["multi_processor_count"] = card["multiprocessors"]

    class Properties:
        """What is known of a card; the rest is a question that only a real one answers."""

        def __getattr__(self, name: str) -> Any:
            if name in known:
                return known[name]
            if name.startswith("__"):
                raise AttributeError(name)
            return stand_ins.Unknown(f"torch.cuda.get_device_properties().{name}")

    def lazy_init() -> None:
        stand_ins.note("a CUDA context")
        raise stand_ins.NotDecidedHere("SGLang wants to compute on a card")

    # a function of its own for each name: torch tells them apart
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: count > 0,
        "is_initialized": lambda: True,
        "is_bf16_supported": lambda including_emulation=True: capability >= (8, 0),
        "device_count": lambda: count,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: capability,
        "get_device_properties": lambda device=None: Properties(),
        "get_device_name": lambda device=None: card["name"],
        "get_arch_list": lambda: [f"sm_{capability[0]}{capability[1]}"],
        "mem_get_info": lambda device=None: (total - 2**29, total),
        "memory_allocated": lambda device=None: 0,
        "memory_reserved": lambda device=None: 0,
        "set_device": lambda device=None: None,
        "empty_cache": lambda: None,
        "synchronize": lambda device=None: None,
        "manual_seed_all": lambda seed=0: None,
        "_lazy_init": lazy_init,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    if torch.version.cuda is None:
        torch.version.cuda = stand_ins.cuda_version()


def _nvidia_smi(card: dict[str, Any], count: int) -> None:
    known = {"memory.total": card["memory_mib"], "compute_cap": card["capability"], "name": card["name"]}
    real = subprocess.run

    def run(command: Any, *rest: Any, **options: Any) -> Any:
        words = command.split() if isinstance(command, str) else [str(word) for word in command]
        if not words or words[0].rpartition("/")[2] != "nvidia-smi":
            return real(command, *rest, **options)
        fields = next((word.partition("=")[2] for word in words if word.startswith("--query-gpu=")), "")
        if not fields or any(field not in known for field in fields.split(",")):
            stand_ins.note(" ".join(words))
            raise stand_ins.NotDecidedHere(f"SGLang runs {' '.join(words)}")
        line = ", ".join(str(known[field]) for field in fields.split(","))
        text = f"{line}\n" * count
        as_text = options.get("text") or options.get("universal_newlines") or options.get("encoding")
        return subprocess.CompletedProcess(
            words, 0, text if as_text else text.encode(), "" if as_text else b""
        )

    subprocess.run = run  # type: ignore[assignment]
