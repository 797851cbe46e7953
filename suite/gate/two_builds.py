"""A run of two builds, whole: look by look through `judge_builds`, and what is left to say where nothing was compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from suite.gate.accepted import ACCEPTANCE, prompt_logs, same_texts
from suite.gate.builds import BuildVerdict, is_judged, judge_builds, rounds_of
from suite.gate.conclude import conclude
from suite.gate.decide import PASS_WIDTH
from suite.gate.duet import itself
from suite.gate.records import Key, Launch, Series, Session, differing, round_value
from suite.gate.rules import MetricRule, Rules
from suite.gate.status import BROKEN
from suite.gate.upgrade import lost_outright, order, shares
from suite.gate.values import bad_value, launch_log, untrusted
from suite.gate.verdicts import Estimate, Judgement, Verdict, Word, change_line
from suite.sglang import config_diff
from suite.terminal.figures import interval, percent

WORDS: dict[str, Word] = {
    "go": "pass",
    "no-go": "regression",
    "better": "improvement",
    "inconclusive": "inconclusive",
    "invalid": "invalid",
}
FEWEST = 2
"""Launches of each build that a figure is judged by, unless it is compared prompt by prompt."""
ENOUGH = 4
"""Pairs of rounds of a duet, two of either order, of which it can be told how they scatter."""
MOST_PAIRS = 50
TIMED = ("decode", "latency")


def judge_two_builds(session: Session, book: Rules) -> Judgement:
    """The candidate's figures against the reference's, its own promises and floors, causes, sentence and status.

    The looks that the run has come to are replayed; a figure keeps the first answer that settles it. Once a no-go is
    certain nothing more is to be launched.
    """
    case = _Case(session, book)
    verdicts: dict[Key, Verdict] = {}
    looks = case.looks
    for number, (pairs, share) in enumerate(zip(looks, shares(len(case.planned)), strict=False), 1):
        for key, verdict in case.judged(pairs, share, number).items():
            if key not in verdicts or verdicts[key].word in ("inconclusive", "invalid"):
                verdicts[key] = verdict
    verdicts |= case.one_sided()
    left = case.planned[len(looks) :] if looks and looks[-1] in case.planned else case.planned
    undecided = sorted({key[:2] for key, v in verdicts.items() if v.word == "inconclusive"}) if left else []
    judgement = conclude(
        session,
        Judgement(
            verdicts=dict(sorted(verdicts.items())),
            informational=case.informational(),
            changes=case.changes(),
            undecided=undecided,
            extend=sorted(
                {(question, arm) for question, of in undecided for arm in case.arms_of(question, of)}
            ),
            next_launches=left[0] if left else None,
            notes=case.notes(),
            against=session.against,
        ),
        book,
    )
    if judgement.status == BROKEN:
        judgement = msgspec.structs.replace(judgement, undecided=[], extend=[], next_launches=None)
    return judgement


@dataclass(frozen=True)
class _Case:
    """A run of two builds; `both` is of the questions that both have answered."""

    session: Session
    book: Rules

    @cached_property
    def both(self) -> dict[tuple[str, str], tuple[Series, Series]]:
        assert self.session.reference is not None
        found = self.session.reference.find
        return {
            (new.question, new.arm): (old, new)
            for new in self.session.series
            if (old := found(new.question, new.arm)) is not None
        }

    @property
    def planned(self) -> list[int]:
        return self.session.plan.look_launches or [FEWEST]

    @property
    def fewest(self) -> int:
        """Launches of each build that a figure is judged by; in a duet rounds are the pairs."""
        return 1 if self.session.plan.duet else FEWEST

    @cached_property
    def pairs(self) -> dict[tuple[str, str], int]:
        """Launches that both builds have of each series."""
        return {where: min(len(s.launches) for s in sides) for where, sides in self.both.items()}

    @property
    def looks(self) -> list[int]:
        """Pairs of launches at each look that this run has come to; at least one, with whatever is there."""
        there = max(self.pairs.values(), default=0)
        taken = [pairs for pairs in self.planned if pairs <= there]
        if not taken or (there > taken[-1] and len(taken) < len(self.planned)):
            taken.append(there)
        return taken

    def keys(self, where: tuple[str, str]) -> Iterator[tuple[Key, MetricRule]]:
        """Every metric that both sides speak of."""
        old, new = self.both[where]
        for metric in sorted({*old.metrics} & {*new.metrics}):
            if (rule := self.book.of(metric, where[1])) is not None:
                yield Key(*where, metric), rule

    def gated(self, where: tuple[str, str]) -> Iterator[tuple[Key, MetricRule]]:
        """Those that are judged."""
        new = self.both[where][1]
        return ((key, rule) for key, rule in self.keys(where) if is_judged(rule, new, self.book))

    # ------------------------------------------------------------------ figures that both have

    def judged(self, pairs: int, share: float, look: int) -> dict[Key, Verdict]:
        """Every figure that both builds have, by the first `pairs` launches of each."""
        found = {key: v for where in self.both for key, v in self._unlike(where).items()}
        alike = [where for where in self.both if not differing(*(s.identity for s in self.both[where]))]
        sizes = {where: min(self.pairs[where], pairs) for where in alike}
        for size in sorted({n for n in sizes.values() if n >= self.fewest} or {self.fewest}):
            fitting = [where for where in alike if sizes[where] == size or self._by_prompts(where)]
            old, new = ([_first(self.both[where][i], size) for where in fitting] for i in (0, 1))
            judged = judge_builds(
                old, new, order(size), self.book, share=share, in_turn=self.session.plan.duet
            )
            for told in judged:
                key = Key(told.question, told.arm, told.metric)
                found[key] = self._verdict(key, told, look, sizes[key[:2]])
        alone = [where for where in alike if sizes[where] < self.fewest and not self._by_prompts(where)]
        return found | self._of_one_launch(alone, look)

    def _by_prompts(self, where: tuple[str, str]) -> bool:
        """Whether a series is judged prompt by prompt alone: launches more than one tell no more of it."""
        gated = [key.metric for key, _ in self.gated(where)]
        told = all(any(prompt_logs(launch) for launch in s.launches[:1]) for s in self.both[where])
        return gated == [ACCEPTANCE] and told and self.pairs[where] >= 1

    def _unlike(self, where: tuple[str, str]) -> dict[Key, Verdict]:
        """Figures of a series that the two builds were not asked alike, or did not serve alike."""
        unlike = differing(*(s.identity for s in self.both[where]))
        if not unlike:
            return {}
        said = "; ".join(f"{name} {old!r} -> {new!r}" for name, (old, new) in unlike.items())
        reason = f"the builds were not measured alike: {said}"
        return {
            key: self._plain(
                key, rule, "invalid", reason, "pin what differs by a flag, so that both run with it"
            )
            for key, rule in self.gated(where)
        }

    def _of_one_launch(self, series: Sequence[tuple[str, str]], look: int) -> dict[Key, Verdict]:
        """Of one launch of each build only a loss beyond any doubt is said."""
        gated = [(key, rule) for where in series for key, rule in self.gated(where)]
        found = {}
        for key, rule in gated:
            old, new = (_first(s, 1) for s in self.both[key[:2]])
            reason = next((r for s in (old, new) if (r := untrusted(s) or bad_value(s, key.metric))), None)
            if reason:
                found[key] = self._plain(key, rule, "invalid", reason, "fix what disturbed it and run again")
                continue
            estimate = self._estimate(key, rule, old, new)
            lost = lost_outright(rule.sign * math.log1p(estimate.change or 0.0), len(gated))
            said = f"{estimate.label} {percent(estimate.change or 0.0)} in one launch of each build"
            word: Word = "regression" if lost else "inconclusive"
            reason = (
                "a loss that no launch's luck explains" if lost else "one launch of each build is too few"
            )
            needs = "" if lost else "two launches of each build at least"
            found[key] = Verdict(*key, word, said, reason, estimate, rule.margin, needs, look)
        return found

    def _verdict(self, key: Key, told: BuildVerdict, look: int, pairs: int) -> Verdict:
        rule = self.book.of(key.metric, key.arm)
        assert rule is not None
        word = WORDS[told.answer]
        if told.change is not None and told.ci_low is not None and math.isnan(told.ci_low):
            reason = "too few pairs of rounds are left to tell how far they scatter"
            return self._plain(key, rule, "inconclusive", reason, f"{ENOUGH} pairs of rounds at least")
        if word == "invalid" or told.change is None or math.isnan(told.change):
            word = "invalid"
            reason = told.headline.removeprefix(f"{rule.label}: ")
            return self._plain(key, rule, word, reason, "fix what disturbed it and run again")
        old, new = (_first(s, max(pairs, 1)) for s in self.both[key[:2]])
        estimate = msgspec.structs.replace(
            self._estimate(key, rule, old, new),
            change=round_value(told.change),
            ci_low=round_value(told.ci_low),
            ci_high=round_value(told.ci_high),
            sdc=round_value(told.sdc),
            factors=told.factors,
        )
        return Verdict(
            *key,
            word,
            change_line(estimate, rule.margin, f"the reference, {self._name}"),
            self._reason(rule, word, estimate, old, new),
            estimate,
            rule.margin,
            more_pairs(estimate, rule, pairs, duet=self.session.plan.duet) if word == "inconclusive" else "",
            look,
        )

    @property
    def _name(self) -> str:
        assert self.session.reference is not None
        return self.session.reference.name

    def _reason(self, rule: MetricRule, word: Word, estimate: Estimate, old: Series, new: Series) -> str:
        margin = f"{100 * rule.margin:g} %"
        why = {
            "regression": f"a loss beyond the margin of {margin} and beyond chance",
            "improvement": f"a gain beyond the margin of {margin} and beyond chance",
            "pass": f"a loss of twice the margin of {margin} is excluded (95 %)",
        }.get(word, f"neither a loss beyond {margin} nor its absence is shown")
        grounds = f"{len(old.launches)}+{len(new.launches)} launches in turn"
        if self.session.plan.duet:
            rounds = sum(len(launch.rounds.get(rule.name, [])) for launch in new.launches)
            grounds = f"{rounds} pairs of rounds in {len(new.launches)}+{len(new.launches)} launches at once"
        if rule.name == ACCEPTANCE:
            same, shared = same_texts(old.launches, new.launches)
            prompts = {p for launch in old.launches for p in prompt_logs(launch)}
            grounds = f"{len(prompts)} prompts compared one by one"
            grounds += f", {same} of {shared} answers are the same text" if shared else ""
        factors = [
            f"{f.name} {percent(f.change)} ({interval(f.ci_low, f.ci_high)})"
            for f in estimate.factors
            if f.change is not None and f.ci_low is not None and f.ci_high is not None
        ]
        return "; ".join([f"{why}, {grounds}", *([", ".join(factors)] if factors else [])])

    def _plain(self, key: Key, rule: MetricRule, word: Word, reason: str, needs: str) -> Verdict:
        old, new = self.both[key[:2]]
        estimate = self._estimate(key, rule, old, new)
        return Verdict(*key, word, f"{rule.label}: {word}, {reason}", reason, estimate, rule.margin, needs)

    def _estimate(self, key: Key, rule: MetricRule, old: Series, new: Series) -> Estimate:
        """Both values as they were measured, and the change between them."""
        before, now = (_level(s.launches, key.metric) for s in (old, new))
        change = None if before is None or now is None else math.expm1(now - before)
        return Estimate(
            label=rule.label,
            unit=rule.unit,
            value=None if now is None else round_value(math.exp(now)),
            baseline_value=None if before is None else round_value(math.exp(before)),
            change=round_value(change),
            raw_change=round_value(change),
        )

    # ------------------------------------------------------------------ what only one build has, and all the rest

    def one_sided(self) -> dict[Key, Verdict]:
        """Figures that only the candidate has: nothing to compare with, and why.

        That the reference's arm does not run is a finding; that it was not measured for another reason settles nothing.
        """
        found = {}
        for new in self.session.series:
            where = (new.question, new.arm)
            if where in self.both:
                continue
            for metric in new.metrics:
                rule = self.book.of(metric, new.arm)
                if rule is None or not is_judged(rule, new, self.book):
                    continue
                now = _level(new.launches, metric)
                value = None if now is None else round_value(math.exp(now))
                broken, why = self._why_not(where)
                word: Word = "unjudged" if broken else "invalid"
                reason = f"the reference has no such figure: {why}"
                estimate = Estimate(rule.label, rule.unit, value)
                key = Key(*where, metric)
                headline = f"{rule.label}: {word}, {reason}"
                found[key] = Verdict(*key, word, headline, reason, estimate, rule.margin)
        return found

    def _why_not(self, where: tuple[str, str]) -> tuple[bool, str]:
        """Whether the reference's arm itself is why a figure is missing, and what was said of it."""
        assert self.session.reference is not None
        series = self.session.find(*where)
        arms = {where[1], *(series.derived_from if series is not None else ())}
        outcomes = [
            o for o in self.session.reference.outcomes if o.arm in arms and o.word not in ("kept", "skipped")
        ]
        broken = [o for o in outcomes if o.word == "broken"]
        said = [o.short or o.text for o in (*broken, *outcomes)]
        return bool(broken), said[0] if said else "it was not measured"

    def informational(self) -> dict[Key, Estimate]:
        """Changes of what is not judged, as they were measured."""
        found = {}
        for where, (old, new) in self.both.items():
            judged = {key for key, _ in self.gated(where)}
            for key, rule in self.keys(where):
                if key not in judged:
                    found[key] = self._estimate(key, rule, old, new)
        return dict(sorted(found.items()))

    def arms_of(self, question: str, arm: str) -> list[str]:
        """What is to be launched again for a series: both arms of a ratio."""
        return self.both[question, arm][1].derived_from or [arm]

    def changes(self) -> dict[tuple[str, str], str]:
        """What differs between the builds: what an upgrade changes, by series."""
        told = {
            where: config_diff.changed(old.subject, new.subject) for where, (old, new) in self.both.items()
        }
        return {where: config_diff.told(found) for where, found in sorted(told.items()) if found}

    def notes(self) -> list[str]:
        """What belongs to no figure: whether the two builds answer with the same texts."""
        same = shared = 0
        for old, new in self.both.values():
            if any(key.metric == ACCEPTANCE for key, _ in self.gated((new.question, new.arm))):
                one, all_ = same_texts(old.launches, new.launches)
                same, shared = same + one, shared + all_
        told = [f"{same} of {shared} greedy answers are the same text on both builds"] if shared else []
        return [*told, *(self._duet_against_itself() if self.session.plan.duet else [])]

    def _duet_against_itself(self) -> list[str]:
        """The A/A of a duet: half of its pairs of rounds against the other half."""
        told = []
        for where, sides in self.both.items():
            for key, rule in self.gated(where):
                if rule.kind in TIMED:
                    told.append((abs(itself(rounds_of(key.metric, rule.sign, sides))), key))
        known = [(size, key) for size, key in told if not math.isnan(size)]
        if not known:
            return []
        size, key = max(known)
        return [
            f"A/A of this duet: half of its pairs of rounds against the other half differ by {100 * math.expm1(size):.1f} % "
            f"at most ({key.question}, {key.arm}: {key.metric}), {len(known)} figures"
        ]


