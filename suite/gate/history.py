"""Every run's medians in a row: steps and slow losses that no single comparison shows.

`<root>/<target>.jsonl` holds one line per run and is only ever appended to.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from suite.gate.baselines import Baseline, slug
from suite.gate.errors import CorruptFile, WriteFailed
from suite.gate.files import locked
from suite.gate.records import Key, Session, round_value
from suite.gate.rules import MetricRule, Rules
from suite.gate.values import launch_log, untrusted

MIN_POINTS = 8
MIN_SEGMENT = 3
PENALTY = 5.0
"""Times ln(n), in units of the noise variance: chosen on
unchanged rows: at most 3 % of them show a step beyond 2 %, with noise up to 3 % (see tests and calibration)."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One run in the history: the median over launches of each metric, by `question/arm/metric`; and of which build."""

    run_id: str
    started_at: str
    values: dict[str, float]
    sglang: str | None = None
    commit: str | None = None


@dataclass(frozen=True)
class LevelChange:
    """A lasting change of level: from `before` to `after`, first seen in `run_id`. `change`: relative, + = higher."""

    key: Key
    run_id: str
    started_at: str
    before: float
    after: float
    worse: bool

    @property
    def change(self) -> float:
        """Relative change, + = higher."""
        return self.after / self.before - 1


@dataclass(frozen=True)
class CumulativeDrift:
    """A metric that now stands below the best level ever promoted by more than its margin."""

    key: Key
    best: float
    best_date: str
    now: float
    margin: float

    @property
    def change(self) -> float:
        """Relative change since the best, + = higher."""
        return self.now / self.best - 1


class History:
    """The history of one target."""

    def __init__(self, root: Path, target: str) -> None:
        self.path = root / f"{slug(target)}.jsonl"

    def append(self, session: Session) -> None:
        """Add a run's medians (trusted series only). A run that is already there is not added again.

        Raises CorruptFile if the file is damaged before its last line, WriteFailed if it cannot be written.
        """
        entry = entry_of(session)
        with locked(self.path.parent):
            if any(old.run_id == entry.run_id for old in self.read()):
                return
            try:
                with self.path.open("r+b" if self.path.exists() else "w+b") as stream:
                    end = _whole_length(stream.read())
                    stream.seek(end)
                    stream.truncate()  # a line that a dying writer left half
                    stream.write(msgspec.json.encode(entry) + b"\n")
            except OSError as error:
                raise WriteFailed(
                    self.path, f"not appended ({error.strerror}); free space and repeat"
                ) from None

    def read(self) -> list[Entry]:
        """All entries in order of time. A last line that was cut off is skipped; any other damage is CorruptFile."""
        if not self.path.exists():
            return []
        data = self.path.read_bytes()
        entries = []
        for number, line in enumerate(data[: _whole_length(data)].splitlines(), 1):
            try:
                entries.append(msgspec.json.decode(line, type=Entry))
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise CorruptFile(
                    self.path, f"line {number}: {error}; remove the line or restore the file"
                ) from None
        return sorted(entries, key=lambda e: (e.started_at, e.run_id))


def _whole_length(data: bytes) -> int:
    return data.rfind(b"\n") + 1


def entry_of(session: Session) -> Entry:
    """The medians of a run."""
    values: dict[str, float] = {}
    version: str | None = None
    commit: str | None = None
    for series in session.rounded().series:
        if untrusted(series) is not None:
            continue
        version = version or (str(series.subject["sglang"]) if series.subject.get("sglang") else None)
        commit = commit or (str(series.subject["commit"]) if series.subject.get("commit") else None)
        for metric in series.metrics:
            logs = [x for launch in series.launches if not math.isnan(x := launch_log(launch, metric))]
            value = round_value(math.exp(float(np.median(logs)))) if logs else None
            if value is not None:
                values["/".join((series.question, series.arm, metric))] = value
    return Entry(session.run_id, session.started_at, dict(sorted(values.items())), version, commit)


