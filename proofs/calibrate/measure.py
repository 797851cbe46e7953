"""Figures of one rule in one noise model: false alarms, detection, share undecided, what the printed SDC is worth."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofs.calibrate.noise import Campaigns, Noise, simulate
from proofs.calibrate.rules import PEERS, Rule, our_decision, ours, ours_with_looks
from suite.gate.layout import Layout

BATCH = 1000


@dataclass(frozen=True)
class Task:
    """One thing to measure. `effects`: changes put into one metric at a time; `common`: into all at once."""

    noise: Noise
    layout: Layout
    sessions: int = 5
    launches: int = 3
    n: int = 2000
    effects: tuple[float, ...] = ()
    common: tuple[float, ...] = ()
    sdc: bool = False
    looks: bool = False
    peers: bool = False
    columns: tuple[int, ...] = ()
    """Metrics that a change is put into; all if empty."""
    base_launches: int = 3
    noise_now: Noise | None = None
    """Of the new run, where it differs from that of the baseline."""
    stream: int = 0
    """Other random numbers for the same task."""

    @property
    def seed(self) -> int:
        """Of this task alone, so that its figures do not depend on what else is measured."""
        return zlib.crc32(
            f"{self.noise} {len(self.layout.columns)} {self.sessions} {self.launches} {self.stream}".encode()
        )


@dataclass
class Figures:
    """Shares in percent of campaigns (of metrics for `undecided`)."""

    false_alarm: float = 0.0
    false_improvement: float = 0.0
    all_pass: float = 0.0
    undecided: float = 0.0
    found: dict[float, float] = field(default_factory=dict)
    common_found: dict[float, float] = field(default_factory=dict)
    common_passed: dict[float, float] = field(default_factory=dict)
    sdc_median: float = 0.0
    sdc_found: float = 0.0
    twice_sdc_passed: float = 0.0
    launches: float = 0.0


Tally = dict[tuple[str, str, float], list[float]]


def measure(task: Task) -> tuple[Task, dict[str, Figures]]:
    """Figures of our rule (`ours`) and of the task's peers, by name."""
    rng = np.random.default_rng(task.seed)
    tally: Tally = {}
    for start in range(0, task.n, BATCH):
        n = min(BATCH, task.n - start)
        launches = 9 if task.looks else task.launches
        campaigns = simulate(
            task.noise, task.layout, n, task.sessions, launches, rng, base_launches=task.base_launches
        )
        if task.noise_now is not None:
            other = simulate(task.noise_now, task.layout, n, 1, launches, rng, base_launches=1)
            campaigns = replace(campaigns, new=other.new)
        for name, rule in _rules(task).items():
            _tally_rule(tally, name, rule, campaigns, task)
        if task.sdc:
            _tally_sdc(tally, campaigns, task)
    return task, {name: _figures(tally, name) for name in _rules(task)}


def _rules(task: Task) -> dict[str, Rule]:
    return {"ours": ours_with_looks if task.looks else ours} | (PEERS if task.peers else {})


def _tally_rule(tally: Tally, name: str, rule: Rule, campaigns: Campaigns, task: Task) -> None:
    gated, picked = task.layout.gated, _picked(campaigns, task)

    def add(what: str, values: Any, at: float = 0.0) -> None:
        tally.setdefault((name, what, at), []).extend(np.asarray(values, dtype=float).ravel().tolist())

    none = rule(campaigns, task.layout)
    add("false_alarm", none.regression.any(axis=1))
    add("false_improvement", none.improvement.any(axis=1))
    add("all_pass", none.passed[:, gated].all(axis=1))
    add("undecided", none.undecided[:, gated])
    add("launches", none.launches)
    for effect in task.effects:
        changed = rule(campaigns.shifted(np.asarray(effect * picked)), task.layout)
        add("found", changed.regression[picked], effect)
    for effect in task.common:
        changed = rule(campaigns.shifted(np.asarray(effect * task.layout.machine)), task.layout)
        add("common_found", changed.regression.any(axis=1), effect)
        add("common_passed", changed.passed[:, gated].all(axis=1), effect)


def _tally_sdc(tally: Tally, campaigns: Campaigns, task: Task) -> None:
    """Put the very value that a campaign prints into it, and twice that."""
    picked = _picked(campaigns, task)
    printed = our_decision(campaigns, task.layout).sdc[picked]
    once, twice = (
        our_decision(campaigns.shifted(f * printed[:, None] * picked), task.layout) for f in (1, 2)
    )
    for what, values in (
        ("sdc_median", printed),
        ("sdc_found", once.regression[picked]),
        ("twice_sdc_passed", twice.passed[picked]),
    ):
        tally.setdefault(("ours", what, 0.0), []).extend(np.asarray(values, dtype=float).tolist())


def _picked(campaigns: Campaigns, task: Task) -> NDArray[np.bool_]:
    """One metric a campaign, each in turn."""
    columns = np.array(task.columns or range(len(task.layout.columns)))
    n = len(campaigns.new)
    chosen = np.zeros((n, len(task.layout.columns)), dtype=bool)
    chosen[np.arange(n), columns[np.arange(n) % len(columns)]] = True
    return chosen


def _figures(tally: Tally, name: str) -> Figures:
    figures = Figures()
    for (whose, what, at), values in tally.items():
        if whose != name:
            continue
        if what == "launches":
            figures.launches = float(np.mean(values))
        elif what == "sdc_median":
            figures.sdc_median = 100 * float(np.median(values))
        elif isinstance(getattr(figures, what), dict):
            getattr(figures, what)[at] = 100 * float(np.mean(values))
        else:
            setattr(figures, what, 100 * float(np.mean(values)))
    return figures
