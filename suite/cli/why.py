"""``python -m suite why``: which part of a decoding step grew from one build to another, and which kernels."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from suite import builds, config
from suite.cli import shared
from suite.gate import known_good
from suite.servers import LaunchFailed
from suite.traces import why
from suite.traces.compare import FEWEST_STEPS, StepDifference
from suite.traces.told import lines

MOST_STEPS = 500


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``why`` to the suite's commands."""
    text = "profile two builds with SGLang's own profiler: which part of a decode step got slower, and which kernels"
    parser = subparsers.add_parser(
        "why", help=text, description=f"{text}. Exit status 0: compared; 9: a build did not start"
    )
    parser.add_argument("--reference", metavar="BUILD", help="the faster build")
    parser.add_argument("--candidate", metavar="BUILD", help="the slower build")
    parser.add_argument(
        "--traces",
        nargs=2,
        type=Path,
        metavar=("OLD", "NEW"),
        help="instead of builds: two traces that /start_profile wrote",
    )
    shared.add_target(parser)
    parser.add_argument("--arm", default="mtp-on", metavar="ARM", help="arm to launch (default: mtp-on)")
    parser.add_argument(
        "--steps",
        type=_steps,
        default=why.STEPS,
        metavar="N",
        help=f"decode steps to profile of each build (default: {why.STEPS})",
    )
    parser.add_argument("--clients", type=int, default=1, metavar="N", help="concurrent clients (default: 1)")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder to write to (default: results/why-DATE-TARGET)"
    )
    shared.add_paths(parser, "--results", "--suite-config")
    parser.set_defaults(func=run)


def _steps(text: str) -> int:
    if not text.isdecimal() or not FEWEST_STEPS <= int(text[:9]) <= MOST_STEPS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected {FEWEST_STEPS} to {MOST_STEPS} steps")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Profile and tell, or tell of two files."""
    if arguments.traces:
        old, new = arguments.traces
        _print(why.explain_files(old, new, arguments.out))
        return 0
    if not arguments.reference or not arguments.candidate:
        raise config.ConfigError(
            "name both builds with --reference and --candidate, or two files with --traces"
        )
    if arguments.clients < 1:
        raise config.ConfigError(f"--clients {arguments.clients}: must be 1 or more")
    suite = config.load(arguments.suite_config)
    target = suite.target(arguments.target)
    target.arm(arguments.arm)
    folder = arguments.out or arguments.results / f"why-{time.strftime('%Y%m%d-%H%M%S')}-{target.name}"
    named = {
        name: builds.resolve(
            text,
            suite,
            target,
            _say,
            lambda: known_good.build_of(known_good.load(arguments.results, target.name)),
        )
        for name, text in ((why.REFERENCE, arguments.reference), (why.CANDIDATE, arguments.candidate))
    }
    asked = why.ProfileRequest(
        suite, target, arguments.arm, folder, arguments.steps, arguments.clients, _say, _say
    )
    try:
        _print(why.explain(asked, named))
    except LaunchFailed as error:
        print(f"nothing to compare: {error}", file=sys.stderr)
        return 9
    print(
        f"\nin {folder}: {why.SAID_FILE}, {why.TABLE_FILE}, and both traces (https://ui.perfetto.dev opens them)"
    )
    return 0


def _print(found: StepDifference) -> None:
    print("\n".join(lines(found)))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
