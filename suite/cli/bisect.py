"""``python -m suite bisect``: which build between a good and a bad one brought a loss, with the gate as judge."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from suite import config
from suite.bisect import journal, row, told
from suite.bisect.journal import Search, Task
from suite.bisect.search import PATIENCE, Outcome, Step, search
from suite.bisect.sessions import Sessions
from suite.metrics.registry import METRICS, UnknownMetric, require_known

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

STATUS = {"found": 0, "no loss": 0, "range": 8, "undecided": 8, "contradiction": 8, "cannot start": 1}


def add_parser(subparsers: Subparsers) -> None:
    """Add ``bisect`` to the suite's commands."""
    text = "which build brought a loss: releases, nightlies, commits or a list, with the gate as judge"
    parser = subparsers.add_parser(
        "bisect",
        help=text,
        description=f"{text}. Status 0: told; 8: not to be told; 1: the bad end cannot start; 9 and others as of a session",
        epilog="what follows -- goes to pytest in every session: -- --budget upgrade --minutes 30",
    )
    parser.add_argument("--good", metavar="BUILD", help="a build that is as it should be")
    parser.add_argument("--bad", metavar="BUILD", help="a later one that lost")
    parser.add_argument(
        "--metric", metavar="NAME", default="output_tokens_per_s", help="default: %(default)s"
    )
    parser.add_argument("--arm", help="only of this arm (default: of the one that lost most)")
    parser.add_argument("--question", help="only of this question, as verdicts name it")
    parser.add_argument(
        "--builds", type=_names, default=[], metavar="A,B", help="the builds between, oldest first, by name"
    )
    parser.add_argument("--target", metavar="NAME", help="default: suite.toml's default_target")
    parser.add_argument(
        "--plan", action="store_true", help="say which builds lie between, and measure nothing"
    )
    parser.add_argument("--resume", type=Path, metavar="DIR", help="go on with the search in this folder")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR")
    parser.add_argument("--suite-config", type=Path, default=Path("suite.toml"), metavar="FILE")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help=argparse.SUPPRESS)
    parser.set_defaults(func=run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(arguments: argparse.Namespace) -> int:
    """Search, say each session as it ends, and the answer."""
    suite = config.load(arguments.suite_config)
    found, folder = _search(arguments, suite)
    builds = found.task.builds
    print(
        f"{len(builds)} builds from {builds[0]} to {builds[-1]}, about {_sessions(len(builds))} sessions of two builds"
    )
    if arguments.plan:
        print("\n".join(builds))
        return 0
    journal.save(folder, found)
    print(
        f"in {folder}; go on with it after an interruption: python -m suite bisect --resume {folder}",
        flush=True,
    )
    for step in found.steps:
        print(f"(before) {told.step_line(found, step)}")
    sessions = Sessions(
        found,
        folder.resolve(),
        suite.path.resolve().parent,
        suite.path.resolve(),
        lambda line: print(line, flush=True),
    )

    def keep(step: Step) -> None:
        found.steps.append(step)
        journal.save(folder, found)
        print(f"  {told.step_line(found, step)}", flush=True)

    outcome, _ = search(len(builds), sessions, tuple(found.steps), patience=PATIENCE, after=keep)
    return _end(found, outcome)


def _search(arguments: argparse.Namespace, suite: config.Suite) -> tuple[Search, Path]:
    """The search of the command line, or the one that is gone on with."""
    if arguments.resume is not None:
        return journal.load(arguments.resume), arguments.resume
    if not arguments.good or not arguments.bad:
        raise config.ConfigError("name --good and --bad, or --resume a search")
    try:
        require_known([arguments.metric])
    except UnknownMetric as error:
        raise config.ConfigError(f"--metric: {error}") from None
    known = METRICS[arguments.metric]
    if known.better == "neutral":
        raise config.ConfigError(f"--metric {known.name}: neither more nor less of it is a loss")
    target = suite.target(arguments.target)
    if arguments.arm is not None:
        target.arm(arguments.arm)
    task = Task(
        target.name,
        row.between(arguments.good, arguments.bad, arguments.builds, suite, target),
        known.name,
        arguments.question,
        arguments.arm,
        list(arguments.options),
    )
    name = f"bisect-{time.strftime('%Y%m%d-%H%M%S')}-{target.name}"
    return Search(task), arguments.results / name


def _sessions(builds: int) -> int:
    """The ends, each halving, and the build that is found against the one before it."""
    return 2 + (builds - 2).bit_length() if builds > 2 else 1


def _end(found: Search, outcome: Outcome) -> int:
    print()
    print("\n".join(told.outcome_lines(found, outcome)))
    return STATUS[outcome.ending]
