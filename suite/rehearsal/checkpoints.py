"""Whose configuration a rehearsal reads: resolution needs a model's config files, not its weights."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from suite import config
from suite.hosts import Host
from suite.rehearsal.errors import RehearsalError

SHIPPED = "simulator/checkpoints"
"""Config files of this project, beside ``suite.toml``."""


def stand_in(directory: Path, target: config.Target, host: Host, model: str, cwd: str | None) -> str:
    """The folder whose config files are read for ``model``: its own, one that the target names, or one shipped.

    ``directory`` is that of ``suite.toml``.

    Raises:
        RehearsalError: ``model`` is a folder that is not there, and nothing stands in for it.
    """
    if host.exists(str(PurePosixPath(cwd or ".") / model / "config.json")):
        return model
    named = [target.checkpoint_config] if target.checkpoint_config and model == target.model else []
    shipped = directory / SHIPPED
    same_name = [f"{SHIPPED}/{folder.name}" for folder in _folders(shipped) if _alike(folder.name, model)]
    for folder in named + same_name:
        if host.is_local and (directory / folder / "config.json").is_file():
            return str(directory / folder)
    if host.is_local and model.startswith(("/", "./", "../", "~")):
        raise RehearsalError(
            f"{model} has no config.json here; name a folder with the checkpoint's config files (no weights are needed) "
            f"as checkpoint_config in [targets.{target.name}]"
        )
    return model  # a name on the Hugging Face hub: SGLang looks in the cache


def _folders(place: Path) -> list[Path]:
    return sorted(path for path in place.iterdir() if path.is_dir()) if place.is_dir() else []


def _alike(folder: str, model: str) -> bool:
    """The same family by name: the config files of NVIDIA's NVFP4 build are the same wherever it is kept."""
    return folder.lower() == PurePosixPath(model).name.lower()
