"""What the doctor says: a line for each thing that was looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: ``what``, how it stands, a sentence, and what to do if it is not well."""

    status: Status
    what: str
    said: str
    todo: str = ""
