"""Our rule and the peers' rules, all asked the same question: which metrics of which campaigns regressed?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from proofs.calibrate.noise import Campaigns
from suite.gate.decide import Decision, decide
from suite.gate.deltas import RoundNoise
from suite.gate.judge import shares
from suite.gate.layout import Layout
from suite.gate.robust import holm, trimmed_mean

Flags: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True)
class Outcome:
    """Per campaign and metric (N, G); `launches` (N,): launches spent per arm."""

    regression: Flags
    passed: Flags
    improvement: Flags
    launches: NDArray[np.float64]

    @property
    def undecided(self) -> Flags:
        """Neither passed, nor regressed, nor improved."""
        return ~(self.regression | self.passed | self.improvement)


Rule: TypeAlias = Callable[[Campaigns, Layout], Outcome]


def our_decision(campaigns: Campaigns, layout: Layout, share: float = 1.0) -> Decision:
    """What the gate itself computes on these campaigns."""
    base, new = campaigns.launch_values()
    return decide(base, new, layout, share=share, rounds=round_noise(campaigns))


def round_noise(campaigns: Campaigns) -> RoundNoise:
    """As the gate has it: what rounds say of a launch's value."""
    r = campaigns.new.shape[-1]
    return RoundNoise(
        campaigns.base.var(axis=-1, ddof=1).mean(axis=(1, 2)) / r, campaigns.new.var(axis=-1, ddof=1) / r
    )


def ours(campaigns: Campaigns, layout: Layout) -> Outcome:
    """One look at all launches."""
    d = our_decision(campaigns, layout)
    spent = np.full(len(campaigns.new), float(campaigns.new.shape[1]))
    return Outcome(d.regression, d.passed, d.improvement, spent)


def ours_with_looks(campaigns: Campaigns, layout: Layout, looks: tuple[int, ...] = (3, 6, 9)) -> Outcome:
    """Looks after 3, 6 and 9 launches; a verdict once given stays, and only undecided runs go on."""
    base, new = campaigns.launch_values()
    rounds = round_noise(campaigns)
    shape = (new.shape[0], new.shape[2])
    words = {name: np.zeros(shape, dtype=bool) for name in ("regression", "improvement", "passed")}
    open_, spent = np.ones(shape, dtype=bool), np.zeros(shape[0])
    for launches, share in zip(looks, shares(len(looks)), strict=True):
        running = np.asarray((open_ & layout.gated).any(axis=1))
        spent = np.where(running, launches, spent)
        noise = RoundNoise(rounds.base, rounds.new[:, :launches])
        d = decide(base, new[:, :launches], layout, share=share, rounds=noise)
        for name, flags in words.items():
            flags |= open_ & running[:, None] & getattr(d, name)
        open_ &= ~(words["regression"] | words["improvement"] | words["passed"])
    return Outcome(words["regression"], words["passed"], words["improvement"], spent)


def _threshold(worse: Flags, better: Flags, campaigns: Campaigns) -> Outcome:
    spent = np.full(len(campaigns.new), float(campaigns.new.shape[1]))
    return Outcome(worse, ~worse & ~better, better, spent)


def pytest_benchmark(campaigns: Campaigns, layout: Layout) -> Outcome:
    """`--benchmark-compare-fail=mean:5%` against the last saved run: the means of all rounds, as times."""
    old, new = np.exp(campaigns.base[:, -1]).mean(axis=(1, 3)), np.exp(campaigns.new).mean(axis=(1, 3))
    return _threshold(new > old * 1.05, new < old / 1.05, campaigns)


def fixed_five(campaigns: Campaigns, layout: Layout) -> Outcome:
    """A fixed 5 % on the mean of all recorded sessions."""
    old, new = np.exp(campaigns.base).mean(axis=(1, 2, 4)), np.exp(campaigns.new).mean(axis=(1, 3))
    return _threshold(new > old * 1.05, new < old / 1.05, campaigns)


def tensorrt_llm(threshold: float) -> Rule:
    """TensorRT-LLM's post-merge (5 %) and pre-merge (10 %) gate: against the rolling P95 of earlier runs' values."""

    def rule(campaigns: Campaigns, layout: Layout) -> Outcome:
        speed = np.exp(-campaigns.base).mean(axis=(2, 4))
        best, new = np.percentile(speed, 95, axis=1), np.exp(-campaigns.new).mean(axis=(1, 3))
        return _threshold(new < best * (1 - threshold), new > best * (1 + threshold), campaigns)

    return rule


def asv(factor: float) -> Rule:
    """asv's `continuous`: Mann-Whitney U on all rounds at p < 0.002, and medians that differ by the factor."""

    def rule(campaigns: Campaigns, layout: Layout) -> Outcome:
        old = (
            campaigns.base[:, -1]
            .transpose(0, 2, 1, 3)
            .reshape(len(campaigns.base), campaigns.base.shape[3], -1)
        )
        new = campaigns.new.transpose(0, 2, 1, 3).reshape(len(campaigns.new), campaigns.new.shape[2], -1)
        p = stats.mannwhitneyu(old, new, axis=-1, method="asymptotic").pvalue
        ratio = np.exp(np.median(new, axis=-1) - np.median(old, axis=-1))
        return _threshold((p < 0.002) & (ratio > factor), (p < 0.002) & (ratio < 1 / factor), campaigns)

    return rule


def welch(campaigns: Campaigns, layout: Layout) -> Outcome:
    """What a statistician might try first: Welch's t on launch means of the last session, Holm, margin 2 %."""
    old, new = trimmed_mean(campaigns.base[:, -1]), trimmed_mean(campaigns.new)
    found = stats.ttest_ind(new, old, axis=1, equal_var=False, alternative="greater")
    worse = holm(np.asarray(found.pvalue), 0.01) & (new.mean(axis=1) - old.mean(axis=1) > 0.02)
    return _threshold(worse, np.zeros_like(worse), campaigns)


PEERS: dict[str, Rule] = {
    "pytest-benchmark mean:5%": pytest_benchmark,
    "fixed 5 %": fixed_five,
    "TensorRT-LLM P95, 5 %": tensorrt_llm(0.05),
    "TensorRT-LLM P95, 10 %": tensorrt_llm(0.10),
    "asv, factor 1.1": asv(1.1),
    "asv, factor 1.02": asv(1.02),
    "Welch on launches": welch,
}
