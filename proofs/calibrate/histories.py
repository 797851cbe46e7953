"""Rows of runs: six losses of 1 % that each pass, as change points see them; and Otava on the same kind of row."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

import numpy as np

from suite.gate.history import change_points
from suite.gate.robust import Array

BEFORE, EACH, LOSSES = 12, 4, 6


@dataclass(frozen=True)
class HistoryFigures:
    """Percent of histories: with any step although nothing changed; with the cumulative drift found."""

    false_step: float
    drift_found: float


def drifting(sd: float, n: int, rng: np.random.Generator, loss: float = 0.01) -> Array:
    """`n` rows of session means with noise `sd`: twelve runs, then six losses with four runs at each level."""
    level = np.concatenate([np.zeros(BEFORE), loss * np.repeat(np.arange(1, LOSSES + 1), EACH)])
    return np.asarray(level + sd * rng.standard_normal((n, len(level))))


def ours(sd: float, n: int, seed: int = 1) -> HistoryFigures:
    """Change points of the gate; found: the levels of first and last segment differ by more than the margin."""
    rng = np.random.default_rng(seed)
    still = drifting(sd, n, rng, loss=0.0)
    false = np.mean([_lost(row) for row in still])
    found = np.mean([_lost(row) for row in drifting(sd, n, rng)])
    return HistoryFigures(100 * float(false), 100 * float(found))


def _lost(row: Array) -> bool:
    ends = change_points(row)
    if not ends:
        return False
    return bool(np.median(row[ends[-1] :]) - np.median(row[: ends[0]]) > 0.02)


def has_otava() -> bool:
    """Whether Apache Otava can be imported (it needs only numpy and scipy for this; install it with --no-deps)."""
    return importlib.util.find_spec("otava") is not None


@dataclass(frozen=True)
class OtavaFigures:
    """Percent of metrics or histories; `found` by (change, sessions after it)."""

    false_step: float
    found: dict[tuple[float, int], float]


def otava(session_sd: float, n: int, seed: int = 2, history: int = 30) -> OtavaFigures:
    """Otava (p 0.001) on rows of session means with noise `session_sd`, ten metrics a run.

    false_step: histories in which any of ten metrics has a change point that is not there.
    """
    from otava.analysis import compute_change_points  # type: ignore[import-not-found,import-untyped,unused-ignore]

    def points(row: Array) -> list[Any]:
        found, _ = compute_change_points(np.exp(row).tolist(), window_len=50, max_pvalue=0.001)
        return list(found)

    rng = np.random.default_rng(seed)
    rows = session_sd * rng.standard_normal((n, 10, history))
    false = np.mean([any(points(row) for row in run) for run in rows])
    found = {}
    for change in (0.03, 0.05, 0.10):
        for after in (1, 3):
            changed = session_sd * rng.standard_normal((n, history + after))
            changed[:, history:] += change
            found[change, after] = 100 * float(
                np.mean([any(p.index >= history - 1 for p in points(r)) for r in changed])
            )
    return OtavaFigures(100 * float(false), found)
