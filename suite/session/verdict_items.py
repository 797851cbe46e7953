"""Verdict items: the whole run is judged at once, more launches are asked for, and each series gets its outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from suite.gate import Judgement, Key, Session, Verdict
from suite.gate.attribution import is_unmeasured
from suite.gate.factors import why
from suite.gate.tails import JUDGED_WITH
from suite.session.collection import SeriesId, series_of
from suite.session.outcomes import (
    BaselineMissing,
    BrokenPromise,
    Inconclusive,
    InvalidMeasurement,
    Regression,
)

HARD = ("broken promise", "regression", "invalid", "inconclusive", "unjudged")
"""Verdict words in the order in which they decide a series' outcome."""


@dataclass(slots=True)
class Judge:
    """Judges the run once all planned launches are done, and again after each further look.

    Args:
        session: gives everything measured so far.
        judge: the gate's rule.
    """

    session: Callable[[], Session]
    judge: Callable[[Session], Judgement]
    _judgement: Judgement | None = field(default=None)
    _judged: Session | None = field(default=None)

    def look(self, session: Session | None = None) -> Judgement:
        """Judge what has been measured so far, or as much of it as ``session`` holds."""
        self._judged = session or self.session()
        self._judgement = self.judge(self._judged)
        return self._judgement

    @property
    def judged(self) -> Session:
        """What the last word is about."""
        self.judgement()
        assert self._judged is not None
        return self._judged

    def judgement(self) -> Judgement:
        """The last word on this run."""
        return self._judgement or self.look()

    def verdicts(self, series: SeriesId) -> list[Verdict]:
        """The verdicts on one series' judged metrics, in the order in which the scenario names them."""
        found = self.judgement().verdicts
        names = [*series.metrics, *(tail for tail, middle in JUDGED_WITH.items() if middle in series.metrics)]
        keys = [Key(series.question, series.arm, metric) for metric in names]
        return [found[key] for key in keys if key in found]

    def decide(self, series: SeriesId) -> None:
        """End well, or as the worst of the verdicts on this series calls for.

        Raises:
            BrokenPromise, Regression, InvalidMeasurement, Inconclusive, BaselineMissing: see
                :mod:`suite.session.outcomes`.
            pytest.skip.Exception: there is no baseline, nothing was measured, or a run made to be recorded leaves it
                undecided.
        """
        verdicts, judgement, plan = self.verdicts(series), self.judgement(), self.judged.plan
        if not verdicts:
            pytest.skip(
                f"{series} is not judged: switched off in suite.toml, or its arm is not selected here"
            )
        if all(map(is_unmeasured, verdicts)):
            pytest.skip(verdicts[0].reason)  # told in full where it failed
        word = min((verdict.word for verdict in verdicts), key=_severity)
        if word not in HARD:
            return
        worst = [verdict for verdict in verdicts if verdict.word == word]
        first = [v.headline for v in worst] if word == "broken promise" else sentences(worst)
        others = [f"{v.word}: {v.headline}" for v in verdicts if v.word != word]
        causes = dict.fromkeys(cause for v in worst for cause in why(v, judgement))
        text = "\n".join([*first, *causes, *others, f"the run: {judgement.sentence}"])
        if word == "broken promise":
            raise BrokenPromise(text)
        if word == "regression" and not plan.accepted:
            raise Regression(text)
        if word == "invalid":
            raise InvalidMeasurement(text)
        if word == "inconclusive" and not plan.recording:
            raise Inconclusive(text)
        if word == "unjudged" and plan.require_baseline:
            raise BaselineMissing(text)
        pytest.skip("; ".join(first))


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
