"""Every command of ``python -m suite``, and what it may end by that is told in one sentence."""

from __future__ import annotations

import argparse
import re
from typing import NoReturn

from suite.cli import bisect as cli_bisect
from suite.cli import compare as cli_compare
from suite.cli import fleet as cli_fleet
from suite.cli import gate as cli_gate
from suite.cli import grid as cli_grid
from suite.cli import init as cli_init
from suite.cli import known_good as cli_known_good
from suite.cli import load as cli_load
from suite.cli import merge as cli_merge
from suite.cli import perf as cli_perf
from suite.cli import probe as cli_probe
from suite.cli import rehearse as cli_rehearse
from suite.cli import replay as cli_replay
from suite.cli import report as cli_report
from suite.cli import submit as cli_submit
from suite.cli import tune as cli_tune
from suite.cli import why as cli_why
from suite.cluster.slurm import SlurmError
from suite.config import ConfigError
from suite.config.errors import nearest
from suite.gate.errors import GateError
from suite.hosts.errors import HostError
from suite.load import LoadError
from suite.sglang.errors import ProbeError

EXPECTED = (ConfigError, GateError, HostError, LoadError, ProbeError, SlurmError, OSError)
"""What is told in one sentence, without a traceback."""


class _Commands(argparse.ArgumentParser):
    """Names the nearest command where a misspelt one is given."""

    def error(self, message: str) -> NoReturn:
        choices = [
            name
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name in action.choices or ()
        ]
        unknown = re.match(r"argument COMMAND: invalid choice: '(.*?)'", message)
        if unknown is not None:
            message = (
                f"no command {unknown[1]!r}{nearest(unknown[1], choices)}; `{self.prog} --help` lists them"
            )
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """All subcommands; each leaves the function that runs it in ``func``."""
    whole = _Commands(
        prog="python -m suite",
        description="Performance gate for SGLang servers. The gate itself is `pytest -m perf`; these commands support it.",
        epilog="Exit status 2: wrong arguments or files; else the command's own. Documentation: docs/README.md.",
    )
    commands = whole.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    cli_init.add_parser(commands)  # in the order in which one needs them
    cli_probe.add_doctor(commands)
    cli_rehearse.add_parser(commands)
    cli_perf.add_parser(commands)
    cli_gate.add_judge(commands)
    cli_compare.add_parser(commands)
    cli_report.add_parser(commands)
    cli_gate.add_baseline(commands)
    cli_gate.add_history(commands)
    cli_known_good.add_parser(commands)
    cli_bisect.add_parser(commands)
    cli_why.add_parser(commands)
    cli_grid.add_parser(commands)
    cli_tune.add_parser(commands)
    cli_replay.add_parser(commands)
    cli_load.add_parser(commands)
    cli_submit.add_parser(commands)
    cli_merge.add_parser(commands)
    cli_fleet.add_parser(commands)
    cli_probe.add_parsers(commands)
    return whole
