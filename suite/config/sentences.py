"""What pydantic found wrong with ``suite.toml``, in sentences for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from suite.config.errors import nearest
from suite.config.launches import LAUNCHES
from suite.config.tables import (
    Arm,
    BuildTable,
    ClientTable,
    Gate,
    HostTable,
    MetricChange,
    Sizes,
    Suite,
    Target,
    Timeouts,
)
from suite.foreign import one_line
from suite.redact import MASK, is_secret, scrub


def sentences(error: ValidationError, path: Path) -> Iterable[str]:
    """Each fault once: file, table, key, and what is wrong."""
    seen: set[str] = set()
    places = {fault["loc"] for fault in error.errors()}
    for fault in error.errors():
        if fault["loc"][0] == "targets" and fault["loc"][2:] in places:
            continue  # a fault of a shared table, seen again in each target that it was laid under
        parts = [str(part) for part in fault["loc"]]
        sentence = f"{path}: {_sentence(parts, fault['type'], fault['msg'], fault.get('input'))}"
        if sentence not in seen:
            seen.add(sentence)
            yield sentence


def _sentence(parts: list[str], kind: str, message: str, given: Any) -> str:
    launch = parts.index("launch") if "launch" in parts else -1
    tag = parts[launch + 1] if 0 <= launch < len(parts) - 1 and parts[launch + 1] in LAUNCHES else None
    place = [
        part for index, part in enumerate(parts) if not (index == launch + 1 and part == tag and tag)
    ] or ["(whole file)"]
    if "flags" in place:  # a flag's value may be of several types: one sentence for all of them
        place = place[: place.index("flags") + 2]
        message = "must be text, a number, true (a switch), false (removed) or a list of text and numbers"
        kind = "flag_value"
    if kind == "extra_forbidden":
        known = _known_keys(place[:-1], tag)
        close = nearest(place[-1], known)
        return (
            f"{_table(place)} unknown key {one_line(place[-1], 60)!r}{close}; there are: {', '.join(known)}"
        )
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return f"[{'.'.join(place)}] key 'kind': must be one of {', '.join(sorted(LAUNCHES))}, not {_kind(given)}"
    if kind == "missing":
        return f"{_table(place)} needs the key {place[-1]!r}"
    if kind == "string_pattern_mismatch" and place[-1] == "[key]":
        return f"{_table(place[:-1])} the name {one_line(repr(given), 60)} may hold only lower case letters, digits, '.', '_', '-'"
    message = message.removeprefix("Value error, ")
    reason = message[0].lower() + message[1:]
    return f"{_table(place)} key {place[-1]!r}: {reason}, not {_shown(place[-1], given)}"


def _shown(key: str, given: Any) -> str:
    return MASK if is_secret(key) else one_line(scrub(repr(given)), 120)


def _kind(given: Any) -> str:
    return one_line(repr(given["kind"]), 60) if isinstance(given, dict) and "kind" in given else "absent"


def _table(place: list[str]) -> str:
    return f"[{'.'.join(place[:-1])}]" if len(place) > 1 else "at the top:"


def _known_keys(table: list[str], launch: str | None) -> Sequence[str]:
    """The keys that may stand in a table."""
    groups: dict[str, type[BaseModel]] = {
        "hosts": HostTable,
        "arms": Arm,
        "builds": BuildTable,
        "versions": BuildTable,
        "targets": Target,
        "budgets": Sizes,
        "gate": Gate,
        "metrics": MetricChange,
        "timeouts": Timeouts,
        "client": ClientTable,
    }
    model: type[BaseModel] = Suite
    for part in table:
        if part == "launch":
            return list(LAUNCHES[launch or "process"].model_fields)
        model = groups.get(part, model)
    return [key for key in model.model_fields if key not in ("name", "path")]
