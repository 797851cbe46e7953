"""Where the scenarios are: in a checkout beside this package, else among the files that its wheel installed."""

from __future__ import annotations

import site
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

DISTRIBUTION = "sglang-perf-gate"
_PLACE = ("share", DISTRIBUTION, "scenarios")
INI = Path(__file__).with_name("perf.ini")
"""pytest's settings for scenarios outside of a checkout; a checkout has its own in pyproject.toml."""


def checkout() -> Path | None:
    """The checkout that this package is part of; ``None`` where a wheel installed it."""
    root = Path(__file__).resolve().parents[1]
    return root if (root / "suite.toml").is_file() and (root / "scenarios").is_dir() else None


def scenarios() -> Path:
    """The folder of the scenarios.

    Raises:
        FileNotFoundError: they were not installed with this package.
    """
    if (root := checkout()) is not None:
        return root / "scenarios"
    for folder in _candidates():
        if folder.is_dir():
            return folder.resolve()
    raise FileNotFoundError(
        f"the scenarios were not installed with {DISTRIBUTION}: install its wheel whole, or work in a checkout"
    )


def _candidates() -> Iterator[Path]:
    try:
        files = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if tuple(file.parts[-4:-1]) == _PLACE:
            yield Path(str(file.locate())).parent
    here = Path(__file__).resolve().parents[1]
    for base in (sys.prefix, site.getuserbase(), here):
        yield Path(base).joinpath(*_PLACE)
