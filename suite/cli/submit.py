"""``python -m suite submit``: a plan's shards on a Slurm cluster, watched until one verdict is there."""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from suite import config, redact
from suite.cli import shared
from suite.cli.merge import merged
from suite.cluster.matrix import limit_minutes
from suite.cluster.script import Script
from suite.cluster.shards import Priced
from suite.cluster.slurm import NoAnswer, SlurmError
from suite.cluster.submission import FOLDER, Submission
from suite.cluster.watching import POLL_S, Watch
from suite.config import ConfigError
from suite.foreign import one_line
from suite.gate.status import INFRASTRUCTURE
from suite.session.stored_runs import own_directory
from suite.sglang.flags import parse_change
from suite.terminal.figures import times

OURS = (
    "--shard",
    "--shards",
    "--plan",
    "--format",
    "--results",
    "--resume",
    "--minutes",
    "--target",
    "--baselines",
    "--suite-config",
    "--alluredir",
    "--junitxml",
    "--junit-xml",
)
"""Options of pytest that this command sets itself."""
PLAN_LIMIT_S = 600
USAGE = 2


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``submit`` to the suite's commands."""
    text = "measure the shards of a plan on a Slurm cluster and judge them as one run"
    parser = subparsers.add_parser("submit", help=text, description=text)
    shared.add_target(parser)
    parser.add_argument("--nodes", type=int, default=2, metavar="N", help="nodes to use at once (default: 2)")
    parser.add_argument(
        "--shards", type=int, metavar="N", help="shards (default: one per node, if the plan has that many)"
    )
    parser.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="option for sbatch: --sbatch=--partition=gpu; may be repeated",
    )
    parser.add_argument(
        "--tries", type=int, default=3, metavar="N", help="submit a shard at most N times (default: 3)"
    )
    parser.add_argument(
        "--poll",
        type=float,
        default=POLL_S,
        metavar="S",
        help="seconds between looks at the queue (default: %(default)g)",
    )
    parser.add_argument("--detach", action="store_true", help="submit and do not wait")
    parser.add_argument("--write-only", action="store_true", help="write the script; submit nothing")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="DIR",
        help="continue an earlier submission: wait, submit failed shards again, merge",
    )
    shared.add_paths(parser, "--results", "--baselines", "--suite-config")
    parser.add_argument(
        "--alluredir", type=Path, metavar="DIR", help="write Allure results of the whole run here"
    )
    parser.add_argument("--junitxml", type=Path, metavar="FILE", help="all items of all shards as JUnit")
    parser.add_argument("options", nargs="*", metavar="-- OPTION", help="options of pytest -m perf, after --")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """Submit and watch; the exit status is that of the whole run, 130 after Ctrl-C."""
    if arguments.resume is not None:
        submission = Submission.load(arguments.resume)
        submission.sbatch += arguments.sbatch
    else:
        submission = _made(arguments)
        print(
            f"{submission.script}: {times(len(submission.shards), 'shard', 'shards')}, at most {submission.at_once} at once"
        )
        for shard in submission.shards:
            print(f"  shard {shard.shard}: about {shard.minutes:g} minutes, {', '.join(shard.arms)}")
        if arguments.write_only:
            print(
                f"submit it: sbatch {submission.script}; once it runs, follow and judge it: {_again(submission)}"
            )
            return 0
    again = _again(submission)
    watch = Watch(submission, _say, arguments.tries, arguments.poll)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if arguments.resume is None:
            print(f"submitted as job {submission.submit(submission.numbers).job}", flush=True)
        if arguments.detach:
            print(f"to watch it, submit again what fails, and judge it: {again}")
            return 0
        unfinished = watch.until_done()
    except SlurmError as error:
        if submission.job_numbers or arguments.resume is not None:
            raise
        shutil.rmtree(submission.folder)
        print(f"error: {error}; nothing was submitted", file=sys.stderr)
        return INFRASTRUCTURE if isinstance(error, NoAnswer) else USAGE
    except KeyboardInterrupt:
        return _cancelled(watch, again)
    for number in unfinished:
        print(
            f"shard {number}/{len(submission.shards)} was submitted {submission.tries(number)} times and did not finish; "
            f"its log: {submission.folder}/shard-{number}.log"
        )
    return _merged(submission, arguments)


