"""What a table takes over from others before it is checked: another target, and what all targets share."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from suite.config.errors import ConfigError, nearest

BUILTIN = "builtin.toml"


@functools.cache
def builtin() -> Mapping[str, Any]:
    """The arms and budgets that every configuration has without saying so."""
    text = resources.files("suite.config").joinpath(BUILTIN).read_text(encoding="utf-8")
    return tomllib.loads(text)


def with_builtin(data: Mapping[str, Any]) -> dict[str, Any]:
    """A file's tables over the built-in arms and budgets, key by key; ``false`` in place of a table takes one away.

    With ``builtin = false`` the file stands alone.
    """
    laid = dict(data)
    if data.get("builtin") is False:
        return laid
    for group, tables in builtin().items():
        whole = _overlaid(tables, data.get(group, {}))
        if isinstance(whole, dict):
            whole = {name: table for name, table in whole.items() if table is not False}
        laid[group] = whole
    return laid


def named(tables: Any) -> Any:
    """Every table of a group knows its own name."""
    if not isinstance(tables, dict):
        return tables
    return {
        name: {**table, "name": name} if isinstance(table, dict) else table for name, table in tables.items()
    }


def like(target: Any, targets: Mapping[str, Any]) -> Any:
    """A target that says ``like = "OTHER"`` is that one with its own keys laid over it."""
    if not isinstance(target, dict) or not isinstance(target.get("like"), str):
        return target
    base = targets.get(target["like"])
    if base is None:
        raise ConfigError(
            f"[targets.{target['name']}] key 'like': {target['like']!r} is not among "
            f"[targets]{nearest(target['like'], targets)}"
        )
    return _overlaid(base, target)


def placed(target: Any, whole: Mapping[str, Any]) -> Any:
    """``{suite}`` in a launch's ``cwd`` is the directory of this file, for a host that sees the same files."""
    launch = target.get("launch") if isinstance(target, dict) else None
    if not isinstance(launch, dict) or not isinstance(launch.get("cwd"), str):
        return target
    directory = str(Path(whole["path"]).resolve().parent)
    return {**target, "launch": {**launch, "cwd": launch["cwd"].replace("{suite}", directory)}}


def with_shared(target: Any, whole: Mapping[str, Any]) -> Any:
    """A target's arms, budgets and gate settings are the shared ones with its own laid over them, key by key."""
    if not isinstance(target, dict):
        return target
    shared = ("arms", "budgets", "builds", "gate")
    laid = {key: _overlaid(whole.get(key, {}), target.get(key, {})) for key in shared}
    if isinstance(laid["arms"], dict):
        tried = _of_backends(target.get("backends"), laid["arms"])
        laid["arms"] = {
            **laid["arms"],
            **{name: _overlaid(arm, laid["arms"].get(name, {})) for name, arm in tried.items()},
        }
    budget = {"default_budget": whole["default_budget"]} if "default_budget" in whole else {}
    return {**budget, **target, **laid, "arms": named(laid["arms"]), "builds": named(laid["builds"])}


def _of_backends(backends: Any, arms: Mapping[str, Any]) -> dict[str, Any]:
    """The arms that try the backends a target lists: ``mtp-on`` with one flag changed."""
    base = arms.get("mtp-on", {})
    if not isinstance(backends, dict) or not isinstance(base, dict):
        return {}
    return {
        f"{flag}.{value}": _overlaid(
            base, {"description": f"mtp-on with --{flag} {value}", "flags": {flag: value}}
        )
        for flag, values in backends.items()
        for value in (values if isinstance(values, list) else [])
    }


def _overlaid(base: Any, changes: Any) -> Any:
    """``changes`` over ``base``, tables within tables; anything else in ``changes`` wins."""
    if not isinstance(base, dict) or not isinstance(changes, dict):
        return changes
    return {**base, **{key: _overlaid(base.get(key), value) for key, value in changes.items()}}
