"""Why a metric moved, as far as this run can tell: slower steps or fewer accepted drafts, and what was changed."""

from __future__ import annotations

from suite.gate import Estimate, Judgement, Key, Verdict

SPEED = ("output_tokens_per_s", "tpot_s")
SMALL = 0.015
"""A change of the time of a step, or of acceptance, that explains nothing."""
TELLING = 0.1
"""A change of TTFT, which scatters more, that explains fewer tokens/s."""


def causes(verdict: Verdict, judgement: Judgement) -> list[str]:
    """Sentences about a metric that moved; empty for one that did not."""
    if verdict.word not in ("regression", "inconclusive"):
        return []
    said = [_step_or_acceptance(verdict, judgement)] if verdict.metric in SPEED else []
    changed = judgement.changes.get((verdict.question, verdict.arm))
    if changed:
        said.append(f"likely cause, changed since the baseline: {changed}")
    return [sentence for sentence in said if sentence]


def _step_or_acceptance(verdict: Verdict, judgement: Judgement) -> str | None:
    """Decode speed is tokens a step over seconds a step: which of the two moved."""
    step = _change(judgement, verdict, "step_s")
    accepted = _change(judgement, verdict, "acceptance_length")
    if step is None:
        return None
    if accepted is None:
        return f"steps got slower: time per step {step:+.1%}" if step > SMALL else None
    slower, fewer = step > SMALL, accepted < -SMALL
    figures = f"time per step {step:+.1%}, acceptance length {accepted:+.1%}"
    if slower and fewer:
        return f"steps got slower and fewer tokens were accepted: {figures}"
    if slower:
        return f"steps got slower, as many tokens were accepted: {figures}"
    if fewer:
        return f"fewer tokens were accepted, steps took as long: {figures}"
    first = _change(judgement, verdict, "ttft_s")
    if first is not None and first > TELLING:
        return (
            f"tokens came as fast once the first was there, but that came later: TTFT {first:+.1%}, {figures}"
        )
    return f"neither steps nor acceptance moved enough to explain it: {figures}"


def _change(judgement: Judgement, verdict: Verdict, metric: str) -> float | None:
    key = Key(verdict.question, verdict.arm, metric)
    judged = judgement.verdicts.get(key)
    estimate: Estimate | None = judged.estimate if judged else judgement.informational.get(key)
    return estimate.change if estimate else None
