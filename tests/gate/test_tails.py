"""Tails of latency: the interval holds the quantile, few requests are not judged, and a longer tail is told."""

from __future__ import annotations

import math
import zlib
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import BaselineStore, Invalid, Key, Launch, Session, judge
from suite.gate.tails import QUANTILE, enough, interval, log_variance, pooled, quantile, tail_of
from tests.gate.sessions import QUESTION, session

TAIL = Key(QUESTION, "mtp-on", "itl_p99_s")


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.floats(0.001, 10), min_size=1, max_size=600),
    st.integers(1, 6),
    st.randoms(use_true_random=False),
)
def test_rounds_pooled_give_the_quantile_of_all(values: list[float], rounds: int, shuffle: object) -> None:
    """However the values fall on the rounds, as long as no round holds more than five times its share of the tail."""
    shuffle.shuffle(values)  # type: ignore[attr-defined]
    parts = [tail_of(values[i::rounds]) for i in range(rounds)]
    tail = pooled(Launch({}, tails={"x": parts}), "x")
    assert tail.n == len(values)
    rank = math.ceil(QUANTILE * len(values))
    assert quantile(tail) == sorted(values)[rank - 1]


@pytest.mark.parametrize("n", [400, 1000, 5000])
@pytest.mark.parametrize("kind", ["lognormal", "stalls"])
def test_the_interval_holds_the_quantile(n: int, kind: str) -> None:
    """95 % or more: order statistics are whole numbers, so a little more."""
    rng = np.random.default_rng(n)
    held = []
    for _ in range(400):
        x = np.exp(rng.standard_normal(n))
        truth = math.exp(2.3263)
        if kind == "stalls":  # two in a hundred are a hundred times as long: the quantile is among them
            x, truth = np.where(rng.random(n) < 0.02, 100 + x, x), 100 + 1.0
        low, high = interval(tail_of(x.tolist()))
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.94


def test_the_variance_is_about_that_of_the_quantile() -> None:
    rng = np.random.default_rng(0)
    tails = [tail_of(np.exp(0.3 * rng.standard_normal(2000)).tolist()) for _ in range(400)]
    seen = np.var([math.log(quantile(t)) for t in tails])
    assert np.mean([log_variance(t) for t in tails]) == pytest.approx(seen, rel=0.4)


@pytest.mark.parametrize(("n", "told"), [(0, False), (100, False), (367, False), (368, True), (10_000, True)])
def test_an_interval_needs_so_many_requests(n: int, told: bool) -> None:
    assert enough(n) is told
    values = np.linspace(1, 2, n).tolist()
    assert math.isfinite(interval(tail_of(values))[1]) is told
    assert math.isnan(log_variance(tail_of(values))) is not told


def test_a_round_set_aside_has_no_part_in_the_tail() -> None:
    parts = [tail_of([1.0] * 500), tail_of([9.0] * 500)]
    launch = Launch({}, tails={"x": parts}, invalid=[Invalid("throttled", "hot", 1)])
    assert quantile(pooled(launch, "x")) == 1.0


# whole runs


def with_tails(run: Session, requests: int, stalls: float = 0.0) -> Session:
    """The run with `requests` gaps a round, of which a share of `stalls` is five times as long."""
    rng = np.random.default_rng(zlib.crc32(run.run_id.encode()))

    def launch(one: Launch) -> Launch:
        parts = []
        for _ in one.rounds["tpot_s"]:
            gaps = 0.01 * np.exp(0.05 * rng.standard_normal(requests))
            parts.append(tail_of(np.where(rng.random(requests) < stalls, 5 * gaps, gaps).tolist()))
        worst = [quantile(part) for part in parts]
        return msgspec.structs.replace(
            one, rounds=one.rounds | {"itl_p99_s": worst}, tails={"itl_p99_s": parts}
        )

    series = [
        msgspec.structs.replace(
            s, launches=[launch(x) for x in s.launches], judged=["output_tokens_per_s", "tpot_s"]
        )
        if s.question == QUESTION
        else s
        for s in run.series
    ]
    return msgspec.structs.replace(run, series=series)


def store_of(folder: Path, requests: int) -> BaselineStore:
    store = BaselineStore(folder, "simulator")
    for i in range(4):
        store.record(with_tails(session(f"recorded-{i}", day=i + 1), requests))
    return store


def test_a_longer_tail_is_a_regression_of_the_tail_alone(tmp_path: Path) -> None:
    store = store_of(tmp_path, 200)
    same, worse = with_tails(session("a"), 200), with_tails(session("b"), 200, stalls=0.03)
    assert judge(same, store.sessions_for(same)).verdicts[TAIL].word == "pass"
    found = judge(worse, store.sessions_for(worse)).verdicts
    assert found[TAIL].word == "regression"
    assert {v.word for k, v in found.items() if k.metric != "itl_p99_s"} == {"pass"}


def test_too_few_requests_are_told_and_not_judged(tmp_path: Path) -> None:
    store = store_of(tmp_path, 20)
    run = with_tails(session("a"), 20, stalls=0.5)
    judgement = judge(run, store.sessions_for(run))
    assert TAIL not in judgement.verdicts
    assert judgement.informational[TAIL].change is not None


def test_a_baseline_without_tails_leaves_them_unjudged(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, "simulator")
    store.record(session("recorded"))
    run = with_tails(session("a"), 200)
    assert TAIL not in judge(run, store.sessions_for(run)).verdicts


def test_a_tail_is_no_control_of_speed(tmp_path: Path) -> None:
    """A tail that triples in both arms says nothing of the speed of the machine."""
    store = store_of(tmp_path, 200)
    run = with_tails(session("a"), 200, stalls=0.05)
    plain = with_tails(session("a"), 200)
    words = [
        {k: v.word for k, v in judge(r, store.sessions_for(r)).verdicts.items() if k.metric != "itl_p99_s"}
        for r in (run, plain)
    ]
    assert words[0] == words[1]
