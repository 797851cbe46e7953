"""A grid as people and other programs read it: markdown, CSV, and a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from suite.grid.cells import Cell, speedup
from suite.terminal import markdown as md
from suite.terminal.figures import number, times

Cells = Mapping[tuple[str, int, int], Cell]
HEAD = (
    "context", "clients", "arm", "tokens/s per user", "tokens/s in all", "TTFT", "acceptance length",
    "speed-up",
)  # fmt: skip
RIGHT = (1, *range(3, len(HEAD)))
TELLING_CACHE = 0.01


def in_order(cells: Cells, arms: Sequence[str]) -> list[Cell]:
    """By context, clients, then arm in the order of the target."""
    place = {arm: index for index, arm in enumerate(arms)}
    return sorted(cells.values(), key=lambda c: (c.context, c.clients, place.get(c.arm, len(place)), c.arm))


def markdown(cells: Cells, arms: Sequence[str], title: str) -> str:
    """The table with its notes; paste it anywhere."""
    ordered = in_order(cells, arms)
    rows = [_row(cells, cell, arms[0]) for cell in ordered]
    lines = [f"**{title}**", "", *md.table(HEAD, rows, right=RIGHT)]
    return "\n".join([*lines, "", *_notes(ordered)]) + "\n"


def _row(cells: Cells, cell: Cell, off: str) -> list[str]:
    faster = speedup(cells, cell, off)
    return [
        "natural" if cell.context == 0 else f"{cell.context:,}",
        str(cell.clients),
        cell.arm,
        _figure(cell.tokens_per_s_user),
        _figure(cell.tokens_per_s),
        number(cell.ttft_s, "s"),
        "-" if cell.acceptance_length is None else f"{cell.acceptance_length:.2f}",
        "-" if faster is None else f"{faster:.2f}x",
    ]


def cell_name(arm: str, context: int, clients: int) -> str:
    """``mtp-on, context 1024, 4 clients``."""
    return f"{arm}, context {context or 'natural'}, {times(clients, 'client', 'clients')}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _notes(cells: Iterable[Cell]) -> list[str]:
    notes = [
        "Every prompt is new to the server. Per user: one stream while it runs (1 / TPOT). TTFT: median."
    ]
    told = list(cells)
    if len(builds := sorted({cell.sglang for cell in told if cell.sglang})) > 1:
        notes.append(
            f"Cells of several builds, not to be compared: SGLang {', '.join(builds)}. Name another --out."
        )
    for cell in told:
        where = cell_name(cell.arm, cell.context, cell.clients)
        if cell.cached > TELLING_CACHE:
            notes.append(
                f"{where}: {cell.cached:.0%} of the prompt came from the prefix cache all the same: TTFT flatters."
            )
        if cell.failed:
            notes.append(f"{where}: {cell.failed} of {cell.requests} requests failed.")
        if cell.note:
            notes.append(f"{where}: {cell.note}")
    return [f"- {note}" for note in notes]


def csv_text(cells: Cells, arms: Sequence[str]) -> str:
    """All figures in SI units, one line per cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = [name for name in Cell.__struct_fields__ if name != "note"]
    writer.writerow([*fields, "speedup"])
    for cell in in_order(cells, arms):
        writer.writerow([*(getattr(cell, name) for name in fields), speedup(cells, cell, arms[0])])
    return out.getvalue()


def picture(cells: Cells, arms: Sequence[str], title: str, path: Path) -> bool:
    """Tokens/s per user and in all by clients, a line per arm and context. ``False`` where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(9, 4), layout="constrained")
    per_user, in_all = figure.subplots(1, 2)
    lines: dict[tuple[str, int], list[Cell]] = {}
    for cell in in_order(cells, arms):
        lines.setdefault((cell.arm, cell.context), []).append(cell)
    for (arm, context), row in lines.items():
        label = f"{arm}, {'natural prompts' if context == 0 else f'{context:,} tokens'}"
        style = {"label": label, "marker": "o", "linestyle": "-" if arm == arms[0] else "--"}
        told = [cell for cell in row if cell.tokens_per_s is not None and cell.tokens_per_s_user is not None]
        per_user.plot([c.clients for c in told], [c.tokens_per_s_user or 0 for c in told], **style)
        in_all.plot([c.clients for c in told], [c.tokens_per_s or 0 for c in told], **style)
    clients = sorted({cell.clients for cell in cells.values()})
    for axes, name in ((per_user, "tokens/s per user"), (in_all, "tokens/s in all")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(clients, [str(count) for count in clients])
        axes.minorticks_off()
        axes.set_xlabel("clients")
        axes.set_ylabel(name)
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    in_all.legend(frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=120)
    return True