def _again(submission: Submission) -> str:
    return f"python -m suite submit --resume {submission.folder}"


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def _cancelled(watch: Watch, again: str) -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _say("cancelling: servers go down, what was measured is kept")
    gone = watch.cancel()
    _say("all jobs are gone" if gone else "not all jobs are gone yet; look with squeue")
    _say(f"to go on where it stopped: {again}")
    return 130


def _merged(submission: Submission, arguments: argparse.Namespace) -> int:
    """Judge what there is as one run."""
    states = [submission.state(number) for number in submission.numbers]
    runs = [state.run for state in states if state.run is not None]
    if not runs:
        print(f"no shard has measured anything; see {submission.folder}/shard-1.log")
        return INFRASTRUCTURE
    return merged(runs, arguments)


def _made(arguments: argparse.Namespace) -> Submission:
    """Plan, cut, and write the script.

    Raises:
        ConfigError: the options do not go together, or the plan cannot be cut so.
    """
    for name in ("nodes", "shards", "tries"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: must be 1 or more")
    if arguments.poll <= 0:
        raise ConfigError(f"--poll {arguments.poll:g}: must be more than 0")
    suite = config.load(arguments.suite_config)
    target = suite.target(arguments.target)
    options = _options(arguments, target.name)
    plan = _plan(arguments, options)
    shards = [msgspec.convert(shard, Priced) for shard in plan["shards"]]
    results = arguments.results.resolve()
    folder = own_directory(results / FOLDER, f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{target.name}")
    submission = Submission(
        folder, target.name, options, shards, min(arguments.nodes, len(shards)), arguments.sbatch
    )
    submission.write(
        Script(
            folder=folder,
            root=Path.cwd(),
            python=sys.executable,
            target=target.name,
            options=options,
            shards=len(shards),
            at_once=submission.at_once,
            minutes=max(map(limit_minutes, shards)),
            gpus=target.gpus,
            allure=arguments.alluredir is not None,
        )
    )
    return submission


def _options(arguments: argparse.Namespace, target: str) -> list[str]:
    """The words for pytest, the same in every task."""
    for word in arguments.options:
        name = word.partition("=")[0]
        if name in OURS:
            raise ConfigError(f"{name}: this command sets it itself; leave it out after --")
        _refuse_secret(word)
    if any(
        one == "--flag" and _is_secret(two)
        for one, two in zip(arguments.options, arguments.options[1:], strict=False)
    ):
        raise ConfigError(SECRET)
    return [
        *("-m", "perf", f"--target={target}"),
        f"--suite-config={arguments.suite_config.resolve()}",
        f"--baselines={arguments.baselines.resolve()}",
        *arguments.options,
    ]


SECRET = (
    "a secret after -- would stand in the job's script for all to read: put it into a variable of the environment, "
    "and name that in suite.toml"
)


def _refuse_secret(word: str) -> None:
    if word.startswith("--flag=") and _is_secret(word.removeprefix("--flag=")):
        raise ConfigError(SECRET)


def _is_secret(change: str) -> bool:
    name, _ = parse_change(change)
    return redact.is_secret(name)


def _plan(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """What ``--plan --format json`` says: of as many shards as there are nodes, or as the plan can be cut into."""
    wanted = arguments.shards or arguments.nodes
    said = _asked([*options, f"--shards={wanted}"], arguments.results)
    if said.returncode and arguments.shards is None and "can be measured apart" in said.stderr:
        said = _asked(options, arguments.results)
    if said.returncode:
        told = [line for line in said.stderr.splitlines() if line.startswith("ERROR: ")]
        raise ConfigError(told[-1].removeprefix("ERROR: ") if told else one_line(said.stderr[-400:], 400))
    plan: dict[str, Any] = json.loads(said.stdout)
    return plan


def _asked(options: Sequence[str], results: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        *options,
        f"--results={results.resolve()}",
        "--plan",
        "--format=json",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=PLAN_LIMIT_S, check=False)
