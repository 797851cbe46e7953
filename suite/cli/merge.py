"""``python -m suite merge``: shards of one run joined, judged as one, and written as one run."""

from __future__ import annotations

import argparse
from pathlib import Path

from suite.cli import shared
from suite.cli.gate import rules_of
from suite.cluster import merge, whole
from suite.gate.status import BROKEN
from suite.report import summary
from suite.session.entries import OTHERS_FAILED
from suite.session.run_store import RunStore
from suite.terminal.looks import Looks


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``merge`` to the suite's commands."""
    text = "join the shards of one run and judge them as one run"
    parser = subparsers.add_parser("merge", help=text, description=text)
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="a shard's folder, or its id under --results; in any order"
    )
    shared.add_paths(parser, "--results", "--baselines", "--suite-config")
    parser.add_argument(
        "--alluredir",
        type=Path,
        metavar="DIR",
        help="write Allure results of the whole run here; the shards must have been run with --alluredir RESULTS/allure",
    )
    parser.add_argument(
        "--junitxml", type=Path, metavar="FILE", help="write all items as JUnit, as pytest does"
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Join, judge, write and print; the exit status is that of the whole run."""
    shards = [merge.read(run, arguments.results) for run in arguments.runs]
    return merged(shards, arguments)


def merged(shards: list[merge.ShardRun], arguments: argparse.Namespace) -> int:
    """The same for shards that are read already."""
    results: Path = arguments.results
    joined = merge.joined(shards)
    for shard in sorted(shards, key=lambda shard: shard.shard.number):
        complete, begun = merge.launches_of(shard)
        how = "" if shard.finished else ", not finished"
        print(
            f"{shard.shard}: {shard.folder}, on {shard.begun.host}, {complete} of {begun} launches complete{how}"
        )
        for line in [*([OTHERS_FAILED] if shard.others_failed else []), *shard.damage]:
            print(f"  {line}")
    for number in joined.missing:
        print(f"shard {number}/{shards[0].shard.of}: missing; nothing of it is judged")
    target = shards[0].begun.target
    rules = rules_of(_suite_config(shards[0], arguments.suite_config), target)
    store = RunStore(target, rules, results, arguments.baselines)
    found = whole.judged(joined, shards, results, store)
    whole.write(found, joined, shards, store, arguments.alluredir, arguments.junitxml)
    for line in [*found.memory.tables.lines(), *summary.of_run(found.ended, store.notes, Looks())]:
        print(line)
    for problem in store.problems:
        print(problem)
    print(f"\n{found.ended.judgement.sentence}")
    others_failed = any(shard.others_failed for shard in shards)
    return BROKEN if others_failed else store.status(found.ended.judgement)


def _suite_config(shard: merge.ShardRun, given: Path) -> Path:
    """The file that was named here, or that the shards were measured with, if it is here under the same name."""
    own = Path(str(shard.begun.options.get("suite_config", given)))
    return own if given == Path(shared.FOLDERS["--suite-config"][1]) and own.exists() else given
