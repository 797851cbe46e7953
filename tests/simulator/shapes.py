"""Shapes: what is left of an answer when its values are taken out, for comparison with captured answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CAPTURES = Path(__file__).parent / "captures"


def captured(arm: str, name: str) -> tuple[str, int, Any, str]:
    """(method and path, status, request body or None, answer) of a captured exchange."""
    head, *rest = (CAPTURES / arm / f"{name}.txt").read_text().split("\n")
    body = None
    while rest and rest[0].startswith(("# request: ", "# content-type: ")):
        line = rest.pop(0)
        if line.startswith("# request: "):
            body = json.loads(line.removeprefix("# request: "))
    request, _, status = head.removeprefix("# ").partition(" -> ")
    return request, int(status), body, "\n".join(rest)


def shape(value: Any) -> Any:
    """Keys and types: {"a": 1, "b": [0.5]} has the shape {"a": "int", "b": ["float"]}."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Where two shapes differ in keys, their order, or types; null fits anything, an empty list any list."""
    if "NoneType" in (ours, theirs):
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict):
        found = [f"{path}.{key} is missing" for key in theirs if key not in ours]
        found += [f"{path}.{key} is too much" for key in ours if key not in theirs]
        if not found and list(ours) != list(theirs):
            found = [f"{path}: keys are in another order: {list(ours)} instead of {list(theirs)}"]
        return found + [
            one
            for key in theirs
            if key in ours
            for one in differences(ours[key], theirs[key], f"{path}.{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list):
        return differences(ours[0], theirs[0], f"{path}[]") if ours and theirs else []
    return [] if ours == theirs else [f"{path} is {ours} instead of {theirs}"]
