"""What speaks against recording a run, known before anything is launched: places, models and files that do not fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from suite.config import Arm, Target
from suite.gate import Asked, BaselineStore
from suite.sglang.flags import Flags
from suite.sglang.server.settings import IDENTITY, model_name

SHOWN = 3


def speculation_asked(flags: Flags) -> str | None:
    """The speculative part of a command line: of an arm's identity, whatever it resolves to."""
    wished = {name: value for name, value in flags.items() if name.startswith("speculative-")}
    return " ".join(Flags(wished).argv()) or None


def known_identity(target: Target, arm: Arm, cards: dict[str, Any]) -> dict[str, Any]:
    """What of an arm's identity is certain before it is launched; of a running server only what speculation is asked."""
    flags = target.arm_flags(arm)
    known: dict[str, Any] = {**cards, "speculation_asked": speculation_asked(flags)}
    if target.launch.kind == "attach":
        return known
    sizes = {name: flags[name.replace("_", "-")] for name in IDENTITY if name.replace("_", "-") in flags}
    name, _ = model_name(str(flags["model-path"]))
    return known | sizes | ({"model": name} if name else {})


def objections(
    store: BaselineStore, target: Target, asked: Iterable[Asked], cards: dict[str, Any]
) -> list[str]:
    """Sentences on why a run of these questions could not be recorded; empty if it can be."""
    baselines, unusable = store.all()
    told: dict[str, None] = {}
    for error in unusable:
        told[f"unusable: {error}"] = None
    for one in asked:
        if one.parts or one.arm not in target.arms:
            continue
        known = known_identity(target, target.arms[one.arm], cards)
        differences = [
            _differing(there.identity, known)
            for there in baselines
            if (there.question, there.arm) == (one.question, one.arm)
            and there.identity.get("host") == cards.get("host")  # another host's lie beside these
        ]
        if differences and all(differences):
            said = "; ".join(f"{name} {old!r} -> {new!r}" for name, (old, new) in differences[0].items())
            told[f"{one.arm}: not comparable with the baseline: {said}"] = None
    if told:
        drop = f"python -m suite baseline drop QUESTION --target {target.name}, or --baselines DIR for another place"
        return [*list(told)[:SHOWN], f"nothing was launched; {drop}"]
    return _unwritable(store.folder)


def _differing(stored: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    return {
        name: (stored[name], value)
        for name, value in known.items()
        if name in stored and str(stored[name]) != str(value)
    }


def _unwritable(folder: Path) -> list[str]:
    """Why no file can be made there: tried, because rights do not tell all (read-only mounts, full disks)."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return []
    except OSError as error:
        return [f"{folder} cannot be written: {error.strerror or error}; nothing was launched"]
