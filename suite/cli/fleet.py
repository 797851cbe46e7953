"""``python -m suite fleet``: runs of several boxes of one kind beside each other: which is the odd one out."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.cli import shared
from suite.cli.gate import rules_of
from suite.cluster import fleet_page
from suite.cluster.fleet import Box, compare
from suite.gate import Facts, GateError
from suite.session import journal, stored_runs
from suite.session.entries import Begun


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``fleet`` to the suite's commands."""
    text = "compare several boxes of one kind and build, and find the odd one out"
    parser = subparsers.add_parser("fleet", help=text, description=text)
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="[NAME=]RUN",
        help="a run on one box; runs of the same host, or of the same NAME, are one box",
    )
    shared.add_paths(parser, "--results", "--suite-config")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the comparison as markdown")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Compare and print; status 1 if a box stands apart, 8 if that cannot be told."""
    boxes: dict[str, Box] = {}
    for word in arguments.runs:
        box = _box(word, arguments.results)
        known = boxes.get(box.name)
        boxes[box.name] = Box(box.name, box.facts, [*known.sessions, *box.sessions]) if known else box
    there = list(boxes.values())
    fleet = compare(there, rules_of(arguments.suite_config, there[0].sessions[0].target))
    for line in fleet_page.lines(fleet):
        print(line)
    if arguments.page is not None:
        arguments.page.write_text("\n\n".join(fleet_page.page(fleet)) + "\n", encoding="utf-8")
    return fleet_page.status(fleet)


def _box(word: str, results: Path) -> Box:
    """A run by its path or id, with the name of its box where one is given."""
    name, equals, run = word.partition("=")
    if not equals or "/" in name:
        name, run = "", word
    stored = stored_runs.load(run, results)
    for note in stored.notes:
        print(f"note: {run}: {note}")
    facts = stored.session.environment
    if "hosts" in facts:
        raise GateError(f"{run} was measured on several boxes ({facts['hosts']}): give a run of each")
    return Box(name or str(facts.get("host") or _host(stored.folder)), _shown(facts), [stored.session])


def _host(folder: Path) -> str:
    """The machine that measured a run whose box told nothing."""
    path = folder / journal.NAME
    begun = journal.read(path).begun if path.exists() else None
    return begun.host if isinstance(begun, Begun) and begun.host else folder.name


def _shown(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if name != "host"}
