"""Acceptance in what a launch keeps: prompt by prompt, round by round, and what of a speed it explains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from suite.gate.records import Launch
from suite.gate.robust import Array
from suite.gate.values import aside, round_logs

ACCEPTANCE = "acceptance_length"
STEP = "step_s"
OF_THE_ROUND = ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "round_s", "mtp_speedup")
"""Steps times acceptance, summed over the requests of a round and as many in flight as there were."""
OF_A_REQUEST = ("tpot_s", "e2e_s")
"""A median over requests: its steps are the median of time per step, which each request tells exactly."""
OF_A_CHUNK = ("tokens_per_chunk",)
"""A chunk is a step: nothing but acceptance."""
BORNE = (*OF_THE_ROUND, *OF_A_REQUEST, *OF_A_CHUNK)


def prompt_logs(launch: Launch) -> dict[str, float]:
    """ln of the acceptance length of each prompt's answers, by prompt; empty where none is told.

    A prompt asked again in a later round (`name@2`), or at the same place of it where only counts are kept, is the
    same prompt: two answers to it are one witness of how a build treats it, not two.
    """
    sums: dict[str, list[int]] = {}
    for name, _, drafts, steps in _told(launch):
        total = sums.setdefault(name, [0, 0])
        total[0] += drafts
        total[1] += steps
    return {name: math.log1p(drafts / steps) for name, (drafts, steps) in sums.items() if steps > 0}


def round_acceptance(launch: Launch) -> dict[int, float]:
    """ln of the acceptance length of each round's own requests, by round: 1 + correct drafts / verify steps."""
    sums: dict[int, list[int]] = {}
    for _, round_, drafts, steps in _told(launch):
        total = sums.setdefault(round_, [0, 0])
        total[0] += drafts
        total[1] += steps
    return {i: math.log1p(drafts / steps) for i, (drafts, steps) in sums.items() if steps > 0}


def _told(launch: Launch) -> list[tuple[str, int, int, int]]:
    """Prompt, round, correct drafts and verify steps of every answer in a trusted round."""
    bad, answers = aside(launch), launch.answers
    if answers is not None and answers.steps:
        asked = [_asked(prompt) for prompt in answers.prompts]
        rows = [(*a, d, s) for a, d, s in zip(asked, answers.drafts, answers.steps, strict=True)]
    else:
        rows = [
            (f"#{place}", round_, drafts, steps)
            for round_, counts in enumerate(launch.counts.get(ACCEPTANCE, []))
            for place, (drafts, steps) in enumerate(zip(counts.numerator, counts.denominator, strict=True))
        ]
    return [row for row in rows if row[1] not in bad]


def _asked(prompt: str) -> tuple[str, int]:
    """`name#2@3` is the prompt `name`, for the second time, in the third round (2, counted from 0)."""
    name, at, number = prompt.rpartition("@")
    name, round_ = (name, int(number) - 1) if at and number.isdigit() else (prompt, 0)
    first, mark, again = name.rpartition("#")
    return (first if mark and first and again.isdigit() else name), round_


def same_texts(old: Sequence[Launch], new: Sequence[Launch]) -> tuple[int, int]:
    """Of the prompts whose texts both sides kept: how many were answered with a text that the other side has, and all."""
    before, now = _texts(old), _texts(new)
    shared = before.keys() & now.keys()
    return sum(bool(before[prompt] & now[prompt]) for prompt in shared), len(shared)


def _texts(launches: Sequence[Launch]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for launch in launches:
        if launch.answers is not None and launch.answers.texts:
            for prompt, text in zip(launch.answers.prompts, launch.answers.texts, strict=True):
                found.setdefault(prompt, set()).add(text)
    return found


def decode_share(launches: Sequence[Launch]) -> float:
    """The share of a request's time that decoding takes, by which acceptance moves its speed; 1 where it is not told."""
    shares = [
        1 - first / whole
        for launch in launches
        for first, whole in zip(_rounds(launch, "ttft_s"), _rounds(launch, "e2e_s"), strict=False)
        if first is not None and whole is not None and 0 < first < whole
    ]
    return float(np.median(shares)) if shares else 1.0


def step_rounds(launch: Launch, metric: str, share: float) -> Array:
    """ln of what each round's value is worth at one token a step and full concurrency; NaN where it is not told.

    It rises and falls as steps do, and not with what the prompts of this build happened to yield. share: of the value
    that follows acceptance (`decode_share`).
    """
    if metric in OF_A_REQUEST:
        steps = [math.log(v) if v is not None and v > 0 else math.nan for v in _rounds(launch, STEP)]
        return _without(np.array(steps), launch)
    logs = _without(round_logs(launch, metric), launch)
    own, rises = round_acceptance(launch), -1.0 if metric == "round_s" else 1.0
    yielded = np.array([share * own.get(i, math.nan) for i in range(len(logs))])
    if metric in OF_THE_ROUND:
        yielded = yielded + _in_flight(launch, len(logs))
    return np.asarray(logs - rises * yielded)


def _in_flight(launch: Launch, rounds: int) -> Array:
    """ln of the mean number of requests in flight, by round: answers of other lengths end a round otherwise."""
    told = [math.log(v) if v is not None and v > 0 else 0.0 for v in _rounds(launch, "concurrency_achieved")]
    return np.array((told + [0.0] * rounds)[:rounds])


def _without(logs: Array, launch: Launch) -> Array:
    kept = np.array(logs, dtype=float)
    kept[[i for i in aside(launch) if i < len(kept)]] = math.nan
    return kept


def _rounds(launch: Launch, metric: str) -> Sequence[float | None]:
    return launch.rounds.get(metric) or launch.beside.get(metric, [])


def aligned(rows: Sequence[Mapping[str, float]], prompts: Sequence[str]) -> Array:
    """The values of each row at each prompt; NaN where it has none."""
    return np.array([[row.get(prompt, math.nan) for prompt in prompts] for row in rows])
