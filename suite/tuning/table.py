"""A tuning as people and other programs read it: markdown with the advice on top, and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from statistics import mean

from suite.terminal import figures
from suite.terminal import markdown as md
from suite.terminal.figures import percent, times
from suite.tuning.cells import TuningCell
from suite.tuning.gains import Cells, Gain, gain

HEAD = ("content", "clients", "arm", "tokens/s in all", "over off", "95 % interval", "acceptance length")
RIGHT = (1, 3, 4, 5, 6)


def markdown(title: str, advice: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """The advice, the table that it stands on, and what to know of it."""
    lines = [
        f"**{title}**",
        "",
        *(f"- {line}" for line in advice),
        "",
    ]
    return (
        "\n".join([*lines, *md.table(HEAD, rows, right=RIGHT), "", *(f"- {note}" for note in notes)]) + "\n"
    )


def rows(cells: Cells, arms: Sequence[str], off: str, kinds: Sequence[str]) -> list[list[str]]:
    """A line for each content, number of clients and arm."""
    return [
        [kind, str(clients), arm, *_figures(cells, arm, off, clients, kind)]
        for kind in kinds
        for clients in sorted({cell.clients for cell in cells.values()})
        for arm in arms
        if _of(cells, arm, clients, kind)
    ]


def _of(cells: Cells, arm: str, clients: int, kind: str) -> list[TuningCell]:
    return [c for c in cells.values() if (c.arm, c.clients, c.kind) == (arm, clients, kind)]


def _speed(found: Sequence[TuningCell]) -> float | None:
    told = [value for cell in found for value in cell.tokens_per_s if value is not None]
    return mean(told) if told else None


def _accepted(found: Sequence[TuningCell]) -> float | None:
    told = [cell.acceptance_length for cell in found if cell.acceptance_length is not None]
    return mean(told) if told else None


def _figures(cells: Cells, arm: str, off: str, clients: int, kind: str) -> list[str]:
    found = _of(cells, arm, clients, kind)
    speed, accepted = _speed(found), _accepted(found)
    over = gain(cells, arm, off, clients, [kind]) if arm != off else None
    return [
        "-" if speed is None else f"{speed:.1f}",
        "-" if over is None else percent(over.change),
        "-" if over is None else interval(over),
        "-" if accepted is None else f"{accepted:.2f}",
    ]


def interval(of: Gain) -> str:
    """``+38.2..+47.1``, in percent."""
    return figures.interval(*of.interval())


def notes(cells: Cells) -> list[str]:
    """What to know of the table, and of cells not to lean on."""
    told = [
        "Every prompt is new to the server; all arms get the same prompts, so changes are paired by prompt. The interval "
        "holds what rounds scatter by and that launches differ (taken to be 0.5 % until two launches show it)."
    ]
    if len(builds := sorted({cell.sglang for cell in cells.values() if cell.sglang})) > 1:
        told.append(
            f"Cells of several builds, not to be compared: SGLang {', '.join(builds)}. Name another --out."
        )
    for cell in cells.values():
        where = f"{cell.arm}, {cell.kind}, {times(cell.clients, 'client', 'clients')}"
        if cell.note:
            told.append(f"{where}: {cell.note}")
    return told


def csv_text(cells: Cells, off: str) -> str:
    """Every round in SI units, a line each, with the gain over off of its cell's place."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ["arm", "kind", "clients", "launch", "round", "tokens_per_s", "acceptance_length", "gain"]
    )
    for cell in sorted(cells.values(), key=lambda c: (c.kind, c.clients, c.arm, c.launch)):
        over = gain(cells, cell.arm, off, cell.clients, [cell.kind]) if cell.arm != off else None
        for number, value in enumerate(cell.tokens_per_s, 1):
            writer.writerow(
                [
                    *(cell.arm, cell.kind, cell.clients, cell.launch, number, value),
                    cell.acceptance_length,
                    over.change if over is not None else None,
                ]
            )
    return out.getvalue()
