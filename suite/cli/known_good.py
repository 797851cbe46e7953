"""``python -m suite known-good``: the last build that passed on a target, and the way back to it."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite import config
from suite.cli import shared
from suite.gate import known_good
from suite.rehearsal import recorded
from suite.rehearsal.preview import preview
from suite.sglang import builds


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``known-good`` to the suite's commands."""
    text = "the last build that passed on a target, and the commands that bring it back"
    parser = subparsers.add_parser("known-good", help=text, description=text)
    shared.add_target(parser)
    shared.add_paths(parser, "--suite-config", "--results")
    parser.add_argument(
        "--path", action="store_true", help="print only the path of the JSON file, for scripts"
    )
    parser.add_argument(
        "--rehearsals",
        type=Path,
        default=Path(recorded.FOLDER),
        metavar="DIR",
        help="folder of recorded rehearsals (default: %(default)s)",
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Say which build it is, what was found, and how to roll back to it."""
    target = arguments.target or config.load(arguments.suite_config).default_target
    known = known_good.load(arguments.results, target)
    if arguments.path:
        print(known_good.path_of(arguments.results, target))
        return 0
    print(f"known good on {target}: {known_good.name_of(known)}")
    print(f"run {known.run_id} of {known.started_at[:10]}: {known.sentence}")
    print("to roll back to it:")
    for line in known_good.way_back(known):
        print(f"  {line}")
    print(f"for scripts: {known_good.path_of(arguments.results, target)}")
    for line in _upgrade(arguments.rehearsals, known):
        print(line)
    return 0


def _upgrade(folder: Path, known: known_good.KnownGood) -> list[str]:
    """What the newest rehearsed release would change for this target, from recorded answers; empty where there are none."""
    there = recorded.of_target(folder, known.target)
    mine = builds.read(str(known.build["sglang"])).version
    newest = max(there, default=None)
    if mine not in there or newest is None or newest <= mine:
        return []
    lines = preview(recorded.read(there[mine]), recorded.read(there[newest])).lines()
    return [
        f"an upgrade to {newest} would change (rehearsed on pretended cards, see docs/rehearsal.md):",
        *(f"  {line}" for line in lines),
    ]
