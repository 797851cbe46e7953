"""Verdict items: the whole run is judged at once, more launches are asked for, and each series gets its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from suite.gate import Judgement, Key, Session, Verdict
from suite.session.causes import causes
from suite.session.collection import SeriesId, series_of
from suite.session.outcomes import (
    BaselineMissing,
    BrokenPromise,
    Inconclusive,
    InvalidMeasurement,
    Regression,
)

HARD = ("regression", "invalid", "inconclusive", "unjudged")
"""Verdict words in the order in which they decide a series' outcome."""


@dataclass(slots=True)
class Judge:
    """Judges the run once all planned launches are done, and again after each further look.

    Args:
        session: gives everything measured so far.
        judge: the gate's rule.
        require_baseline: a missing baseline is an error, not a skip.
    """

    session: Callable[[], Session]
    judge: Callable[[Session], Judgement]
    require_baseline: bool
    _judgement: Judgement | None = field(default=None)

    def look(self, session: Session | None = None) -> Judgement:
        """Judge what has been measured so far, or as much of it as ``session`` holds."""
        self._judgement = self.judge(session or self.session())
        return self._judgement

    def judgement(self) -> Judgement:
        """The last word on this run."""
        return self._judgement or self.look()

    def verdicts(self, series: SeriesId) -> list[Verdict]:
        """The verdicts on one series' judged metrics, in the order in which the scenario names them."""
        found = self.judgement().verdicts
        keys = [Key(series.question, series.arm, metric) for metric in series.metrics]
        return [found[key] for key in keys if key in found]

    def decide(self, series: SeriesId) -> None:
        """End well, or as the worst of the verdicts on this series calls for.

        Raises:
            Regression, InvalidMeasurement, Inconclusive, BaselineMissing: see :mod:`suite.session.outcomes`.
            pytest.skip.Exception: there is no baseline, or nothing was measured.
        """
        verdicts = self.verdicts(series)
        if not verdicts:
            pytest.skip(f"nothing was measured for {series}: see the failures of its launches")
        self._hold_claims(series, verdicts)
        word = min((verdict.word for verdict in verdicts), key=_severity)
        if word not in HARD:
            return
        first = sentences([verdict for verdict in verdicts if verdict.word == word])
        others = [verdict for verdict in verdicts if verdict.word != word]
        why = [cause for v in verdicts if v.word == word for cause in causes(v, self.judgement())]
        text = "\n".join([*first, *dict.fromkeys(why), *(f"{v.word}: {v.headline}" for v in others)])
        if word == "regression":
            raise Regression(text)
        if word == "invalid":
            raise InvalidMeasurement(text)
        if word == "inconclusive":
            raise Inconclusive(text)
        if self.require_baseline:
            raise BaselineMissing(text)
        pytest.skip("; ".join(first))

    def _hold_claims(self, series: SeriesId, verdicts: Sequence[Verdict]) -> None:
        """What a scenario claims whatever the baseline says; a measurement that is invalid breaks no claim."""
        for verdict in verdicts:
            floor, otherwise = series.claims.get(verdict.metric, (None, ""))
            value = verdict.estimate.value
            if floor is None or value is None or verdict.word == "invalid" or value >= floor:
                continue
            raise BrokenPromise(
                f"{verdict.estimate.label} {value:.3f} is below the floor of {floor:g}: {otherwise}"
            )


def sentences(verdicts: Sequence[Verdict]) -> list[str]:
    """What verdicts of one word say: a headline each, or a reason that several share said once, with what to do."""
    compared = [_with_needs(verdict) for verdict in verdicts if verdict.change is not None]
    shared: dict[tuple[str, str], list[str]] = {}
    for verdict in verdicts:
        if verdict.change is None:
            shared.setdefault((verdict.reason, verdict.needs), []).append(verdict.estimate.label)
    return compared + [
        f"{reason} ({', '.join(labels)})" + (f"; {needs}" if needs else "")
        for (reason, needs), labels in shared.items()
    ]


def _with_needs(verdict: Verdict) -> str:
    """The headline, and what would settle it or what to do about it, where that is not to find the cause."""
    settles = verdict.needs if verdict.word in ("inconclusive", "improvement") else ""
    return f"{verdict.headline}; {settles}" if settles else verdict.headline


def _severity(word: str) -> int:
    return HARD.index(word) if word in HARD else len(HARD)


def wanted_again(later: Sequence[pytest.Item], series: Sequence[tuple[str, str]]) -> list[pytest.Item]:
    """Of the held-back items those of the named (question, arm) pairs."""
    pairs = set(series)
    return [
        item
        for item in later
        if (own := item.stash.get(series_of, None)) and (own.question, own.arm) in pairs
    ]
