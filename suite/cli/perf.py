"""``python -m suite perf``: ``pytest -m perf`` on the scenarios wherever they are, in a checkout or installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from suite import packaged
from suite.cli import shared

NAME = "perf"
_TEXT = "run the scenarios: pytest -m perf with the arguments that follow, in this directory"


def add_parser(subparsers: shared.Subparsers) -> None:
    """Name ``perf`` among the suite's commands; its arguments are pytest's, and never parsed here."""
    subparsers.add_parser(NAME, help=_TEXT, description=_TEXT, add_help=False)


def command(arguments: Sequence[str], here: Path) -> list[str]:
    """The command line of pytest.

    Args:
        arguments: those of a person, for pytest; a leading ``--`` is dropped.
        here: the current directory, where ``suite.toml`` is.
    """
    given = list(arguments[1:] if arguments[:1] == ["--"] else arguments)
    words = [sys.executable, "-m", "pytest", "-m", "perf"]
    root = packaged.checkout()
    if root is not None and (here == root or root in here.parents):
        return [*words, *given]
    words += ["-c", str(packaged.INI), f"--rootdir={here}", "-p", "suite.plugin", *given]
    named = any(
        (here / word.partition("::")[0]).exists() and not word.startswith("-") for word in _paths(given)
    )
    return words if named else [*words, str(packaged.scenarios())]


def _paths(given: Sequence[str]) -> list[str]:
    """Words that name a file of tests: not the value of an option."""
    return [word for word in given if word.partition("::")[0].endswith(".py")]


def run(arguments: Sequence[str]) -> NoReturn:
    """Become pytest; its exit status is the run's."""
    words = command(arguments, Path.cwd().resolve())
    sys.stdout.flush()
    os.execv(words[0], words)