def more_pairs(estimate: Estimate, rule: MetricRule, pairs: int, *, duet: bool = False) -> str:
    """What would settle a figure, if it goes on as it began: how many pairs of launches more, or that none would.

    The half-width of the interval shrinks as one over the square root of the launches. duet: they were asked in turn.
    """
    low, high, change = estimate.ci_low, estimate.ci_high, estimate.change
    if low is None or high is None or change is None or min(low, high) <= -1:
        return "more pairs of launches"
    half = (math.log1p(high) - math.log1p(low)) / 2
    loss, margin = rule.sign * math.log1p(change), math.log1p(rule.margin)
    room = (PASS_WIDTH * margin - loss) if loss <= margin else loss
    if room <= 0 or half <= 0:
        return "more pairs of launches"
    needed = math.ceil(max(pairs, FEWEST) * (half / room) ** 2)
    more = max(1, needed - pairs)
    what = "show that it is as fast" if loss <= margin else "show the loss"
    if more > MOST_PAIRS:
        hint = "" if duet else "; --duet sees more"
        return f"more than {MOST_PAIRS} more pairs of launches: this machine is too noisy to {what}{hint}"
    return f"about {more} more pair{'s' if more > 1 else ''} of launches, if it goes on like this, to {what}"


def _first(series: Series, launches: int) -> Series:
    """The first so many launches; of what was asked in one launch alone, that one stands for all of them."""
    kept = series.launches[:launches]
    if len(kept) == 1:
        kept = kept * launches
    return msgspec.structs.replace(series, launches=kept)


def _level(launches: Sequence[Launch], metric: str) -> float | None:
    logs = np.array([launch_log(launch, metric) for launch in launches])
    return float(np.nanmean(logs)) if np.isfinite(logs).any() else None
