"""What the modelled GPUs would show in nvidia-smi, kept in a file while the server lives (`--gpu-state FILE`).

`simulator/bin/nvidia-smi` reads it, and `simulator/bin/dmesg` the file beside it; `SIMULATED_GPU_STATE` names the file to both.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

VARIABLE = "SIMULATED_GPU_STATE"
MAX_CLOCK_MHZ = 2430
BUSY_CLOCK_MHZ = 2325
POWER_LIMIT_W = 600.0


def healthy(gpus: int, memory_used_gb: float, memory_total_gb: float) -> dict[str, Any]:
    """The state of `gpus` equal cards that serve."""
    return {
        "pid": os.getpid(),
        "gpus": gpus,
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "driver": "580.95.05",
        "compute_capability": "12.0",
        "sm_clock_mhz": BUSY_CLOCK_MHZ,
        "max_sm_clock_mhz": MAX_CLOCK_MHZ,
        "temperature_c": 61,
        "power_w": 412.0,
        "power_limit_w": POWER_LIMIT_W,
        "memory_used_mib": int(memory_used_gb * 1024),
        "memory_total_mib": int(memory_total_gb * 1024),
        "throttled_by": [],
        "lost": False,
        "company": [],
        "answers": "",
    }


def throttled(state: dict[str, Any], loss: float, reason: str) -> dict[str, Any]:
    """The same cards, too hot or at their power cap: the clock lower by `loss`."""
    hot = {
        "sm_clock_mhz": int(BUSY_CLOCK_MHZ * (1 - loss)),
        "temperature_c": 61 if reason == "sw_power_cap" else 92,
        "throttled_by": [reason],
    }
    return state | hot


def change(path: str | None, **changes: Any) -> None:
    """Write some values anew."""
    if path is not None and Path(path).is_file():
        write(path, json.loads(Path(path).read_text()) | changes)


def kernel_says(path: str | None, line: str) -> None:
    """Add a line to what `simulator/bin/dmesg` prints; a kernel's log outlives its servers."""
    if path is not None:
        with open(f"{path}.kernel", "a", encoding="utf-8") as log:
            log.write(f"[{time.monotonic():12.6f}] {line}\n")


def write(path: str | None, state: dict[str, Any]) -> None:
    """Replace the file as a whole; nothing without a path."""
    if path is None:
        return
    part = Path(f"{path}.{os.getpid()}.part")
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_text(json.dumps(state))
    os.replace(part, path)


def remove(path: str | None) -> None:
    """The server has ended: its GPUs are idle."""
    if path is not None:
        Path(path).unlink(missing_ok=True)
