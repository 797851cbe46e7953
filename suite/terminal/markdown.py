"""The one maker of tables in markdown, and how foreign text is put into it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from suite.foreign import one_line

CHARS = 1000
"""How much of one text is shown: the sentence of a run is never cut."""


def escaped(said: str) -> str:
    """Foreign text on one line of markdown: no markup, no HTML, no break of a table."""
    plain = one_line(said, CHARS).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#~])", r"\\\1", plain)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """The rows under their heads; cells are markdown already, but for what would break the table."""
    flush_right = frozenset(right)
    rule = ["---:" if place in flush_right else "---" for place in range(len(heads))]
    return [_line(heads), _line(rule), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    whole = (re.sub(r"(?<!\\)\|", r"\\|", cell.replace("\n", " ")) for cell in cells)
    return f"| {' | '.join(whole)} |"
