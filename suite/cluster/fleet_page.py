"""Boxes side by side as text: a table of boxes, a plot of their figures, and in a sentence which is the odd one out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from string import ascii_lowercase

from suite.cluster.fleet import FEWEST, Fleet, FleetFigure
from suite.gate.status import BROKEN, GOOD, UNDECIDED
from suite.terminal import table as tables
from suite.terminal.figures import percent, times

WIDTH = 41
LEAST_REACH = 0.02
BESIDE = 6
"""Boxes that are told beside each other; of more, which have what."""
SHOWN = 60
"""Characters of a fact's value that a table shows."""


def status(fleet: Fleet) -> int:
    """0: all are alike; 1: at least one stands apart; 8: it cannot be told."""
    if fleet.odd:
        return BROKEN
    return GOOD if len(fleet.boxes) >= FEWEST and fleet.figures else UNDECIDED


def sentence(fleet: Fleet) -> str:
    """Which box is the odd one out, by how much, and in what else it differs."""
    boxes = fleet.boxes
    if not fleet.figures:
        return "CANNOT TELL: no figure was measured on two of these boxes alike"
    if len(boxes) < FEWEST:
        told = times(len(boxes), "box", "boxes")
        return f"CANNOT TELL: {told}; at least {FEWEST} are needed to find the odd one out"
    if not fleet.odd:
        return f"ALIKE: {len(boxes)} boxes, {len(fleet.figures)} figures, none apart from the others beyond its margin"
    if 2 * len(fleet.odd) >= len(boxes):
        names = ", ".join(boxes[box].name for box in fleet.odd)
        return f"NO COMMON LEVEL: {len(fleet.odd)} of {len(boxes)} boxes stand apart: {names}"
    return "ODD: " + "; ".join(_odd(fleet, box) for box in fleet.odd)


def _odd(fleet: Fleet, box: int) -> str:
    apart = fleet.apart(box)
    worse = [figure for figure in apart if figure.worse(box)]
    told = []
    for figures, word in ((worse, "worse"), ([f for f in apart if f not in worse], "better")):
        if figures:
            most = max(figures, key=lambda figure: abs(figure.change[box] or 0.0))
            told.append(
                f"{len(figures)} of {len(fleet.figures)} figures {word}, most {_named(most)} {percent(most.change[box])}"
            )
    own = fleet.own(box)
    if own:
        facts = [f"{name} ({its}, the others {theirs})" for name, (its, theirs) in own.items()]
        told.append(f"it differs in {' and '.join(facts)}")
    return f"{fleet.boxes[box].name}: {'; '.join(told)}"


def lines(fleet: Fleet) -> list[str]:
    """Everything, the sentence last."""
    return [
        *table(fleet),
        "",
        *plot(fleet),
        "",
        *facts(fleet),
        *fleet.left_out,
        sentence(fleet),
    ]


def table(fleet: Fleet) -> list[str]:
    """A row a box: how it stands to the median of all, and its cards' clock."""
    head = ("", "box", "figures", "apart", "worse by, median", "worst", "", "SM clock")
    rows = []
    for place, box in enumerate(fleet.boxes):
        there = [figure for figure in fleet.figures if figure.change[place] is not None]
        losses = [(figure.change[place] or 0.0) * figure.rule.sign for figure in there]
        worst = max(there, key=lambda f: (f.change[place] or 0.0) * f.rule.sign, default=None)
        clock = _clock(fleet, place)
        rows.append(
            (
                letter(fleet, place),
                box.name,
                str(len(there)),
                str(len(fleet.apart(place))),
                percent(median(losses)) if losses else "-",
                percent(worst.change[place]) if worst is not None else "-",
                _named(worst) if worst is not None else "",
                f"{clock:.0f} MHz" if clock else "-",
            )
        )
    return tables.lines(head, rows, right=(2, 3, 4, 5, 7))


def _clock(fleet: Fleet, place: int) -> float:
    clocks = [
        launch.clocks["sm_clock_mhz"]
        for session in fleet.boxes[place].sessions
        for series in session.series
        for launch in series.launches
        if "sm_clock_mhz" in launch.clocks
    ]
    return median(clocks) if clocks else 0.0


