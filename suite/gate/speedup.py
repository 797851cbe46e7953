"""The MTP speed-up as a series of its own: the ratio of two arms of one session, launch by launch."""

from __future__ import annotations

import math

import numpy as np

from suite.gate.records import Facts, Invalid, Launch, Series
from suite.gate.values import launch_log, round_logs

BESIDE = ("ttft_s", "e2e_s", "concurrency_achieved")
"""What tells the steps of an arm from its acceptance, beside the answers."""


def speedup(
    question: str, on: Series, off: Series, *, metric: str = "output_tokens_per_s", name: str = "mtp_speedup"
) -> Series:
    """The series `question` of arm `on`: for each launch, round by round, `on` / `off`.

    Launches and rounds are paired by number; one without a partner, or without a value on both sides, says so. The
    machine's speed of that day cancels, which is why a speed-up is judged without controls. What tells the steps of
    `on` from its acceptance is carried along. Each side's identity
    and subject are carried along, so that a change in either arm is seen.
    """
    launches = []
    for number in range(max(len(on.launches), len(off.launches))):
        pair = [series.launches[number] if number < len(series.launches) else None for series in (on, off)]
        launches.append(_ratio(pair[0], pair[1], metric, name, (on.arm, off.arm)))
    return Series(
        question=question,
        arm=on.arm,
        identity=_both(on.arm, on.identity, off.arm, off.identity),
        subject=_both(on.arm, on.subject, off.arm, off.subject),
        launches=launches,
        derived_from=[on.arm, off.arm],
        judged=[name],
    )


def _ratio(on: Launch | None, off: Launch | None, metric: str, name: str, arms: tuple[str, str]) -> Launch:
    if on is None or off is None:
        return Launch({}, missing={name: f"{arms[on is not None]} has no such launch"})
    invalid = [
        Invalid(i.name, f"{arm}: {i.evidence}", i.round)
        for arm, launch in zip(arms, (on, off), strict=True)
        for i in launch.invalid
    ]
    logs = [launch_log(launch, metric) for launch in (on, off)]
    lost = [arm for arm, log in zip(arms, logs, strict=True) if math.isnan(log)]
    if lost:
        return Launch({}, missing={name: f"{lost[0]} has no {metric}"}, invalid=invalid)
    ratios = _round_ratios(on, off, metric)
    if not ratios:
        return Launch({name: [math.exp(logs[0] - logs[1])]}, invalid=invalid)
    return Launch(
        {name: ratios},
        counts={} if on.answers else on.counts,
        invalid=invalid,
        answers=on.answers,
        beside={needed: on.rounds[needed] for needed in BESIDE if needed in on.rounds},
    )


def _round_ratios(on: Launch, off: Launch, metric: str) -> list[float | None]:
    """The ratio round by round, so that its noise is seen; empty where the rounds do not pair up."""
    above, below = round_logs(on, metric), round_logs(off, metric)
    if len(above) != len(below) or not np.isfinite(above - below).any():
        return []
    return [None if math.isnan(x) else math.exp(x) for x in (above - below).tolist()]


def _both(on: str, of_on: Facts, off: str, of_off: Facts) -> Facts:
    """Facts that agree under their own name, those that differ under `arm: name`."""
    same = {k: v for k, v in of_on.items() if k in of_off and of_off[k] == v}
    rest = {f"{on}: {k}": v for k, v in of_on.items() if k not in same}
    return same | rest | {f"{off}: {k}": v for k, v in of_off.items() if k not in same}
