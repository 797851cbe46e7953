"""What differs between two builds and their resolved settings, most telling first: an upgrade's likely causes, by name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from suite.sglang import names
from suite.sglang.server.info import flatten

FIRST = (
    "sglang", "image", "image_digest", "image_id", "label.SGLANG_BUILD_COMMIT", "commit", "described",
    "changed_files", "code", "frontend", "torch", "cuda", "driver", "flashinfer", "sgl-kernel", "triton",
    "transformers",
)  # fmt: skip
"""Software before settings: a setting that moved is mostly the consequence."""

_THEN = ("env.", "speculative_", "attention", "moe_", "backend", "cuda_graph", "max_", "chunked")
_NAMED_AT_MOST = 8
_LISTED_AT_MOST = 8


def changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """What differs between two subjects, most telling first, by name: before and after.

    Compared is what both have, a renamed setting under its newer name; what one of them lacks proves nothing, because
    every release adds settings and every suite learns to see more. A variable is the exception: where both sides tell
    of variables (``code`` is seen together with them), one that is set on one side only is a difference.
    """
    before, after = _renamed(flatten(old)), _renamed(flatten(new))
    shared = before.keys() & after.keys()
    if ("code" in before) == ("code" in after):
        shared |= {name for name in before.keys() | after.keys() if name.startswith("env.")}
    names = ranked(shared)
    return {
        name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)
    }


def ranked(settings: Iterable[str]) -> list[str]:
    """Names of settings, most telling first."""
    return sorted(settings, key=_rank)


def told(changes: Mapping[str, tuple[Any, Any]], shown: int | None = None) -> str:
    """``sglang 0.5.22 -> 0.5.23; attention_backend triton -> flashinfer``; ``shown``: only the first few, and how many more."""
    texts = [_change(name, old, new) for name, (old, new) in changes.items()]
    more = 0 if shown is None else len(texts) - shown
    return "; ".join(texts[:shown]) + (f" and {more} more" if more > 0 else "")


def drift(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two subjects, a line each; what just one of them has is summarised in a last line each."""
    changes = changed(old, new)
    before, after = _renamed(flatten(old)), _renamed(flatten(new))
    lines = [_change(name, *pair) for name, pair in changes.items()]
    come, gone = after.keys() - before.keys() - changes.keys(), before.keys() - after.keys() - changes.keys()
    lines += _summary("set only in the new one", {name: after[name] for name in come})
    lines += _summary("set only in the old one", {name: before[name] for name in gone})
    return lines


def _change(name: str, old: Any, new: Any) -> str:
    """``name old -> new``; of two long lists of words only what differs."""
    if isinstance(old, str) and isinstance(new, str) and len(old) + len(new) > 100:
        gone = [word for word in old.split() if word not in new.split()]
        come = [word for word in new.split() if word not in old.split()]
        words = [f"without {' '.join(gone)}"] * bool(gone) + [f"with {' '.join(come)}"] * bool(come)
        return f"{name} now {' and '.join(words)}" if words else f"{name} in another order"
    if isinstance(old, list) and isinstance(new, list) and _numbers(old) != _numbers(new):
        return f"{name} {_numbers(old)} -> {_numbers(new)}"
    return f"{name} {_text(old)} -> {_text(new)}"


def _numbers(values: list[Any]) -> str:
    """A long list of numbers (batch sizes) by how many there are and how far they go; any other list as it is."""
    if len(values) > _LISTED_AT_MOST and all(isinstance(value, int | float) for value in values):
        return f"{len(values)} values up to {max(values)}"
    return _text(values)


def _renamed(subject: Mapping[str, Any]) -> dict[str, Any]:
    """``subject`` by the newest names; where old and new name stand side by side, the filled-in one counts."""
    result: dict[str, Any] = {}
    for name, value in subject.items():
        newest = names.SETTING_RENAMES.get(name, name)
        if result.get(newest) is None:
            result[newest] = value
    return result


def _rank(name: str) -> tuple[int, str]:
    if name in FIRST:
        return FIRST.index(name), name
    for place, word in enumerate(_THEN):
        if word in name:
            return len(FIRST) + place, name
    return len(FIRST) + len(_THEN), name


def _summary(what: str, settings: Mapping[str, Any]) -> list[str]:
    if not settings:
        return []
    ranked = sorted(settings, key=lambda name: (settings[name] in (None, False), _rank(name)))
    shown = ", ".join(f"{name} {_text(settings[name])}" for name in ranked[:_NAMED_AT_MOST])
    more = len(ranked) - _NAMED_AT_MOST
    return [f"{what} ({len(ranked)}): {shown}" + (f" and {more} more" if more > 0 else "")]


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool | dict | list):
        text = json.dumps(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return str(value)
