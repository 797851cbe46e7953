"""What must not matter to a verdict: order, units, storing in between; and what more data may not do."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import msgspec
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import BaselineStore, Found, Key, Launch, Session, judge, load_run, save_run
from suite.gate.baselines import Baseline
from suite.gate.decide import decide
from suite.gate.layout import Column, Layout
from tests.gate.sessions import recorded, session

changes = st.sampled_from([0.0, 0.01, 0.03, 0.05, 0.2, -0.05])
noises = st.sampled_from([0.0, 0.003, 0.03])
work = settings(deadline=None, max_examples=12)


def stored(noise: float, sessions: int) -> BaselineStore:
    folder = Path(tempfile.mkdtemp(prefix="gate-"))
    return recorded(folder, sessions=sessions, noise=noise)


STORES = {(noise, n): stored(noise, n) for noise in (0.0, 0.003, 0.03) for n in (1, 5)}
sizes = st.sampled_from([1, 5])


@work
@given(changes, noises, sizes, st.randoms(use_true_random=False))
def test_order_of_series_baselines_and_metrics_does_not_matter(
    change: float, noise: float, n: int, shuffle: random.Random
) -> None:
    run = session(slow={"mtp-on": change}, noise=noise)
    found = STORES[noise, n].sessions_for(run)
    expected = judge(run, found)

    def shuffled(launch: Launch) -> Launch:
        names = list(launch.rounds)
        shuffle.shuffle(names)
        return msgspec.structs.replace(launch, rounds={name: launch.rounds[name] for name in names})

    series = [
        msgspec.structs.replace(s, launches=[shuffled(launch) for launch in s.launches]) for s in run.series
    ]
    shuffle.shuffle(series)
    turned = {}
    for where in shuffle.sample(sorted(found.baselines), len(found.baselines)):
        sessions = list(found.baselines[where].sessions)
        turned[where] = msgspec.structs.replace(found.baselines[where], sessions=sessions)
    assert judge(msgspec.structs.replace(run, series=series), Found(turned)) == expected


@work
@given(changes, noises, sizes)
def test_a_stored_run_is_judged_as_it_was(change: float, noise: float, n: int) -> None:
    run = session(slow={"mtp-on": change}, noise=noise, looks=[3, 6, 9])
    store = STORES[noise, n]
    online = judge(run, store.sessions_for(run))
    with tempfile.TemporaryDirectory() as folder:
        save_run(Path(folder), run, online)
        again = load_run(Path(folder))
    assert judge(again, store.sessions_for(again)) == online


def scaled(session_: Session, baseline: Found, metric: str, factor: float) -> tuple[Session, Found]:
    """The same measurements with one metric in another unit."""

    def launch(one: Launch) -> Launch:
        rounds = {
            k: [v if v is None or k != metric else v * factor for v in values]
            for k, values in one.rounds.items()
        }
        return msgspec.structs.replace(one, rounds=rounds)

    def of_baseline(one: Baseline) -> Baseline:
        sessions = [
            msgspec.structs.replace(s, launches=[launch(x) for x in s.launches]) for s in one.sessions
        ]
        return msgspec.structs.replace(one, sessions=sessions)

    series = [msgspec.structs.replace(s, launches=[launch(x) for x in s.launches]) for s in session_.series]
    found = Found({where: of_baseline(b) for where, b in baseline.baselines.items()})
    return msgspec.structs.replace(session_, series=series), found


@work
@given(
    changes,
    noises,
    sizes,
    st.sampled_from(["ttft_s", "tpot_s", "output_tokens_per_s"]),
    st.sampled_from([1e3, 1e-3, 60.0]),
)
def test_units_do_not_matter(change: float, noise: float, n: int, metric: str, factor: float) -> None:
    run = session(slow={"mtp-on": change}, ttft=change, noise=noise)
    found = STORES[noise, n].sessions_for(run)
    expected = judge(run, found)
    other = judge(*scaled(run, found, metric, factor))
    assert {k: v.word for k, v in other.verdicts.items()} == {k: v.word for k, v in expected.verdicts.items()}
    for key, verdict in expected.verdicts.items():
        assert verdict.change is not None
        assert (
            abs((other.verdicts[key].change or 0.0) - verdict.change) < 2e-5
        )  # values are kept to six digits


@work
@given(st.sampled_from([0.03, 0.05, 0.2]), noises, sizes, st.integers(2, 4))
def test_more_of_the_same_never_turns_a_regression_into_a_pass(
    change: float, noise: float, n: int, times: int
) -> None:
    run = session(slow={"mtp-on": change}, noise=noise)
    store = STORES[noise, n]
    before = judge(run, store.sessions_for(run)).verdicts
    series = [msgspec.structs.replace(s, launches=s.launches * times) for s in run.series]
    more = msgspec.structs.replace(run, series=series)
    after = judge(more, store.sessions_for(more)).verdicts
    for key in (k for k, v in before.items() if v.word == "regression"):
        assert after[key].word != "pass"


@work
@given(
    st.lists(
        st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.none(), max_size=5),
        min_size=0,
        max_size=4,
    ),
    sizes,
)
def test_any_values_at_all_end_in_a_verdict(launches: list[list[float | None]], n: int) -> None:
    run = session()
    series = [
        msgspec.structs.replace(
            s, launches=[Launch({"output_tokens_per_s": values, "ttft_s": values}) for values in launches]
        )
        if s.arm == "mtp-on"
        else s
        for s in run.series
    ]
    strange = msgspec.structs.replace(run, series=series)
    judgement = judge(strange, STORES[0.003, n].sessions_for(strange))
    verdict = judgement.verdicts[Key("decode_throughput[c1]", "mtp-on", "output_tokens_per_s")]
    usable = bool(launches) and all(
        any(v is not None and 0 < v < np.inf for v in values) for values in launches
    )
    assert (verdict.word == "invalid") is not usable


@settings(deadline=None, max_examples=30)
@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_any_shape_with_holes_gives_finite_decisions(
    sessions: int, base_launches: int, launches: int, columns: int, seed: int, still: bool
) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.choice(["decode", "latency", "count", "ratio"], columns)
    layout = Layout(tuple(Column(f"q{i}", f"arm{i % 3}", kind) for i, kind in enumerate(kinds)))
    scale = 0.0 if still else 0.01
    base = scale * rng.standard_normal((1, sessions, base_launches, columns))
    base[:, 1:][rng.random(base[:, 1:].shape) < 0.2] = np.nan
    new = scale * rng.standard_normal((1, launches, columns))
    decision = decide(base, new, layout)
    for values in (decision.change, decision.relative, decision.se, decision.raw_se, decision.df):
        assert np.isfinite(values).all()
    assert not (decision.regression & decision.passed).any()
    assert not (decision.regression & decision.improvement).any()
    if still:
        assert decision.passed.all()
