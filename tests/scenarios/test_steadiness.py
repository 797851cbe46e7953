"""Windows of a long run: first against last, the lowest and not the mean."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.load import ClientHealth, RequestRecord, Round, SpecDetails, Timeline
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.steadiness import Steady, episodes, must_be_empty, must_be_idle, slices, unsteady, windows

CALM = ClientHealth(0, 0, 0, 0, 0, 0)


def _record(t_s, tokens, ended_s, correct=0, steps=0) -> RequestRecord:
    spec = SpecDetails(steps, correct, 3 * steps, (0,)) if steps else None
    line = Timeline(np.array(t_s, dtype=float), np.array(tokens, dtype=np.int64))
    return RequestRecord(
        0, "p", "code", 0.0, 0.0, 0.0, ended_s, line, 1, 0, int(tokens[-1]), 0, ("length",), spec, None, 1, 64
    )


def _round(*records: RequestRecord) -> Round:
    return Round(records, CALM, 10.0, 0.0, 0.0, "w", "h", "closed", 1)


def test_tokens_count_in_the_window_in_which_they_arrive():
    found = windows(_round(_record([0.5, 1.5, 2.5], [4, 10, 11], 2.5)), 3.0, count=3)
    assert [w.tokens_per_s for w in found] == [4.0, 6.0, 1.0]


def test_what_comes_after_the_end_is_left_out():
    found = windows(_round(_record([0.5, 9.0], [4, 100], 9.0)), 2.0, count=2)
    assert [w.tokens_per_s for w in found] == [4.0, 0.0]


def test_acceptance_is_of_the_answers_that_end_in_a_window():
    first = _record([0.1], [1], 0.5, correct=20, steps=10)
    second = _record([0.1], [1], 1.5, correct=0, steps=10)
    assert [w.acceptance_length for w in windows(_round(first, second), 3.0, count=3)] == [3.0, 1.0, None]


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ([20, 50, 100, 100, 100, 100], None),
        ([0, 0, 100, 100, 97, 95, 92], None),
        ([0, 0, 100, 95, 92, 88], "fades"),
        ([0, 0, 100, 100, 60, 100], "dips"),
        ([None, None, 3.2, None, 3.2, 3.1], None),
        ([None, None, None], None),
    ],
)
def test_fading_and_dipping(values, word):
    told = unsteady(values, "output tokens/s")
    assert (told is None) if word is None else word in told


@given(st.lists(st.floats(1, 1e4), min_size=4, max_size=12))
def test_a_run_that_only_gets_faster_never_fades(values):
    told = unsteady(sorted(values), "x")
    assert told is None or "fades" not in told


def _run(correct: int) -> Steady:
    round_ = _round(*(_record([0.1], [1], n + 0.5, correct=correct, steps=10) for n in range(4)))
    return Steady(round_, windows(round_, 4.0, count=4))


def test_a_full_cache_is_held_against_the_same_server_with_room_to_spare():
    alone = _run(correct=20)
    _run(correct=18).must_accept_like(alone)
    with pytest.raises(BrokenPromise, match=r"acceptance length 2\.000, with one client 3\.000 \(-33%\)"):
        _run(correct=10).must_accept_like(alone)


def test_unknown_acceptance_is_never_as_good():
    silent = _round(_record([0.1], [1], 0.5))
    with pytest.raises(BrokenPromise, match="unknown"):
        Steady(silent, []).must_accept_like(_run(correct=20))


def test_a_late_client_proves_nothing_about_the_server():
    late = dataclasses.replace(CALM, saturated=True, reason="late by 30 ms")
    round_ = dataclasses.replace(_round(_record([0.1], [1], 0.5)), client=late)
    with pytest.raises(InvalidMeasurement, match="client_saturated"):
        Steady(round_, []).must_hold()


def _streams(per_step, clients=8, seconds=8.0, step_s=0.01, seed=1) -> Round:
    """``clients`` streams for the whole time; ``per_step(t)`` is the mean number of tokens that a step yields at t."""
    draw = np.random.default_rng(seed)
    made = []
    for _ in range(clients):
        t_s = 0.05 + np.arange(1, int((seconds - 0.05) / step_s)) * step_s + draw.uniform(0, step_s)
        drafts = np.array([draw.binomial(3, (per_step(t) - 1) / 3) for t in t_s])
        tokens = np.cumsum(np.concatenate(([1], drafts + 1)))
        line = Timeline(np.concatenate(([0.05], t_s)), tokens)
        spec = SpecDetails(len(t_s), int(drafts.sum()), 3 * len(t_s), (0,))
        made.append(
            RequestRecord(
                0,
                "p",
                "code",
                0,
                0,
                0,
                seconds,
                line,
                1,
                0,
                int(tokens[-1]),
                0,
                ("length",),
                spec,
                None,
                1,
                64,
            )
        )
    return _round(*made)


def _steady(round_: Round, seconds=8.0) -> Steady:
    return Steady(round_, windows(round_, seconds), seconds)


@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_scatters_as_drafts_do_has_no_episodes(seed):
    assert episodes(slices(_streams(lambda t: 3.2, seed=seed), 8.0)) is None


@pytest.mark.parametrize(
    ("dead", "times"),
    [
        (lambda t: t % 2 < 1, "4.0 s of"),  # a second in every two
        (lambda t: 3 <= t < 3.5, "(3.0 to 3.5 s)"),  # once, for half a second
        (lambda t: t % 4 < 3, "6.0 s of"),  # most of the time
    ],
)
def test_episodes_are_told_with_their_times_however_much_of_the_run_they_take(dead, times):
    told = episodes(slices(_streams(lambda t: 1.0 if dead(t) else 3.2), 8.0))
    assert told is not None
    assert times in told
    assert "1.00 tokens per step" in told


def test_an_episode_breaks_the_promise_although_every_window_averages_it_away():
    round_ = _streams(lambda t: 1.0 if t % 2 < 1 else 3.2)
    with pytest.raises(BrokenPromise, match="acceptance falls in episodes"):
        _steady(round_).must_hold()
    _steady(_streams(lambda t: 3.2)).must_hold()


def test_a_stream_that_was_cut_anew_is_not_taken_for_steps():
    """Two steps in one event, then one token in each: sizes of events say nothing of acceptance there."""
    round_ = _streams(lambda t: 3.2)
    halved = [
        dataclasses.replace(r, timeline=Timeline(r.timeline.t_s[::2], r.timeline.tokens[::2]))
        for r in round_.requests
    ]
    _steady(dataclasses.replace(round_, requests=tuple(halved))).must_hold()


def test_a_level_that_is_lower_from_the_start_is_seen_beside_the_same_server_alone():
    loaded, alone = _steady(_streams(lambda t: 2.3)), _steady(_streams(lambda t: 3.2, clients=2))
    loaded.must_hold()
    with pytest.raises(BrokenPromise, match=r"collapses under load: .* \(-2[6-9]%\)"):
        loaded.must_accept_like(alone, "under load")


def test_prompts_that_differ_are_no_collapse():
    """Four answers alone that happen to be easy, against many: within what answers differ by."""
    alone = _round(
        *(_record([0.1], [1], n + 0.5, correct=c, steps=10) for n, c in enumerate((28, 22, 29, 15)))
    )
    full = _round(
        *(_record([0.1], [1], n + 0.5, correct=c, steps=10) for n, c in enumerate((12, 24, 15, 28) * 5))
    )
    Steady(full, windows(full, 4.0)).must_accept_like(Steady(alone, windows(alone, 4.0)))


class _Counters:
    def __init__(self, running, queued, usage):
        self.running_requests, self.queued_requests, self.token_usage = running, queued, usage


def test_what_is_given_back_late_is_waited_for():
    seen = iter([_Counters(3, 1, 0.4), _Counters(0, 0, 0.0)])
    must_be_idle(lambda: next(seen), "a test")


def test_a_server_without_counters_has_nothing_to_say():
    must_be_idle(lambda: None, "a test")
    must_be_empty(lambda: None, "a test")


def test_what_stays_is_told_with_what_came_before(monkeypatch):
    monkeypatch.setattr("suite.session.steadiness.IDLE_WITHIN_S", 0.0)
    with pytest.raises(BrokenPromise, match="after eight clients hung up: 2 requests still running"):
        must_be_idle(lambda: _Counters(2, 0, 0.0), "eight clients hung up")
    with pytest.raises(BrokenPromise, match=r"3\.1% of the KV cache in use"):
        must_be_empty(lambda: _Counters(0, 0, 0.031), "a test")
