"""What was tried and what it ended as, in docs/reliability.md: checked line by line, or rewritten.

``REWRITE_SCOREBOARD=1 pytest tests -k hostile`` rewrites the tables of the doors that it ran.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
REWRITE = bool(os.environ.get("REWRITE_SCOREBOARD"))

_lines: dict[str, dict[str, str]] = {}


def _mark(door: str) -> tuple[str, str]:
    return f"<!-- tried: {door} -->", "<!-- end -->"


def table(door: str, lines: dict[str, str]) -> str:
    """The table of one door as it stands in the page."""
    begin, end = _mark(door)
    rows = "".join(f"| {tried} | {ends} |\n" for tried, ends in sorted(lines.items()))
    return f"{begin}\n| tried | ends as |\n|---|---|\n{rows}{end}"


@pytest.fixture
def ends_as(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str, str], None]]:
    """``ends_as(door, tried, end)``: to be called once a test has seen that it does."""
    noted: list[tuple[str, str, str]] = []
    yield lambda door, tried, end: noted.append((door, tried, end))
    for door, tried, end in noted:
        _lines.setdefault(door, {})[tried] = end
        if not REWRITE:
            assert f"| {tried} | {end} |\n" in PAGE.read_text(encoding="utf-8"), (
                f"docs/reliability.md does not say so: {tried} | {end}; "
                "run REWRITE_SCOREBOARD=1 pytest tests -k hostile"
            )


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path], None]]:
    """``small_disk(directory)``: 2 MB of room there, and no more. Skips, saying why, where nothing may be mounted."""
    mounted: list[Path] = []

    def mount(directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"no small disk can be mounted here: {getattr(error, 'stderr', '') or error}")
        mounted.append(directory)

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def _rows(text: str) -> dict[str, str]:
    rows = [line.strip("| ").partition(" | ") for line in text.splitlines()[3:] if line.startswith("|")]
    return {tried: ends for tried, _, ends in rows}


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not REWRITE or session.testsfailed:
        return
    text = PAGE.read_text(encoding="utf-8")
    for door, lines in sorted(_lines.items()):
        begin, end = _mark(door)
        if begin in text:
            before, _, rest = text.partition(begin)
            old, _, after = rest.partition(end)
            if session.config.option.keyword != "hostile":  # only some were tried: the others' lines stay
                lines = {**_rows(old), **lines}
            text = before + table(door, lines) + after
        else:
            text = f"{text.rstrip()}\n\n### {door}\n\n{table(door, lines)}\n"
    PAGE.write_text(text, encoding="utf-8")
