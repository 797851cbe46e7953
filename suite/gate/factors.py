"""Which factor moved: the time of a step, accepted drafts, or prefill; and by the pattern of sizes, where.

tokens/s = tokens per step / seconds per step, so a slower decode is one of the two, or it is a later first token.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypeAlias

from suite.gate.records import Key, Session
from suite.gate.verdicts import Cause, Estimate, Judgement, Verdict
from suite.metrics.registry import METRICS
from suite.terminal.figures import percent

SMALL = 0.015
"""A change of the time of a step, or of acceptance, that explains nothing."""
TELLING = 0.1
"""A change of TTFT, which scatters more, that explains fewer tokens/s."""
ALIKE = 2.0
"""How many times the smallest change the largest may be, for figures to have moved alike."""

SPEED = ("decode", "latency")
"""Kinds of metric that follow the speed of the machine."""

Factor: TypeAlias = Literal["steps", "acceptance", "prefill", "figure"]

CLIENTS, CONTEXT = re.compile(r"\bc(\d+)\b"), re.compile(r"(?:^|[\[-])(\d{2,})(?=[\]-]|$)")


def why(verdict: Verdict, judged: Judgement) -> list[str]:
    """Sentences about one metric that moved; empty for one that did not."""
    if verdict.word not in ("regression", "inconclusive"):
        return []
    said = [_step_or_acceptance(verdict, judged)] if METRICS[verdict.metric].kind == "decode" else []
    if verdict.word == "inconclusive":
        said = [f"if it is more than chance: {sentence}" for sentence in said if sentence]
    changed = judged.changes.get((verdict.question, verdict.arm))
    if changed:
        said.append(f"likely cause, changed since the {judged.against}: {changed}")
    return [sentence for sentence in said if sentence]


def _step_or_acceptance(verdict: Verdict, judged: Judgement) -> str | None:
    step, accepted, first = _factors(verdict.key, judged)
    if step is None:
        return None
    if accepted is None:
        return f"steps got slower: time per step {step:+.1%}" if step > SMALL else None
    figures = f"time per step {step:+.1%}, acceptance length {accepted:+.1%}"
    if step > SMALL and accepted < -SMALL:
        return f"steps got slower and fewer tokens were accepted: {figures}"
    if step > SMALL:
        return f"steps got slower, as many tokens were accepted: {figures}"
    if accepted < -SMALL:
        return f"fewer tokens were accepted, steps took as long: {figures}"
    if first is not None and first > TELLING:
        return (
            f"tokens came as fast once the first was there, but that came later: TTFT {first:+.1%}, {figures}"
        )
    return f"neither steps nor acceptance moved enough to explain it: {figures}"


def machine(
    judged: Judgement, left: dict[Key, Verdict], explained: Collection[str], *, same_machine: bool = False
) -> list[Cause]:
    """Every figure of speed of every arm worse, surely and alike: then no arm and no factor is the cause.

    explained: arms that broke a promise which tells why they are slow; they say nothing of the machine.
    same_machine: both sides were measured in turn on one machine, which is out of the question then.
    """
    speed = [
        v
        for v in judged.verdicts.values()
        if v.arm not in explained and _compared(v) and METRICS[v.metric].kind in SPEED
    ]
    losses = [loss(v) for v in speed]
    arms = sorted({v.arm for v in speed})
    if len(arms) < 2 or not any(v.key in left for v in speed):
        return []
    if min(losses) <= 0 or max(losses) > ALIKE * min(losses) or not all(map(_surely_moved, speed)):
        return []
    figures = [v.key for v in speed if v.key in left]
    for key in figures:
        del left[key]
    text = (
        f"everything is slower in every arm alike, by {100 * min(losses):.2g} to {100 * max(losses):.2g} %: "
        f"{'' if same_machine else 'the machine, or '}a build that slows all it does"
    )
    return [Cause("machine", text, arms, [k.said for k in figures])]


def _compared(verdict: Verdict) -> bool:
    return verdict.change is not None and verdict.word != "invalid"


def loss(verdict: Verdict) -> float:
    """How much worse a figure is, + = worse: the value itself, not beside the other arms."""
    change = verdict.estimate.raw_change if verdict.estimate.raw_change is not None else verdict.change
    return (change or 0.0) * (1 if METRICS[verdict.metric].better == "lower" else -1)


def _surely_moved(verdict: Verdict) -> bool:
    """Whether the interval leaves no change out; one told beside the other arms says nothing of all of them."""
    low, high = verdict.estimate.ci_low, verdict.estimate.ci_high
    if low is None or high is None or verdict.estimate.relative:
        return loss(verdict) > verdict.margin
    return low > 0 or high < 0


def factor_causes(session: Session, judged: Judgement, left: dict[Key, Verdict]) -> list[Cause]:
    """What is left, by the factor that moved; figures that no factor explains stand for themselves."""
    grouped: dict[Factor, list[Key]] = {}
    for key in left:
        grouped.setdefault(_factor(key, session, judged), []).append(key)
    alone = grouped.pop("figure", [])
    found = [_cause(factor, keys, judged) for factor, keys in grouped.items()]
    found += [Cause("figure", _headline(left[key]), [key.arm], [key.said]) for key in alone]
    left.clear()
    return sorted(found, key=lambda cause: -len(cause.figures))


def _factor(key: Key, session: Session, judged: Judgement) -> Factor:
    if METRICS[key.metric].kind == "latency":
        return "prefill"
    if key.metric == "acceptance_length":
        return "acceptance"
    if METRICS[key.metric].kind not in ("decode", "ratio"):
        return "figure"
    told = _estimate(judged, key)
    itself = key if told is not None and told.factors else _measured(key, session)
    step, accepted, first = _factors(itself, judged)
    loss_of_drafts = -(accepted or 0.0)
    if step is not None and step > SMALL and step >= loss_of_drafts:
        return "steps"
    if loss_of_drafts > SMALL:
        return "acceptance"
    if first is not None and first > TELLING:
        return "prefill"
    return "figure"


def _measured(key: Key, session: Session) -> Key:
    """For a ratio the decode figures of the same size and arm, which were played for it or beside it."""
    if METRICS[key.metric].kind != "ratio":
        return key
    size = key.question.partition("[")[2]
    series = [s for s in session.series if s.arm == key.arm and not s.derived_from]
    same = [s for s in series if s.question.partition("[")[2] == size and "output_tokens_per_s" in s.judged]
    return Key(same[0].question, key.arm, "output_tokens_per_s") if same else key


def _factors(key: Key, judged: Judgement) -> tuple[float | None, float | None, float | None]:
    """Relative changes of step time, acceptance length and TTFT of one series; None where not compared.

    Where a speed was judged as a product, its two factors are what is known best of steps and acceptance.
    """
    step, accepted, first = (
        _change(judged, key, metric) for metric in ("step_s", "acceptance_length", "ttft_s")
    )
    told = _estimate(judged, key)
    of = {factor.name: factor.change for factor in told.factors} if told else {}
    if of.get("steps") is not None and of.get("acceptance") is not None:
        faster, more = of["steps"] or 0.0, of["acceptance"] or 0.0
        is_a_time = METRICS[key.metric].better == "lower"
        step = faster if is_a_time else 1 / (1 + faster) - 1
        accepted = 1 / (1 + more) - 1 if is_a_time else more
    return step, accepted, first


def _change(judged: Judgement, key: Key, metric: str) -> float | None:
    estimate = _estimate(judged, Key(key.question, key.arm, metric))
    return estimate.change if estimate else None


def _estimate(judged: Judgement, key: Key) -> Estimate | None:
    verdict = judged.verdicts.get(key)
    return verdict.estimate if verdict else judged.informational.get(key)


WORDS: dict[Factor, tuple[str, str, str]] = {
    "steps": ("decode steps are slower", "time per step", "step_s"),
    "acceptance": ("fewer drafts are accepted", "acceptance length", "acceptance_length"),
    "prefill": ("prefill is slower", "TTFT", "ttft_s"),
}


def _cause(factor: Factor, keys: Sequence[Key], judged: Judgement) -> Cause:
    what, figure, metric = WORDS[factor]
    changes = [c for key in keys if (c := _change(judged, key, metric)) is not None]
    worst = max(changes, key=abs, default=None)
    size = f", {figure} {percent(worst, 0 if abs(worst) >= 0.1 else 1)}" if worst is not None else ""
    arms = sorted({key.arm for key in keys})
    others = sorted({key.arm for key in judged.verdicts} - set(arms))
    which = f" with {' and '.join(arms)} only" if others else ""
    text = f"{what}{size}{which}{_where(factor, keys, judged)}"
    return Cause(factor, text, arms, [key.said for key in keys])


def _where(factor: Factor, keys: Sequence[Key], judged: Judgement) -> str:
    """By the sizes that moved beside those that did not: only long prompts, only from so many clients on."""
    arms = {key.arm for key in keys}
    metrics = {key.metric for key in keys}
    held = [
        key
        for key, v in judged.verdicts.items()
        if v.word in ("pass", "improvement") and key.arm in arms and key.metric in metrics
    ]
    if (least := _from_size(CONTEXT, keys, held)) is not None and factor == "prefill":
        return f", only from prompts of {least} tokens on: prefill of long prompts"
    if (least := _from_size(CLIENTS, keys, held)) is not None:
        return f", only from {least} clients on: " + (
            "kernels of large batches" if factor == "steps" else "with many requests at a time"
        )
    return ""


def _from_size(pattern: re.Pattern[str], moved: Iterable[Key], held: Iterable[Key]) -> int | None:
    """The smallest size that moved, if every size that did not is smaller and there is one."""
    large = [size for key in moved if (size := _size(pattern, key)) is not None]
    small = [size for key in held if (size := _size(pattern, key)) is not None]
    return min(large) if large and small and max(small) < min(large) else None


def _size(pattern: re.Pattern[str], key: Key) -> int | None:
    found = pattern.search(key.question.partition("[")[2])
    return int(found[1]) if found else None


def _headline(verdict: Verdict) -> str:
    if verdict.change is None or verdict.word != "regression":
        return f"{verdict.question}, {verdict.arm}: {verdict.headline}"
    return f"{verdict.question}, {verdict.arm}: {verdict.estimate.label} {percent(verdict.change)}"
