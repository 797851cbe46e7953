"""``python -m suite rehearse``: what genuine SGLang would make of a target's arms, without its cards."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from suite import config
from suite.builds import environments
from suite.builds.spec import is_release
from suite.cli import shared
from suite.rehearsal import builds, recorded
from suite.rehearsal.answers import Rehearsal
from suite.rehearsal.cards import known
from suite.rehearsal.preview import Preview, preview, used_flags
from suite.rehearsal.rehearse import cards_for, rehearse
from suite.rehearsal.told import told


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``rehearse`` to the suite's commands."""
    text = "what SGLang resolves the arms of a target to, on pretended GPUs"
    parser = subparsers.add_parser(
        "rehearse",
        help=text,
        description=f"{text}; no launch, no weights. Exit status 1: an arm would be refused, or MTP would not be off or on as the arm "
        "says; 8: cannot be decided without the machine",
    )
    shared.add_target(parser)
    parser.add_argument(
        "--cards",
        metavar="NAMExCOUNT",
        help=f"GPUs to pretend: {', '.join(known())}; none: this machine as it is (default: the host's own, or the "
        "target's cards)",
    )
    parser.add_argument(
        "--build",
        action="append",
        default=[],
        metavar="BUILD",
        help="an interpreter here, or a release (0.5.23), which is installed; repeat it to see what each upgrade changes "
        "(default: the target's own)",
    )
    parser.add_argument(
        "--newest", action="store_true", help="without --build: the newest release of the package index"
    )
    parser.add_argument("--arm", action="append", metavar="ARM", help="only this arm (may be repeated)")
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"store the result under {recorded.FOLDER}/ and compare with the release before",
    )
    parser.add_argument("--json", action="store_true", help="write JSON")
    shared.add_paths(parser, "--suite-config")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Rehearse, print what came of it, and say by the status whether an arm would fail."""
    suite = config.load(arguments.suite_config)
    target, directory = suite.target(arguments.target), suite.path.resolve().parent
    named = arguments.build or ([environments.newest()] if arguments.newest else [])
    used = used_flags(target.arm_flags(arm) for arm in target.arms.values())
    made: list[Rehearsal] = []
    with builds.opened(suite, target, named, _say) as opened:
        for build in opened:
            cards = cards_for(target, build.runtime, arguments.cards)
            made.append(rehearse(directory, target, build, cards, arguments.arm))
            if not arguments.json:
                print("\n".join(told(made[-1], heading=len(made) == 1)), flush=True)
    previews = [preview(old, new, used) for old, new in pairwise(made)]
    if arguments.record:
        previews = [*_recorded(directory / recorded.FOLDER, made, used), *previews]
    if arguments.json:
        print(msgspec.json.encode({"rehearsals": made, "previews": previews}).decode())
    else:
        for each in previews:
            _print(each)
    return _status(made)


def _status(made: Sequence[Rehearsal]) -> int:
    statuses = [rehearsal.status for rehearsal in made]
    return 1 if 1 in statuses else max(statuses, default=0)


def _recorded(folder: Path, made: Sequence[Rehearsal], used: list[str]) -> list[Preview]:
    """Keep the answers of releases; the upgrade from the last recorded release to each."""
    found = []
    for rehearsal in made:
        if not is_release(rehearsal.build):
            _say(f"{rehearsal.build} is not a release: its answers are not recorded")
            continue
        if any(answer.word == "failed" for answer in rehearsal.arms.values()):
            _say(f"SGLang {rehearsal.build} could not be rehearsed whole: its answers are not recorded")
            continue
        before = recorded.last_before(folder, rehearsal.target, rehearsal.build)
        if before is not None and before.build not in {other.build for other in made}:
            found.append(preview(before, rehearsal, used))
        path = recorded.place(folder, rehearsal.target, rehearsal.build)
        old = recorded.read(path) if path.exists() else None
        if old is not None:
            _say(_beside(old, rehearsal, path))
        if old is None or not _as_recorded(old, rehearsal):
            recorded.write(rehearsal, path)
    return found


def _as_recorded(old: Rehearsal, new: Rehearsal) -> bool:
    alike = old.arms.keys() == new.arms.keys() and (old.flags, old.defaults) == (new.flags, new.defaults)
    return alike and all(recorded.same(old.arms[arm], new.arms[arm]) for arm in new.arms)


def _beside(old: Rehearsal, new: Rehearsal, path: Path) -> str:
    """Does a release still answer as it was recorded? It should: another answer means other arms, cards or packages."""
    shared = [arm for arm in new.arms if arm in old.arms]
    other = [arm for arm in shared if not recorded.same(old.arms[arm], new.arms[arm])]
    if not other:
        return f"{path.name}: as recorded, {len(shared)} arms"
    lines = preview(old, new).lines()
    return f"{path.name}: recorded again; other answers for {', '.join(other)}: {'; '.join(lines[:6])}"


def _print(each: Preview) -> None:
    print(f"\nFrom SGLang {each.old} to {each.new}, for these command lines:")
    for line in each.lines():
        print(f"  {line}")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
