"""Options that several commands have, each worded once."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

FOLDERS = {
    "--suite-config": ("FILE", "suite.toml", "configuration file"),
    "--results": ("DIR", "results", "folder of stored runs"),
    "--baselines": ("DIR", "baselines", "folder of baselines"),
}
"""Option, placeholder, default, meaning."""


def add_target(parser: argparse.ArgumentParser, otherwise: str = "default_target of suite.toml") -> None:
    """``--target``; ``otherwise`` says which it is where none is named."""
    parser.add_argument("--target", metavar="NAME", help=f"a target of suite.toml (default: {otherwise})")


def add_paths(parser: argparse.ArgumentParser, *names: str) -> None:
    """The named options of FOLDERS."""
    for name in names:
        placeholder, default, meaning = FOLDERS[name]
        parser.add_argument(
            name,
            type=Path,
            default=Path(default),
            metavar=placeholder,
            help=f"{meaning} (default: {default})",
        )