def steps(entries: Sequence[Entry], rules: Rules | None = None) -> list[LevelChange]:
    """Lasting changes of gated metrics that are larger than their margin, in order of time.

    A loss counts from the best level before it, so that six losses of 1 % in a row are told.

    Exact optimal segmentation of ln(value) with squared loss (ruptures' KernelCPD, linear kernel); the penalty is
    in units of the noise, taken robustly from successive differences.
    """
    found = []
    for key, rule in judged(entries, rules or Rules()):
        name = "/".join(key)
        points = [(e, math.log(e.values[name])) for e in entries if e.values.get(name, 0) > 0]
        logs = np.array([y for _, y in points])
        bounds = [0, *change_points(logs), len(logs)]
        levels = [float(np.median(logs[a:b])) for a, b in itertools.pairwise(bounds)]
        for at, old, new in _changes(bounds[1:-1], levels, rule):
            worse = (new > old) == (rule.better == "lower")
            entry = points[at][0]
            found.append(
                LevelChange(key, entry.run_id, entry.started_at, math.exp(old), math.exp(new), worse)
            )
    return sorted(found, key=lambda s: (s.started_at, s.key))


def _changes(
    starts: Sequence[int], levels: Sequence[float], rule: MetricRule
) -> list[tuple[int, float, float]]:
    """(start, level before, level after) of each change beyond the margin since the best level that was left.

    Small losses add up: each is compared with the best level before, not with the last.
    """
    reference, found = levels[0], []
    for start, level in zip(starts, levels[1:], strict=True):
        better = (level < reference) == (rule.better == "lower")
        if abs(level - reference) > math.log1p(rule.margin):
            found.append((start, reference, level))
            reference = level
        elif better:
            reference = level
    return found


def change_points(y: np.ndarray[Any, np.dtype[np.float64]]) -> list[int]:
    """Indices at which the level of a row of values changes; none for fewer than eight values."""
    if len(y) < MIN_POINTS:
        return []
    noise = 1.4826 * float(np.median(np.abs(np.diff(y)))) / math.sqrt(2)
    noise = max(noise, 5e-4)  # a row of equal values has no noise to measure steps by
    search = (
        importlib.import_module("ruptures")
        .KernelCPD(kernel="linear", min_size=MIN_SEGMENT)
        .fit(y.reshape(-1, 1))
    )
    ends: list[int] = search.predict(pen=PENALTY * math.log(len(y)) * noise**2)
    return ends[:-1]


def cumulative_drifts(
    session: Session, baselines: Sequence[Baseline], rules: Rules | None = None
) -> list[CumulativeDrift]:
    """Gated metrics of a run that stand below the best level ever promoted by more than their margin.

    Each generation of a baseline is one promoted level; a loss against the only one is the verdict's business. Six losses of 1 %, each promoted, pass six times against
    the level before and fail here at the third.
    """
    book, found = rules or Rules(), []
    now = entry_of(session).values
    for baseline in (b for b in baselines if b.generation > 1):
        series = session.find(baseline.question, baseline.arm)
        asked = set(series.judged) if series else set()
        recorded = {m for s in baseline.sessions for launch in s.launches for m in launch.rounds}
        for metric in sorted(recorded & asked if asked else recorded):
            key, rule = Key(baseline.question, baseline.arm, metric), book.of(metric, baseline.arm)
            value = now.get("/".join(key))
            if rule is None or not rule.gated or value is None:
                continue
            best = _best(baseline, metric, rule)
            if best is not None and _loss(best[0], math.log(value), rule) > math.log1p(rule.margin):
                found.append(CumulativeDrift(key, math.exp(best[0]), best[1], value, rule.margin))
    return found


def _loss(best: float, now: float, rule: MetricRule) -> float:
    return now - best if rule.better == "lower" else best - now


def _best(baseline: Baseline, metric: str, rule: MetricRule) -> tuple[float, str] | None:
    """The best level of all generations but a run's own: its log, and the day its last session was recorded."""
    levels = []
    for generation in {s.generation for s in baseline.sessions}:
        sessions = [s for s in baseline.sessions if s.generation == generation]
        logs = [
            x for s in sessions for launch in s.launches if not math.isnan(x := launch_log(launch, metric))
        ]
        if logs:
            levels.append((float(np.median(logs)), sessions[-1].date))
    if not levels:
        return None
    return min(levels) if rule.better == "lower" else max(levels)


def judged(entries: Sequence[Entry], rules: Rules) -> list[tuple[Key, MetricRule]]:
    """The figures of a history that are gated, each with its rule."""
    names = sorted({name for e in entries for name in e.values})
    keys = [Key(*name.rsplit("/", 2)) for name in names]
    return [(k, r) for k in keys if (r := rules.of(k.metric, k.arm)) is not None and r.gated]
