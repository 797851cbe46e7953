"""Makes a kind's prompts from parts: each a subject with a task, never the same pair twice, the same on every machine.

Parts are TOML files beside the prompts, one a kind. A kind has families; a family pairs each of its `subjects` with each
of its `tasks` (and the kind's `common_tasks`). `<subject>` and `<name>` in a text stand for a subject, or for an entry of
the family's list `parts.name`; one prompt uses no entry twice.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

_SLOT = re.compile(r"<([a-z]+)>")
_BEGINNING = re.compile(r"(?:^|(?<=[.?!] ))([a-z])")


def made(text: str, kind: str) -> list[dict[str, Any]]:
    """Every prompt of a kind, as a row of its JSONL file would be, from the text of its TOML file.

    In the first part of the list all subjects are different, in the next all occur once more with other tasks, and so
    on: however few are taken, they are as different as they can be.
    """
    parts = tomllib.loads(text)
    common: list[str] = parts.get("common_tasks", [])
    families = [(family, [*family.get("tasks", []), *common]) for family in parts["family"]]
    rows = []
    for lap in range(max(len(tasks) for _, tasks in families)):
        turn = [
            _row(kind, number, place, lap, family, tasks)
            for number, (family, tasks) in enumerate(families, 1)
            if lap < len(tasks)
            for place in range(len(family["subjects"]))
        ]
        turn.sort(key=lambda row: hashlib.sha256(row["id"].encode()).digest())
        rows += turn
    return rows


def _row(
    kind: str, number: int, place: int, lap: int, family: Mapping[str, Any], tasks: Sequence[str]
) -> dict[str, Any]:
    task = (lap + place) % len(tasks)
    name = f"{kind}-{number}-{place + 1}-{task + 1}"
    goal, *rest = family["subjects"][place].split("|")
    fixed = {"subject": goal, "body": family.get("body", ""), "keys": family.get("keys", "")}
    if rest:
        fixed |= {"argument": rest[0], "observation": rest[1]}
    fill = _Filling(name, fixed, family.get("parts", {}))
    asked = {"role": "user", "content": fill(tasks[task])}
    if "system" in family:
        before = [
            {"role": "system", "content": family["system"]},
            {"role": "user", "content": goal},
            {"role": "assistant", "content": fill(family["call"])},
        ]
        return {"id": name, "messages": [*before, asked]}
    return {"id": name, "messages": [asked]}


def filled(template: str, part: Callable[[str], str]) -> str:
    """A text with `part(name)` in place of every `<name>`; a sentence begins with a capital letter whatever stands there."""
    return _BEGINNING.sub(lambda match: match[1].upper(), _SLOT.sub(lambda match: part(match[1]), template))


class _Filling:
    """Puts parts in place of slots, drawing without repetition; what is drawn depends on the prompt's name alone."""

    def __init__(self, name: str, fixed: Mapping[str, str], parts: Mapping[str, Sequence[str]]) -> None:
        self._fixed = fixed
        self._left = {
            slot: Random(f"{name}/{slot}").sample(values, len(values)) for slot, values in parts.items()
        }

    def __call__(self, template: str) -> str:
        text = template
        while any(match[1] in self._fixed for match in _SLOT.finditer(text)):  # a body holds slots of its own
            text = _SLOT.sub(lambda match: self._fixed.get(match[1], match[0]), text)
        return filled(text, lambda slot: self._left[slot].pop())
