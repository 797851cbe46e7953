"""Metrics against values worked out by hand, and against properties that must hold for any round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite import metrics
from suite.load import ClientHealth, Fault, FaultKind, RequestRecord, Round, SpecDetails, Timeline
from suite.metrics import METRICS, NOT_REPORTED, SLO


def record(arrivals: list[tuple[float, int]], **changes: Any) -> RequestRecord:
    """A good request started at 1 s, with these (time, cumulative tokens)."""
    line = Timeline(
        np.array([t for t, _ in arrivals], dtype=float), np.array([n for _, n in arrivals], dtype=np.int64)
    )
    tokens = arrivals[-1][1] if arrivals else None
    fields: dict[str, Any] = {
        "index": 0,
        "prompt": "p",
        "kind": "code",
        "intended_s": 1.0,
        "started_s": 1.0,
        "origin_s": 1.0,
        "ended_s": arrivals[-1][0] if arrivals else 1.0,
        "timeline": line,
        "prompt_tokens": 10,
        "cached_tokens": None,
        "completion_tokens": tokens,
        "reasoning_tokens": None,
        "finish_reasons": ("length",),
        "spec": None,
        "fault": None,
        "chunks": len(arrivals),
        "max_tokens": tokens or 0,
    }
    return RequestRecord(**{**fields, **changes})


def round_of(*records: RequestRecord, duration_s: float = 4.0, **changes: Any) -> Round:
    health = changes.pop("client", ClientHealth(0, 0, 0, 0, 0, 0))
    fields: dict[str, Any] = {
        "requests": records,
        "client": health,
        "duration_s": duration_s,
        "started_monotonic_s": 0.0,
        "started_unix_s": 0.0,
        "workload": "w",
        "workload_hash": "h",
        "load": "closed loop, 1 client",
        "concurrency": 1,
    }
    return Round(**{**fields, **changes})


FAILED = record([], fault=Fault(FaultKind.reset, "gone"), completion_tokens=None, max_tokens=8)
# chunks of 2, 3 and 3 tokens at 1.5, 2.0 and 3.0 s
THREE = record([(1.5, 2), (2.0, 5), (3.0, 8)])


def test_one_request_by_hand() -> None:
    assert metrics.ttft_s(THREE) == 0.5
    assert metrics.e2e_s(THREE) == 2.0
    assert metrics.tpot_s(THREE) == 1.5 / 6  # not 1.5 / 7: the first chunk held two tokens
    assert metrics.chunk_gaps_s(THREE).tolist() == [0.5, 1.0]
    assert metrics.token_gaps_s(THREE).tolist() == [0.5, 0, 0, 1.0, 0, 0]


def test_latency_counts_from_the_origin() -> None:
    assert metrics.ttft_s(record([(1.5, 2)], origin_s=0.25)) == 1.25


def test_a_round_by_hand() -> None:
    other = record([(1.25, 1), (3.25, 5)], started_s=1.0, prompt_tokens=20)
    values = metrics.summarize(round_of(THREE, other, FAILED))
    assert values["output_tokens_per_s"].value == 13 / 4
    assert values["total_tokens_per_s"].value == 43 / 4
    assert values["requests_per_s"].value == 2 / 4
    assert values["ttft_s"].value == (0.5 + 0.25) / 2
    assert values["ttft_s.mean"].value == 0.375
    assert values["tpot_s"].value == (0.25 + 0.5) / 2
    assert values["itl_s"].value == 1.0  # of 0.5, 1, 2
    assert values["tokens_per_chunk"].value == 13 / 5
    assert values["concurrency_achieved"].value == (2.0 + 2.25 + 0.0) / 4


def test_every_metric_of_the_registry_has_a_value_or_a_reason() -> None:
    for round_ in (round_of(), round_of(FAILED), round_of(THREE), round_of(duration_s=0.0)):
        values = metrics.summarize(round_)
        for name in (m.name for m in METRICS.values() if m.compute is not None):
            value = values[name]
            assert (value.value is None) == (value.reason is not None), name
            assert value.unit == METRICS[name].unit
        for name in values:
            assert name.split(".")[0] in METRICS


def test_failed_requests_are_in_no_average() -> None:
    with_failure, without = (metrics.summarize(round_of(THREE, *more)) for more in ((FAILED,), ()))
    for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "tokens_per_chunk"):
        assert with_failure[name].value == without[name].value


def test_absent_acceptance_is_none_with_a_reason_never_a_number() -> None:
    told = metrics.acceptance(round_of(THREE))
    assert told.length is None
    assert told.reason == NOT_REPORTED
    value = metrics.summarize(round_of(THREE))["acceptance_length"]
    assert value.value is None
    assert value.reason == NOT_REPORTED


def test_acceptance_by_hand_is_a_ratio_of_sums() -> None:
    # 2 steps with 4 right, 10 steps with 5 right: mean of ratios would be (3 + 1.5) / 2
    one = record([(2.0, 8)], spec=SpecDetails(2, 4, 6, (0, 1, 0, 1)))
    two = record([(2.0, 8)], spec=SpecDetails(10, 5, 30, (7, 1, 2, 0)))
    told = metrics.acceptance(round_of(one, two))
    assert told.length == 1 + 9 / 12
    assert (told.correct_drafts, told.verify_steps, told.proposed_drafts) == (9, 12, 36)
    # of 12 steps 5 accepted at least one draft, 3 at least two, 1 all three
    assert told.per_position == (5 / 12, 3 / 12, 1 / 12)


def test_acceptance_by_kind() -> None:
    code = record([(2.0, 8)], spec=SpecDetails(2, 4, 6, (0, 1, 0, 1)))
    prose = record([(2.0, 8)], kind="prose", spec=SpecDetails(4, 0, 12, (4, 0, 0, 0)))
    round_ = round_of(code, prose)
    assert metrics.acceptance(round_, "code").length == 3.0
    assert metrics.acceptance(round_, "prose").length == 1.0
    assert metrics.acceptance(round_, "maths").reason == "no request succeeded"


def test_acceptance_half_reported_or_meaningless_is_not_reported() -> None:
    spec = SpecDetails(2, 4, 6, (0, 1, 0, 1))
    half = round_of(record([(2.0, 8)], spec=spec), THREE)
    assert "only 1 of 2" in (metrics.acceptance(half).reason or "")
    random = round_of(record([(2.0, 8)], spec=spec), acceptance_meaningful=False)
    assert metrics.acceptance(random).length is None
    idle = round_of(record([(2.0, 8)], spec=SpecDetails(0, 0, 0, ())))
    assert metrics.acceptance(idle).reason == "no verify step in any answer"


@given(st.lists(st.lists(st.integers(0, 30), min_size=4, max_size=4).filter(any), min_size=1, max_size=8))
def test_per_position_acceptance_adds_up_to_the_length(histograms: list[list[int]]) -> None:
    specs = [
        SpecDetails(sum(h), sum(i * n for i, n in enumerate(h)), 3 * sum(h), tuple(h)) for h in histograms
    ]
    told = metrics.acceptance(round_of(*(record([(2.0, 8)], spec=s) for s in specs)))
    assert told.length is not None
    assert 1 <= told.length <= 4
    assert told.length == pytest.approx(1 + sum(told.per_position))
    assert list(told.per_position) == sorted(told.per_position, reverse=True)


@given(
    st.lists(st.tuples(st.floats(0.001, 2), st.integers(1, 9)), min_size=2, max_size=40),
    st.floats(0, 5),
)
def test_gaps_and_times_agree_for_any_timeline(steps: list[tuple[float, int]], shift: float) -> None:
    times = 1.0 + np.cumsum([g for g, _ in steps])
    counts = np.cumsum([n for _, n in steps])
    one = record([(float(t), int(n)) for t, n in zip(times, counts, strict=True)])
    span = float(times[-1] - times[0])
    assert metrics.chunk_gaps_s(one).sum() == pytest.approx(span)
    gaps = metrics.token_gaps_s(one)
    assert gaps.sum() == pytest.approx(span)
    assert len(gaps) == counts[-1] - counts[0]
    assert gaps.mean() == pytest.approx(metrics.tpot_s(one))
    assert np.count_nonzero(gaps) == len(steps) - 1
    moved = record(
        [(float(t) + shift, int(n)) for t, n in zip(times, counts, strict=True)], origin_s=1.0 + shift
    )
    assert metrics.ttft_s(moved) == pytest.approx(metrics.ttft_s(one))


def test_one_chunk_has_no_time_per_token() -> None:
    value = metrics.summarize(round_of(record([(1.5, 4)])))["tpot_s"]
    assert value.value is None
    assert value.reason == "every answer came in one arrival"


def test_a_server_that_counts_only_at_the_end_still_has_throughput_and_ttft() -> None:
    line = Timeline(np.array([1.5, 2.0, 2.5]), np.array([-1, -1, 6]), per_chunk=False)
    values = metrics.summarize(round_of(record([(2.5, 6)], timeline=line)))
    assert values["output_tokens_per_s"].value == 1.5
    assert values["ttft_s"].value == 0.5
    assert values["itl_s"].value == 0.5
    for name in ("tpot_s", "token_gap_s", "tokens_per_chunk"):
        assert values[name].value is None
        assert "continuous_usage_stats" in (values[name].reason or "")


def test_goodput_counts_only_what_keeps_every_limit() -> None:
    slow = record([(2.6, 2), (3.0, 4)])
    round_ = round_of(THREE, slow, FAILED)
    assert metrics.summarize(round_)["goodput_requests_per_s"].reason == "no SLO stated"
    value = metrics.summarize(round_, SLO(ttft_s=1.0))["goodput_requests_per_s"]
    assert value.value == 1 / 4
    assert value.detail["share"] == 1 / 3
    assert metrics.summarize(round_, SLO(ttft_s=2.0))["goodput_requests_per_s"].value == 2 / 4
    assert metrics.summarize(round_, SLO(ttft_s=2.0, itl_s=0.9))["goodput_requests_per_s"].value == 1 / 4
    assert (
        metrics.summarize(round_, SLO(tpot_s=0.24))["goodput_requests_per_s"].value == 1 / 4
    )  # slow has 0.2


def test_step_time_is_time_per_token_times_tokens_per_step() -> None:
    on = record([(1.5, 2), (2.0, 5), (3.0, 8)], spec=SpecDetails(2, 4, 6, (0, 1, 0, 1)))
    assert metrics.summarize(round_of(on))["step_s"].value == pytest.approx(0.25 * 3)
    assert metrics.summarize(round_of(THREE), speculative=False)["step_s"].value == 0.25
    assert "needs the tokens of a step" in (metrics.summarize(round_of(THREE))["step_s"].reason or "")
    random = round_of(on, acceptance_meaningful=False)  # step time is what random tokens are for
    assert metrics.summarize(random)["step_s"].value == pytest.approx(0.25 * 3)


def test_speedup() -> None:
    fast = round_of(THREE, duration_s=2.0)
    assert metrics.speedup(fast, round_of(THREE)).value == 2.0
    assert metrics.speedup(fast, round_of(FAILED)).value is None


def test_cached_prompt_tokens_are_summed_where_reported() -> None:
    some = round_of(record([(2.0, 8)], cached_tokens=4), record([(2.0, 8)], cached_tokens=5))
    assert metrics.summarize(some)["cached_prompt_tokens"].value == 9
    assert "--enable-cache-report" in (
        metrics.summarize(round_of(THREE))["cached_prompt_tokens"].reason or ""
    )


def names(round_: Round, **expected: Any) -> list[str]:
    return [reason.name for reason in metrics.validity(round_, **expected)]


def test_a_sound_round_is_valid() -> None:
    spec = SpecDetails(2, 4, 6, (0, 1, 0, 1))
    assert names(round_of(record([(1.5, 2), (2.0, 8)], spec=spec, cached_tokens=1)), draft_tokens=4) == []


def test_early_stops_name_the_shortest() -> None:
    early = record([(2.0, 5)], max_tokens=8, finish_reasons=("stop",), prompt="code-7")
    found = metrics.validity(round_of(THREE, early))
    assert [f.name for f in found] == ["early_stop"]
    assert "code-7" in found[0].evidence
    assert "5 of 8" in found[0].evidence
    assert names(round_of(THREE, early), full_length=False) == []


def test_cache_hits_and_a_late_client() -> None:
    hit = record([(2.0, 8)], prompt_tokens=10, cached_tokens=9)
    assert names(round_of(hit)) == ["cached_prompt_tokens"]
    assert names(round_of(hit), cached_share_max=None) == []
    late = ClientHealth(0, 0, 0, 0, 0, 0, saturated=True, reason="too slow")
    assert names(round_of(THREE, client=late)) == ["client_saturated"]


def test_failures_are_named_by_kind_with_their_words() -> None:
    missing = record([], fault=Fault(FaultKind.usage_missing, "no count"))
    broken = record([], fault=Fault(FaultKind.acceptance_identity, "9 is not 8"))
    found = metrics.validity(round_of(THREE, FAILED, missing, broken))
    assert {f.name for f in found} == {"failed_requests", "usage_missing", "acceptance_identity"}
    assert any("gone" in f.evidence for f in found)
    assert names(round_of()) == ["no_requests"]


def test_drafts_proposed_must_fit_the_resolved_configuration() -> None:
    spec = SpecDetails(2, 4, 6, (0, 1, 0, 1))
    round_ = round_of(record([(2.0, 8)], spec=spec))
    assert names(round_, draft_tokens=4) == []
    assert names(round_, draft_tokens=5) == ["acceptance_identity"]


def test_events_of_one_read_are_one_arrival() -> None:
    """A proxy hands on three events at once: the first arrival holds all their tokens, and no gap is zero."""
    together = record([(1.5, 2), (1.5, 4), (1.5, 6), (2.5, 8), (2.5, 10)])
    assert metrics.tpot_s(together) == 1.0 / 4
    assert metrics.chunk_gaps_s(together).tolist() == [1.0]
    assert metrics.token_gaps_s(together).tolist() == [1.0, 0, 0, 0]
    assert metrics.summarize(round_of(together))["tokens_per_chunk"].value == 10 / 2
    assert metrics.tpot_s(record([(1.5, 2), (1.5, 4)])) is None


@given(
    sizes=st.lists(st.integers(1, 6), min_size=2, max_size=20),
    cuts=st.integers(0, 4),
)
def test_how_events_are_cut_into_reads_does_not_change_time_per_token(sizes: list[int], cuts: int) -> None:
    """Splitting the tokens of one read over several events changes nothing that is measured."""
    totals = np.cumsum(sizes).tolist()
    whole = [(1.0 + 0.1 * i, n) for i, n in enumerate(totals)]
    split = [
        (t, k)
        for (t, n), size in zip(whole, sizes, strict=True)
        for k in range(max(n - size + 1, n - cuts), n + 1)
    ]
    for of in (metrics.tpot_s, metrics.ttft_s, metrics.e2e_s):
        assert of(record(split)) == of(record(whole))
    assert metrics.token_gaps_s(record(split)).tolist() == metrics.token_gaps_s(record(whole)).tolist()


def _sent(gaps: list[float]) -> RequestRecord:
    times = np.cumsum([1.5, *gaps]).tolist()
    return record([(t, i + 1) for i, t in enumerate(times)])


@pytest.mark.parametrize(
    ("gaps", "buffered"),
    [
        ([0.01] * 40, False),
        ([0.0, 0.0, 0.0, 0.04] * 10, True),  # four events a flush
        ([0.0, 0.0002, 0.0, 0.04] * 10, True),  # the network cut a flush in two
        ([0.0, 0.0, 0.02] * 20, True),  # three at a time
        (
            [0.0, 0.02] * 20,
            False,
        ),  # pairs: a busy machine sends so by itself, and the time per token is right
        ([0.0, 0.02, 0.02, 0.0, 0.0, 0.0, 0.02, 0.0, 0.02] * 5, False),  # a server that catches up, unevenly
        ([0.0] + [0.01] * 39, False),  # once
        ([0.0, 0.01, 0.01, 0.01] * 10, False),  # now and then: a late reader
        ([0.0] * 12, True),  # all at once
        ([0.0, 0.0], False),  # too few to say
    ],
)
def test_a_stream_that_comes_in_bursts_is_buffered(gaps: list[float], buffered: bool) -> None:
    names = [reason.name for reason in metrics.validity(round_of(_sent(gaps), _sent(gaps)))]
    assert ("buffering" in names) is buffered


@pytest.mark.parametrize(("lag_s", "buffered"), [(0.001, True), (0.039, True), (0.041, False)])
def test_bursts_say_nothing_where_the_machine_itself_is_as_late(lag_s: float, buffered: bool) -> None:
    burst = _sent([0.0, 0.0, 0.0, 0.04] * 10)
    found = metrics.validity(round_of(burst, burst, client=ClientHealth(0, lag_s, 0, 0, 0, 0)))
    assert ("buffering" in [reason.name for reason in found]) is buffered
