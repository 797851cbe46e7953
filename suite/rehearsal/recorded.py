"""Recorded answers: one file a release, ``rehearsals/TARGET/RELEASE.json``, made by ``tox run -e rehearse``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
from packaging.version import InvalidVersion, Version

from suite.rehearsal.answers import Answer, Rehearsal
from suite.rehearsal.errors import RehearsalError
from suite.rehearsal.preview import RANDOM

FOLDER = "rehearsals"
"""Beside ``suite.toml``."""
_SCHEMA = 1


def read(path: Path) -> Rehearsal:
    """A recorded answer.

    Raises:
        RehearsalError: it cannot be read, or is of a newer suite.
    """
    try:
        data = json.loads(path.read_text("utf-8"))
        if data.get("schema") != _SCHEMA:
            raise RehearsalError(f"{path}: made by another version of this suite; record it again")
        base = data["base"]
        for answer in (*data["arms"].values(), *([data["unasked"][1]] if data.get("unasked") else [])):
            answer["settings"] = _laid_over(
                base, answer.pop("changed", {}), answer.pop("without", []), answer
            )
        return msgspec.convert(
            {name: data[name] for name in data if name not in ("schema", "base")}, Rehearsal
        )
    except (OSError, ValueError, KeyError, AttributeError, TypeError, msgspec.ValidationError) as error:
        raise RehearsalError(
            f"{path}: not a recorded rehearsal ({error}); record it again: tox run -e rehearse"
        ) from None


def write(rehearsal: Rehearsal, path: Path) -> None:
    """Record an answer: each arm's settings as what differs from the first one's, so that a diff of files can be read."""
    data: dict[str, Any] = msgspec.to_builtins(rehearsal)
    answers = [*data["arms"].values(), *([data["unasked"][1]] if data.get("unasked") else [])]
    for answer in answers:
        for name in RANDOM:
            answer.get("settings", {}).pop(name, None)
    base: dict[str, Any] = next((answer["settings"] for answer in answers if answer.get("settings")), {})
    for answer in answers:
        settings = answer.pop("settings", None)
        if settings:
            answer["changed"] = {
                name: settings[name] for name in settings if name not in base or settings[name] != base[name]
            }
            if without := [name for name in base if name not in settings]:
                answer["without"] = without
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"schema": _SCHEMA, "base": base, **data}, indent=1, sort_keys=True)
    path.write_text(_short_lists(text) + "\n", "utf-8")


def of_target(folder: Path, target: str) -> dict[Version, Path]:
    """The recorded answers of a target by release, oldest first."""
    found = {}
    for path in (folder / target).glob("*.json"):
        try:
            found[Version(path.stem)] = path
        except InvalidVersion:
            continue
    return dict(sorted(found.items()))


def place(folder: Path, target: str, release: str) -> Path:
    """Where the answer of a release is recorded."""
    return folder / target / f"{release}.json"


def last_before(folder: Path, target: str, release: str) -> Rehearsal | None:
    """The recorded answer of the newest release that is older than ``release``; ``None`` where there is none."""
    older = [path for version, path in of_target(folder, target).items() if version < Version(release)]
    return read(older[-1]) if older else None


def same(one: Answer, two: Answer) -> bool:
    """Do two answers to a command line agree, but for what is random?"""
    return _firm(one) == _firm(two)


def _firm(answer: Answer) -> tuple[Any, ...]:
    settings = {name: value for name, value in answer.settings.items() if name not in RANDOM}
    return answer.word, answer.reason, settings


def _laid_over(
    base: dict[str, Any], changed: dict[str, Any], without: list[str], answer: dict[str, Any]
) -> dict[str, Any]:
    if answer["word"] != "resolved":
        return {}
    return {name: value for name, value in {**base, **changed}.items() if name not in without}


def _short_lists(text: str) -> str:
    """Lists of numbers on one line each: a list of batch sizes is read as one thing."""
    lines: list[str] = []
    held: list[str] = []
    for line in text.splitlines():
        if held:
            held.append(line.strip())
            if line.strip().rstrip(",") == "]":
                whole = " ".join(held[1:-1])
                plain = not any(mark in whole for mark in '{}["')
                lines += [held[0] + whole + held[-1]] if plain else [held[0], *_indented(held)]
                held = []
            elif any(mark in line for mark in "{["):
                lines += [held[0], *_indented(held)]
                held = []
            continue
        if line.endswith("["):
            held = [line]
        else:
            lines.append(line)
    return "\n".join(lines + held)


def _indented(held: list[str]) -> list[str]:
    indent = " " * (len(held[0]) - len(held[0].lstrip()))
    return [f"{indent}{'' if line.rstrip(',') == ']' else ' '}{line}" for line in held[1:]]
