"""How much room the terminal has, whether it shows colours, and whether everything is to be unfolded."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from suite.foreign import printable
from suite.redact import scrub

WIDTH = 100
"""Columns that nothing of ours exceeds, and that are taken where there is no terminal."""


@dataclass(frozen=True, slots=True)
class Looks:
    """What the end of a run is written for.

    terminal: whether it is one: elsewhere a sentence stays one line, however long, to be found by ``grep``.
    """

    width: int = WIDTH
    colours: bool = False
    unfolded: bool = False
    terminal: bool = False

    @classmethod
    def of(cls, reporter: Any) -> Looks:
        """As pytest's reporter found it: ``NO_COLOR``, ``--color``, ``-v`` and the width of the terminal."""
        terminal = bool(reporter.isatty)
        return cls(
            width=min(WIDTH, reporter._tw.fullwidth) if terminal else WIDTH,
            colours=bool(reporter.hasmarkup),
            unfolded=reporter.config.get_verbosity() > 0,
            terminal=terminal,
        )

    def wrapped(self, lines: Iterable[str]) -> list[str]:
        """Sentences with nothing in them that no terminal should be sent, broken between words where they would be within."""
        told = [printable(scrub(line)) for line in lines]
        if not self.terminal:
            return told
        return [part for line in told for part in (wrap(line, self.width) or [""])]


def wrap(line: str, width: int) -> list[str]:
    """A line in parts that fit, each after the first indented."""
    indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.wrap(
        line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
