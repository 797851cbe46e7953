"""One column of a decision as numbers and words: estimate, headline, reason, and what to do next."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from suite.gate import common
from suite.gate.baselines import BaselineSession
from suite.gate.decide import Decision
from suite.gate.deltas import OWN_PRIOR
from suite.gate.matrix import Matrix
from suite.gate.paired import Pairs, added
from suite.gate.records import Key, Scalar, round_value
from suite.gate.robust import Array
from suite.gate.rules import MetricRule
from suite.gate.settle import settle
from suite.gate.spread import Spread
from suite.gate.verdicts import Estimate, Factor, Verdict, Word, change_line
from suite.sglang import config_diff
from suite.terminal.figures import interval, percent, times

SHOWN_CHANGES = 3


def word_of(decision: Decision, g: int) -> Word:
    """The word for column `g` of a single run."""
    if decision.regression[0, g]:
        return "regression"
    if decision.improvement[0, g]:
        return "improvement"
    return "pass" if decision.passed[0, g] else "inconclusive"


def relative_change(log: float) -> float:
    """A change in logs as a relative one; absurd ones stay finite."""
    return math.expm1(min(max(log, -30.0), 30.0))


def excluded(margin: float, *, stated: bool) -> str:
    """What a pass claims; `stated`: on a statement of how far sessions differ."""
    given = f", if sessions differ by no more than {100 * OWN_PRIOR:g} %" if stated else ""
    return f"a loss of {200 * margin:g} % or more is excluded (95 %{given})"


@dataclass(frozen=True)
class Explanation:
    """One column of a decision on a single run.

    matrix: what was known at the look that gave it; baseline: the session that verdicts name; changes: the subject's;
    aside: rounds not used; texts: answers that are the same text as the baseline's, and all that were compared;
    round_s: seconds that a round takes.
    """

    matrix: Matrix
    decision: Decision
    g: int
    rule: MetricRule
    baseline: BaselineSession
    changes: Mapping[str, tuple[Scalar, Scalar]]
    aside: int
    run_id: str
    texts: tuple[int, int] = (0, 0)
    round_s: float = math.nan

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.matrix.keys[self.g]

    def _at(self, values: object) -> float:
        return float(np.asarray(values)[0, self.g])

    def _interval(self, relative: bool, *, whole: bool = True) -> tuple[float, float, float]:
        """Change and 95 % interval as signed logs, + = worse; of the steps alone unless `whole`."""
        d = self.decision
        centre, se, df = (d.relative, d.se, d.df) if relative else (d.change, d.raw_se, d.raw_df)
        spread, size = Spread(se**2, df), np.array(centre)
        if whole:
            spread, size = added(spread, Spread(d.accepted_se**2, d.accepted_df)), size + d.accepted
        return self._around(size, spread)

    def _around(self, centre: Array, spread: Spread) -> tuple[float, float, float]:
        half = self._at(spread.bound(0.975))
        return self._at(centre), self._at(centre) - half, self._at(centre) + half

    def _factors(self, relative: bool) -> list[Factor]:
        """Steps and acceptance, where the value is their product."""
        if self.g not in self.matrix.acceptance.borne:
            return []
        d = self.decision
        accepted = self._around(d.accepted, Spread(d.accepted_se**2, d.accepted_df))
        steps = self._interval(relative, whole=False)
        return [
            Factor("steps", *self._as_change(steps)),
            Factor("acceptance", *self._as_change(accepted)),
        ]

    def _as_change(self, logs: tuple[float, float, float]) -> tuple[float | None, float | None, float | None]:
        """Change, low and high end, as relative changes of the value."""
        change, *ends = (relative_change(self.rule.sign * x) for x in logs)
        return round_value(change), round_value(min(ends)), round_value(max(ends))

    def _relative(self) -> bool:
        """Whether a change must be told relative to the other arms, because the value itself did not surely move."""
        word = word_of(self.decision, self.g)
        d = self.decision
        if not self.matrix.layout.machine[self.g] or self._at(d.by_common) or self._at(d.by_acceptance):
            return False
        _, low, high = self._interval(False, whole=False)
        return (word == "regression" and low <= 0) or (word == "improvement" and high >= 0)

    def estimate(self) -> Estimate:
        """The numbers."""
        relative, direction = self._relative(), self.rule.sign
        change, low, high = self._as_change(self._interval(relative))
        value = math.exp(direction * float(np.nanmean(self.matrix.raw_new[0, :, self.g])))
        raw = relative_change(direction * self._raw())
        return Estimate(
            label=self.rule.label,
            unit=self.rule.unit,
            value=round_value(value),
            baseline_value=round_value(value / (1 + raw)),
            change=change,
            ci_low=low,
            ci_high=high,
            relative=relative,
            raw_change=round_value(raw),
            sdc=round_value(abs(relative_change(direction * self._at(self.decision.sdc)))),
            factors=self._factors(relative),
        )

    def _raw(self) -> float:
        """The change of the measured value, signed log: of these very answers, whatever moved them."""
        if self.g not in self.matrix.acceptance.borne:
            return self._at(self.decision.change)
        return self.matrix.raw_change(self.g)

    def verdict(self, look: int) -> Verdict:
        """The whole verdict, given at this look."""
        word, estimate = word_of(self.decision, self.g), self.estimate()
        headline = self._by_factor(word, estimate) + change_line(estimate, self.rule.margin, self._against())
        return Verdict(
            *self.key,
            word,
            headline,
            self._reason(word, estimate),
            estimate,
            self.rule.margin,
            self._needs(word),
            look,
            stated=word == "pass" and bool(self._at(self.decision.stated)),
        )

    def _by_factor(self, word: Word, estimate: Estimate) -> str:
        """What to say first where the factor that decides moved one way and the whole the other; else nothing."""
        if word not in ("regression", "improvement") or estimate.change is None:
            return ""
        worse = word == "regression"
        if (estimate.change * self.rule.sign > 0) is worse:
            return ""
        name = "acceptance" if self._at(self.decision.by_acceptance) else "steps"
        factor = next((f for f in estimate.factors if f.name == name and f.change is not None), None)
        if factor is None or factor.change is None:
            return ""
        return f"{name} alone {'cost' if worse else 'gained'} {percent(abs(factor.change))[1:]}, the whole hides it: "

    def _against(self) -> str:
        version = self.baseline.subject.get("sglang")
        return f"baseline of {self.baseline.date}" + (f", sglang {version}" if version else "")

    def _reason(self, word: Word, estimate: Estimate) -> str:
        parts = [self._why(word), *self._parts(estimate)]
        if estimate.relative and estimate.raw_change is not None:
            parts.append(
                f"the value itself moved {percent(estimate.raw_change)}, the other arms of the session with it"
            )
        if self.changes:
            parts.append(f"under test: {config_diff.told(self.changes, SHOWN_CHANGES)}")
        if self.aside:
            parts.append(f"{times(self.aside, 'round', 'rounds')} set aside")
        return "; ".join(parts)

    def _parts(self, estimate: Estimate) -> list[str]:
        """What the change is made of: steps and acceptance, or the answers of single prompts."""
        factors = ", ".join(
            f"{f.name} {percent(f.change)} ({interval(f.ci_low, f.ci_high)})"
            for f in estimate.factors
            if f.change is not None and f.ci_low is not None and f.ci_high is not None
        )
        same, shared = self.texts
        told = f"{same} of {shared} answers are the same text" if shared and self._pairs() else ""
        return [part for part in (factors, told) if part]

    def _pairs(self) -> Pairs | None:
        return self.matrix.acceptance.judged.get(self.g)

    def _grounds(self) -> str:
        """What the judgement rests on."""
        sessions = int(self._at(self.decision.sessions))
        recorded = times(sessions, "baseline session", "baseline sessions")
        pairs = self._pairs()
        if pairs is None:
            return recorded
        prompts = int(pairs.number[0])
        return f"{times(prompts, 'prompt', 'prompts')} compared one by one, {recorded}"

    def _why(self, word: Word) -> str:
        d, margin = self.decision, f"{100 * self.rule.margin:g} %"
        if self._at(d.by_acceptance) and word in ("regression", "improvement"):
            return f"acceptance moved beyond the margin of {margin} and beyond chance; the steps did not"
        if self._at(d.by_common) and word in ("regression", "improvement"):
            told = common.moved(self.matrix, d, self.g), common.suspects(self.matrix, d, self.g)
            return f"common to all arms, {told[0]}: {told[1]}"
        if word in ("regression", "improvement"):
            p = self._at(d.p_worse if word == "regression" else d.p_better)
            return f"beyond the margin of {margin} and beyond chance (p {p:.1g}), {self._grounds()}"
        if word == "pass":
            return f"{excluded(self.rule.margin, stated=bool(self._at(d.stated)))}, {self._grounds()}"
        if self._at(d.common_shift):
            return f"common shift: {common.moved(self.matrix, d, self.g)}"
        return f"neither a loss beyond {margin} nor its absence is shown, {self._grounds()}"

    def _needs(self, word: Word) -> str:
        if word == "improvement":
            return f"to make it the new level: python -m suite baseline promote {self.run_id}"
        return settle(self.matrix, self.decision, self.g, self.round_s) if word == "inconclusive" else ""
