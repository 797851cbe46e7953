"""The one maker of tables for terminals: cells are text and never markup, columns as wide as they need to be."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from io import StringIO

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from suite.foreign import printable

WIDEST = 1000
"""Columns that a table may take where nobody says how many there are."""
LEAST = 12
"""Columns that are left to the first column of a table, however narrow the terminal."""
SENTENCE = 30
"""A last column that is wider holds sentences, which may go on below themselves."""


def lines(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Iterable[int] = (),
    width: int = WIDEST,
    colours: Mapping[str, str] | None = None,
) -> list[str]:
    """The rows under their heads, a text line each; where they do not fit, a column of sentences at the end, or else the
    first column, goes on below itself.

    Args:
        right: places of columns that are aligned to the right.
        width: columns of the terminal that are at hand.
        colours: rich's styles by what a row's first cell says; without any there is not one escape sequence.
    """
    given = [tuple(printable(cell) for cell in row) for row in rows]
    widths = [max(cell_len(row[place]) for row in (tuple(heads), *given)) for place in range(len(heads))]
    flush_right = frozenset(right)
    gaps = len(heads) - 1
    if widths[-1] > SENTENCE and gaps not in flush_right:
        widths[-1] = max(SENTENCE, min(widths[-1], width - sum(widths[:-1]) - 2 * gaps))
    gap = 2 if sum(widths) + 2 * gaps <= width else 1
    first = max(LEAST, width - sum(widths[1:]) - gap * gaps)
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold" if colours else "")
    for place, head in enumerate(heads):
        table.add_column(
            Text(head),
            justify="right" if place in flush_right else "left",
            no_wrap=place != gaps or widths[-1] < SENTENCE,
            max_width=None if place == 0 else widths[place],
        )
    for row in given:
        style = (colours or {}).get(row[0].strip(), "")
        table.add_row(Text(broken(row[0], first), style=style), *(Text(cell) for cell in row[1:]))
    return rendered(
        table, max(width, min(widths[0], first) + sum(widths[1:]) + gap * len(heads)), colours is not None
    )


def broken(cell: str, width: int) -> str:
    """A cell on as many lines as it needs, broken behind a mark between words where there is one."""
    if cell_len(cell) <= width:
        return cell
    indent = " " * (len(cell) - len(cell.lstrip()))
    at = next((place for place in range(width, len(indent) + 1, -1) if cell[place - 1] in "_-, ["), width)
    at -= cell[at - 1] == "["
    return f"{cell[:at]}\n{broken(f'{indent}{cell[at:].lstrip()}', max(width, len(indent) + 1))}"


def rendered(what: RenderableType, width: int, colours: bool) -> list[str]:
    """Anything of rich's as lines of text."""
    out = _Encoded()
    console = Console(
        file=out,
        width=width,
        force_terminal=colours,
        color_system="standard" if colours else None,
        legacy_windows=False,
        markup=False,
        highlight=False,
        emoji=False,
    )
    console.print(what)
    return [line.rstrip() for line in out.getvalue().splitlines()]


class _Encoded(StringIO):
    """What rich asks whether it may draw with more than ASCII."""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return getattr(sys.__stdout__, "encoding", None) or "utf-8"