def plot(fleet: Fleet) -> list[str]:
    """A line a figure, a letter a box, on one scale around the median; to the right is worse, colons are the margin.

    A capital letter stands apart; where several boxes are at one place there is a figure: how many.
    """
    if not fleet.figures or len(fleet.boxes) < 2:
        return []
    changes = [abs(change) for figure in fleet.figures for change in figure.change if change is not None]
    reach = max(LEAST_REACH, *(1.2 * figure.rule.margin for figure in fleet.figures), *changes)
    names = [_named(figure) for figure in fleet.figures]
    width = min(max(map(len, names)), 60)
    drawn = [
        f"{name[:width]:<{width}} {_row(fleet, figure, reach)}"
        for name, figure in zip(names, fleet.figures, strict=True)
    ]
    scale = (
        f"{'':<{width}} {'better ' + percent(reach):<{WIDTH // 2}}|{percent(reach) + ' worse':>{WIDTH // 2}}"
    )
    return [*drawn, scale.replace("+", "")]


def _row(fleet: Fleet, figure: FleetFigure, reach: float) -> str:
    half = WIDTH // 2

    def column(change: float) -> int:
        return half + max(-half, min(half, round(change * figure.rule.sign / reach * half)))

    row = [" "] * WIDTH
    for at in (-figure.rule.margin, figure.rule.margin):
        row[column(at)] = ":"
    row[half] = "|"
    at_place: dict[int, list[int]] = {}
    for box, change in enumerate(figure.change):
        if change is not None:
            at_place.setdefault(column(change), []).append(box)
    for place, boxes in at_place.items():
        shown = letter(fleet, boxes[0])
        row[place] = (
            (shown.upper() if figure.apart[boxes[0]] else shown) if len(boxes) == 1 else _count(boxes)
        )
    return "".join(row)


def _count(boxes: Sequence[int]) -> str:
    return str(len(boxes)) if len(boxes) < 10 else "*"


def letter(fleet: Fleet, box: int) -> str:
    """By which a box is drawn; where there are more boxes than letters, those that stand apart have theirs, others a dot."""
    order = list(range(len(fleet.boxes))) if len(fleet.boxes) <= len(ascii_lowercase) else fleet.odd
    place = order.index(box) if box in order else len(ascii_lowercase)
    return ascii_lowercase[place] if place < len(ascii_lowercase) else "."


def facts(fleet: Fleet) -> list[str]:
    """What not all boxes have alike."""
    if not fleet.differing:
        return ["no difference between the boxes is recorded", ""]
    if len(fleet.boxes) > BESIDE:
        return [*(_by_value(fleet, name, values) for name, values in fleet.differing.items()), ""]
    head = ("differs", *(box.name for box in fleet.boxes))
    rows = [(name, *(value[:SHOWN] for value in values)) for name, values in fleet.differing.items()]
    return [*tables.lines(head, rows), ""]


def _by_value(fleet: Fleet, name: str, values: Sequence[str]) -> str:
    """A fact with the boxes that have each value, the most frequent value first."""
    boxes: dict[str, list[str]] = {}
    for box, value in zip(fleet.boxes, values, strict=True):
        boxes.setdefault(value, []).append(box.name)
    told = [
        f"{value[:SHOWN]} ({', '.join(names) if len(names) <= BESIDE else f'{len(names)} boxes'})"
        for value, names in sorted(boxes.items(), key=lambda pair: -len(pair[1]))
    ]
    return f"{name}: {'; '.join(told)}"


def _named(figure: FleetFigure) -> str:
    return f"{figure.key.question} {figure.key.arm} {figure.rule.label}"


def page(fleet: Fleet) -> Iterator[str]:
    """The same as a page of markdown."""
    yield f"## {sentence(fleet)}"
    for part in (table(fleet), plot(fleet), facts(fleet)):
        yield "```\n" + "\n".join(part) + "\n```"
