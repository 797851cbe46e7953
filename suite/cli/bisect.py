"""``python -m suite bisect``: which build between a good and a bad one brought a loss, with the gate as judge."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from suite import builds, config
from suite.bisect import journal, row, swaps, told
from suite.bisect.journal import Search, Task
from suite.bisect.search import PATIENCE, SearchResult, Step, search, search_each
from suite.bisect.sessions import Sessions
from suite.cli import shared
from suite.metrics.registry import METRICS, UnknownMetric, require_known

STATUS = {"found": 0, "no loss": 0, "range": 8, "undecided": 8, "contradiction": 8, "cannot start": 1}


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``bisect`` to the suite's commands."""
    text = (
        "find the build that brought a regression: releases, nightlies, commits or a list, judged by the gate"
    )
    parser = subparsers.add_parser(
        "bisect",
        help=text,
        description=f"{text}. Exit status 0: found; 8: cannot be told; 1: the bad build does not start; others as of a run",
        epilog="Options after -- go to pytest in every session: -- --budget upgrade --minutes 30",
    )
    parser.add_argument("--good", metavar="BUILD", help="a build without the regression")
    parser.add_argument("--bad", metavar="BUILD", help="a later build with it")
    parser.add_argument(
        "--metric",
        metavar="NAME",
        default="output_tokens_per_s",
        help="metric that regressed (default: %(default)s)",
    )
    parser.add_argument(
        "--arm", metavar="ARM", help="look at this arm only (default: the one that lost most)"
    )
    parser.add_argument(
        "--question",
        metavar="NAME",
        help="look at this scenario only, as verdicts name it: decode_throughput[c1]",
    )
    parser.add_argument(
        "--builds",
        type=_names,
        default=[],
        metavar="A,B",
        help="builds between the two, oldest first (default: found in the index or the checkout)",
    )
    parser.add_argument(
        "--swap",
        type=_names,
        nargs="?",
        const=[],
        metavar="PACKAGES",
        help="try packages instead of builds: the bad build with one package of the good build at a time (torch,triton==3.5.0; "
        "default: every package that differs and bears on speed)",
    )
    shared.add_target(parser)
    parser.add_argument("--plan", action="store_true", help="list the builds between; measure nothing")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="continue the search in this folder")
    shared.add_paths(parser, "--results", "--suite-config")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help=argparse.SUPPRESS)
    parser.set_defaults(func=run)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(arguments: argparse.Namespace) -> int:
    """Search, say each session as it ends, and the answer."""
    suite = config.load(arguments.suite_config)
    found, folder = _search(arguments, suite)
    row_ = found.task.builds
    print(
        f"{len(row_)} builds from {row_[0]} to {row_[-1]}, about {_sessions(found.task)} sessions of two builds"
    )
    if arguments.plan:
        print("\n".join(row_))
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
        Path.cwd(),
        suite.path.resolve(),
        lambda line: print(line, flush=True),
    )

    def keep(step: Step) -> None:
        found.steps.append(step)
        journal.save(folder, found)
        print(f"  {told.step_line(found, step)}", flush=True)

    before = tuple(found.steps)
    if found.task.swap:
        words, _ = search_each(len(row_), sessions, before, patience=PATIENCE, after=keep)
        print("\n" + "\n".join(swaps.outcome_lines(found, words)))
        return 0
    outcome, _ = search(len(row_), sessions, before, patience=PATIENCE, after=keep)
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
        _row(arguments, suite, target),
        known.name,
        arguments.question,
        arguments.arm,
        list(arguments.options),
        arguments.swap is not None,
    )
    name = f"bisect-{time.strftime('%Y%m%d-%H%M%S')}-{target.name}"
    return Search(task), arguments.results / name


def _row(arguments: argparse.Namespace, suite: config.Suite, target: config.Target) -> list[str]:
    """The builds, the good one first, the bad one last."""
    good, bad = arguments.good, arguments.bad
    if arguments.swap is None:
        return row.between(good, bad, arguments.builds, suite, target)
    if arguments.builds:
        raise config.ConfigError("--swap judges the bad build with other packages, and no --builds between")
    old, new = (
        builds.resolve(text, suite, target, lambda line: print(line, flush=True)) for text in (good, bad)
    )
    return swaps.row(good, bad, old, new, arguments.swap)


def _sessions(task: Task) -> int:
    """The ends, each halving, and the build that is found against the one before it; of a swap each package once."""
    between = len(task.builds) - 2
    if task.swap:
        return 1 + between
    return 2 + between.bit_length() if between else 1


def _end(found: Search, outcome: SearchResult) -> int:
    print()
    print("\n".join(told.outcome_lines(found, outcome)))
    return STATUS[outcome.ending]
