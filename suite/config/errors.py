"""How a fault of ``suite.toml`` is told."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


class ConfigError(Exception):
    """``suite.toml`` cannot be used; the text says which file, table and key, and what to do."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A suggestion to put behind an unknown word, or nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def one_of(tables: Mapping[str, T], name: str, fault: str, advice: str) -> T:
    """The table called ``name``.

    Raises:
        ConfigError: there is none: ``fault``, the nearest name, and ``advice``.
    """
    try:
        return tables[name]
    except KeyError:
        raise ConfigError(f"{fault}{nearest(name, tables)}; {advice}") from None
