"""Cells in a file, each on disk as soon as it is measured, so that a table can be gone on with after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

C = TypeVar("C", bound=msgspec.Struct)


class Kept(Generic[C]):
    """The cells of one table in a JSONL file, whose first line says what was asked.

    Args:
        path: the file; its folder is made.
        asked: what all cells have in common.
        kind: what a cell is.
        place_of: by what a cell is known in its table; a later line of one place takes the place of an earlier one.

    Raises:
        ValueError: the file holds a table that was asked otherwise, or something else.
    """

    def __init__(
        self, path: Path, asked: msgspec.Struct, kind: type[C], place_of: Callable[[C], Hashable]
    ) -> None:
        self.path = path
        self.cells: dict[Any, C] = {}
        self._place_of = place_of
        path.parent.mkdir(parents=True, exist_ok=True)
        lines, wanted = list(self._lines()), msgspec.to_builtins(asked)
        first, *rest = lines or [{}]
        if not rest and first != wanted and (not lines or set(first) == set(wanted)):
            self.path.write_text("", encoding="utf-8")  # a table that got no cell stands in nobody's way
            self._append(wanted)
            return
        if first != wanted:
            raise ValueError(
                f"{self.path} holds a table of {_in_words(first)}; this one asks for {_in_words(wanted)}. "
                "Name another --out, or use the same options"
            )
        for line in rest:
            cell = msgspec.convert(line, kind)
            self.cells[place_of(cell)] = cell

    def _lines(self) -> Iterator[Mapping[str, Any]]:
        """Whole lines; one that was torn off by a kill is dropped, and its cell is measured again."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return
        whole = text[: text.rfind("\n") + 1]
        if whole != text:
            self.path.write_text(whole, encoding="utf-8")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                yield dict(json.loads(line))
            except (ValueError, TypeError):
                raise ValueError(
                    f"{self.path}, line {number}: no cell of a table; name another --out"
                ) from None

    def add(self, cell: C) -> None:
        """Keep a cell; on disk when this returns."""
        self.cells[self._place_of(cell)] = cell
        self._append(msgspec.to_builtins(cell))

    def _append(self, what: object) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(what) + "\n")
            file.flush()


def _in_words(asked: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in asked.items())
