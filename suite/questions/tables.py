"""Tables that inform and judge nothing: rows that scenarios add, shown at the end of the run and kept in a file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from suite.foreign import printable
from suite.terminal import table
from suite.terminal.looks import Looks
from suite.whole import write_whole

Cell: TypeAlias = str | int | float | None


class Tables:
    """All tables of a run, by title; each row is a mapping from column to cell."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Cell]]] = {}
        self.notes: dict[str, list[str]] = {}

    def add(self, title: str, row: Mapping[str, Cell]) -> None:
        """Add a row; one that is there already is not added again."""
        rows = self.rows.setdefault(title, [])
        if dict(row) not in rows:
            rows.append(dict(row))

    def note(self, title: str, sentence: str) -> None:
        """A sentence below a table: what it shows."""
        notes = self.notes.setdefault(title, [])
        if sentence not in notes:
            notes.append(sentence)

    def lines(self, looks: Looks | None = None) -> Iterable[str]:
        """Every table as text, its notes below it."""
        shown = looks or Looks(width=table.WIDEST)
        for title in dict.fromkeys([*self.rows, *self.notes]):
            yield f"{title}:"
            width = shown.width - 2 if shown.terminal else table.WIDEST
            yield from (f"  {line}" for line in aligned(self.rows.get(title, []), width))
            yield from shown.wrapped(f"  {printable(note)}" for note in self.notes.get(title, []))
            yield ""

    def save(self, path: Path) -> None:
        """Write all as JSON, whole or not at all."""
        data = {
            title: {"rows": self.rows.get(title, []), "notes": self.notes.get(title, [])}
            for title in dict.fromkeys([*self.rows, *self.notes])
        }
        write_whole(path, json.dumps(data, indent=2) + "\n")


class Table:
    """One scenario's table."""

    def __init__(self, tables: Tables, title: str) -> None:
        self._tables = tables
        self.title = title

    def row(self, **cells: Cell) -> None:
        """Add a row: ``table.row(arm=arm, clients=4, tokens_per_s=446.0)``."""
        self._tables.add(self.title, cells)

    def note(self, sentence: str) -> None:
        """Say something below it."""
        self._tables.note(self.title, sentence)

    def best_of(self, column: str, by: str, named: str) -> None:
        """Order the rows by ``by``, and say below which ``named`` has the highest ``column`` for each of its values."""
        rows = self._tables.rows.get(self.title, [])
        rows.sort(key=lambda row: _number(row.get(by)))
        best: dict[Cell, dict[str, Cell]] = {}
        for row in rows:
            value = row.get(column)
            if isinstance(value, int | float) and value > _number(best.get(row.get(by), {}).get(column)):
                best[row.get(by)] = row
        told = ", ".join(f"{_text(row[named])} at {_text(place)} {by}" for place, row in best.items())
        self._tables.notes[self.title] = [f"best {named}: {told}"] if told else []


def _number(cell: Cell) -> float:
    return float(cell) if isinstance(cell, int | float) else float("-inf")


def aligned(rows: list[dict[str, Cell]], width: int = table.WIDEST) -> list[str]:
    """Rows under their heads; numbers to the right, to four significant digits."""
    if not rows:
        return []
    heads = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[_text(row.get(head)) for head in heads] for row in rows]
    right = [any(isinstance(row.get(head), int | float) for row in rows) for head in heads]
    shown = [head.replace("_per_", "/").replace("_", " ") for head in heads]
    return table.lines(
        shown, cells, right=[place for place, is_right in enumerate(right) if is_right], width=width
    )


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.4g}" if abs(cell) < 1000 else f"{cell:.0f}"
    return str(cell)
