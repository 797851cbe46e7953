"""A stored run as reports read it: what was measured, what the gate said of it, and its tables. Needs no server."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from suite.foreign import NotJSON, json_of, read_file
from suite.gate import Session, Verdict, load_run, load_verdicts
from suite.gate.runs import StoredVerdicts
from suite.gate.verdicts import SEVERITY


@dataclass(frozen=True, slots=True)
class ToldRun:
    """One run. tables: rows that scenarios kept beside the series, by title."""

    folder: Path
    session: Session
    said: StoredVerdicts
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        """The gravest word first, and within a word the largest change."""
        return by_gravity(self.said.verdicts)

    def of(self, question: str, arm: str) -> list[Verdict]:
        """The verdicts of one series."""
        return [v for v in self.verdicts if (v.question, v.arm) == (question, arm)]


def by_gravity(verdicts: list[Verdict]) -> list[Verdict]:
    """The gravest word first, within a word the largest change."""
    return sorted(verdicts, key=lambda v: (SEVERITY.index(v.word), -abs(v.change or 0.0), v.key))


def read(folder: Path) -> ToldRun:
    """Read a run's folder. Raises the errors of `suite.gate.files.read`; a table that cannot be read is left out."""
    return ToldRun(folder, load_run(folder), load_verdicts(folder), _tables(folder / "tables.json"))


def _tables(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        found = json_of(read_file(path))
    except (OSError, NotJSON):
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        str(title): [row for row in table["rows"] if isinstance(row, dict)]
        for title, table in found.items()
        if isinstance(table, dict) and isinstance(table.get("rows"), list)
    }
