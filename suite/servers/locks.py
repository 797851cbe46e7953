"""Which locks a run takes on a host: one a GPU where there are GPUs, else one for the target."""

from __future__ import annotations

from pathlib import Path

from suite.config import ProcessLaunch, Target


def keys(suite_path: Path, target: Target) -> list[str]:
    """Names of the locks, in the order everybody takes them.

    A target with GPUs takes those that ``CUDA_VISIBLE_DEVICES`` of its environment names, or the first
    ``gpus`` of the host as SGLang does. A target without GPUs keeps only a second run of itself out; simulated
    GPUs are made anew for each run, and nobody needs to wait for them.
    """
    if _is_simulated(target):
        return []
    if target.gpus == 0:
        return [f"target {target.name} of {suite_path.resolve()}"]
    chosen = target.env.get("CUDA_VISIBLE_DEVICES", "")
    devices = sorted({device.strip() for device in chosen.split(",") if device.strip()})
    devices = devices or [str(index) for index in range(target.gpus)]
    return [f"GPU {device}" for device in devices]


def _is_simulated(target: Target) -> bool:
    return isinstance(target.launch, ProcessLaunch) and target.launch.is_simulator
