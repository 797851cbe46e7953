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
from suite.metrics.formulas import concurrency_achieved


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
        ([0.0, 0.0, 0.0], True),  # the fewest that tell
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


def _held(round_: Round, **expected: Any) -> dict[str, str]:
    """Why a round is not to be believed: evidence by name."""
    return {reason.name: reason.evidence for reason in metrics.validity(round_, **expected)}


def test_bursts_are_told_by_how_many_how_large_and_how_long_the_silence_between_them() -> None:
    short = record([(1.5, 1), (1.6, 2)])  # says nothing, and stops nobody from being looked at
    bursts = _sent([0.0, 0.0, 0.0, 0.04, 0.0, 0.0, 0.04, 0.0, 0.0])
    told = _held(round_of(short, bursts, bursts))["buffering"]
    assert told.startswith(
        "20 events of 3 answers came in 6 bursts, up to 4 at once, 40 ms of silence between them: "
    )
    at_once = _held(round_of(_sent([0.0] * 12)))["buffering"]
    assert at_once.startswith("13 events of 1 answers came in 1 bursts, up to 13 at once: ")


def test_silence_that_is_just_as_long_as_the_machine_is_late_is_no_evidence() -> None:
    burst = _sent([0.0, 0.0, 0.0, 0.5] * 10)
    late = ClientHealth(0, 0.5, 0, 0, 0, 0)
    assert "buffering" not in _held(round_of(burst, client=late))


def test_each_kind_of_failure_is_told_by_its_first() -> None:
    more = record([], fault=Fault(FaultKind.reset, "gone again"), completion_tokens=None)
    refused = record([], fault=Fault(FaultKind.refused, "no listener"), completion_tokens=None)
    found = [reason.evidence for reason in metrics.validity(round_of(THREE, FAILED, more, refused))]
    assert found == [
        "1 of 4 requests refused; the first: no listener",
        "2 of 4 requests reset; the first: gone",
    ]


def test_a_client_beyond_its_limits_says_which() -> None:
    for reason, told in (("too slow", "too slow"), (None, "beyond its limits")):
        late = ClientHealth(0, 0, 0, 0, 0, 0, saturated=True, reason=reason)
        assert _held(round_of(THREE, client=late)) == {"client_saturated": told}


def test_answers_that_differ_in_what_they_tell_come_from_several_servers() -> None:
    told = record([(2.0, 8)], spec=SpecDetails(2, 4, 6, (0, 1, 0, 1)))
    mixed = _held(round_of(told, THREE, THREE))["mixed_answers"]
    assert mixed.startswith(
        "1 of 3 answers report speculative work and 2 do not: more than one server answers"
    )
    assert "mixed_answers" in _held(round_of(told, record([(2.0, 2)])))
    for tokens in (None, 0, 1):  # no step beyond prefill
        assert _held(round_of(told, record([(2.0, 1)], completion_tokens=tokens)), full_length=False) == {}


def test_an_answer_is_whole_at_max_tokens_of_each_of_its_choices() -> None:
    two = {"finish_reasons": ("length", "stop"), "max_tokens": 8}
    assert _held(round_of(record([(1.5, 8), (2.0, 16)], **two))) == {}
    early, earlier = record([(1.5, 8), (2.0, 15)], **two), record([(1.5, 8), (2.0, 12)], prompt="b", **two)
    silent = record([(2.0, 8)], completion_tokens=None)
    assert _held(round_of(early, earlier, THREE, silent))["early_stop"].startswith(
        "2 of 3 answers ended before max_tokens, the shortest (b) after 12 of 8 tokens, finish_reason 'length'"
    )
    nothing = record([(2.0, 8)], completion_tokens=0)
    assert "after 0 of 8 tokens" in _held(round_of(early, nothing))["early_stop"]


def test_cache_hits_are_a_share_of_the_prompts_that_tell() -> None:
    hit, missed = ({"prompt_tokens": 10, "cached_tokens": tokens} for tokens in (3, 0))
    unknown = {"prompt_tokens": None, "cached_tokens": 10}, {"prompt_tokens": 10, "cached_tokens": None}
    round_ = round_of(*(record([(2.0, 8)], **told) for told in (hit, missed, *unknown)))
    assert _held(round_, cached_share_max=0.15) == {}, "just as much as may be"
    assert _held(round_)["cached_prompt_tokens"] == (
        "3 of 20 prompt tokens came from the prefix cache (15%); at most 10% expected"
    )


@pytest.mark.parametrize(
    ("steps", "correct", "proposed", "told"),
    [
        (2, 6, 6, None),  # each one right
        (2, 4, 3, "4 correct drafts of only 3 proposed"),
        (2, 4, 1, "4 correct drafts of only 1 proposed"),
        (2, 4, 0, "0 drafts proposed in 2 verify steps, but 4 draft tokens per step propose 3 each: 6"),
        (2, 4, 7, "7 drafts proposed in 2 verify steps, but 4 draft tokens per step propose 3 each: 6"),
    ],
)
def test_drafts_are_counted_against_one_another_where_their_number_is_fixed(
    steps: int, correct: int, proposed: int, told: str | None
) -> None:
    round_ = round_of(record([(1.5, 2), (2.0, 8)], spec=SpecDetails(steps, correct, proposed, ())))
    assert _held(round_, draft_tokens=4).get("acceptance_identity") == told
    assert _held(round_) == {}, "adaptive: the number is not fixed"


def test_percentiles_are_those_of_all_requests() -> None:
    """TTFTs of 0, 1 ... 100 ms: the q-th percentile is q ms."""
    round_ = round_of(*(record([(1.0 + ms / 1000, 1), (2.0, 2)]) for ms in range(101)))
    values = metrics.summarize(round_)
    for name, ms in (
        ("ttft_s", 50),
        ("ttft_s.p90", 90),
        ("ttft_s.p95", 95),
        ("ttft_s.p99", 99),
        ("ttft_p99_s", 99),
    ):
        assert values[name].value == pytest.approx(ms / 1000)
    assert values["ttft_s"].detail["n"] == values["ttft_p99_s"].detail["n"] == 101
    assert sorted(values["ttft_p99_s"].values) == pytest.approx([ms / 1000 for ms in range(101)])


def test_where_nothing_succeeded_nothing_has_a_figure_and_each_says_so() -> None:
    for round_ in (round_of(), round_of(FAILED)):
        values = metrics.summarize(round_)
        assert [name for name, value in values.items() if value.value is not None] == []
        assert values["itl_s"].reason == values["ttft_s.p99"].reason == "no request succeeded"
    assert metrics.summarize(round_of(THREE))["ttft_s.p99"].reason is None
    assert (
        metrics.summarize(round_of(), SLO(ttft_s=1.0))["goodput_requests_per_s"].reason
        == "no request succeeded"
    )
    assert metrics.summarize(round_of(FAILED), SLO(ttft_s=1.0))["goodput_requests_per_s"].value == 0


def test_a_rate_needs_time_and_no_second_of_it() -> None:
    for name in ("output_tokens_per_s", "concurrency_achieved", "goodput_requests_per_s"):
        short = metrics.summarize(round_of(THREE, duration_s=0.5), SLO(ttft_s=1.0))[name]
        assert (
            short.value
            == {"output_tokens_per_s": 16, "concurrency_achieved": 4, "goodput_requests_per_s": 2}[name]
        )
        none = metrics.summarize(round_of(THREE, duration_s=0.0), SLO(ttft_s=1.0))[name]
        assert none.reason == "the round took no time"
    assert concurrency_achieved(round_of(THREE, duration_s=0.0)) is None


def test_why_there_is_no_time_between_tokens_is_the_server_only_where_tokens_must_be_counted() -> None:
    line = Timeline(np.array([1.5]), np.array([6]), per_chunk=False)
    values = metrics.summarize(round_of(record([(1.5, 6)], timeline=line)))
    for name in ("itl_s", "itl_p99_s"):
        assert values[name].reason == "every answer came in one arrival"
    for name in ("tpot_s", "token_gap_s", "step_s"):
        assert "continuous_usage_stats" in (values[name].reason or "")


def test_what_acceptance_is_made_of_is_told_where_it_is_told() -> None:
    one = record([(2.0, 8)], spec=SpecDetails(2, 4, 6, (0, 1, 0, 1)))
    detail = metrics.summarize(round_of(one))["acceptance_length"].detail
    assert detail == {
        "position_1": 1.0,
        "position_2": 0.5,
        "position_3": 0.5,
        "correct_drafts": 4,
        "verify_steps": 2,
    }
    assert metrics.summarize(round_of(THREE))["acceptance_length"].detail == {}


def test_requests_of_several_depths_have_the_positions_of_the_deepest() -> None:
    deep, shallow = SpecDetails(2, 4, 6, (0, 1, 0, 1)), SpecDetails(2, 1, 2, (1, 1))
    told = metrics.acceptance(round_of(*(record([(2.0, 8)], spec=s) for s in (shallow, deep))))
    assert told.per_position == (3 / 4, 1 / 4, 1 / 4)


def test_tokens_per_step_of_all_answers_together_leave_out_what_prefill_gave() -> None:
    answers = [THREE, record([(2.0, 4)]), record([(2.0, 1)], completion_tokens=None)]
    assert metrics.yield_of(answers, 5) == (7 + 3) / 5
    assert metrics.yield_of(answers, 0) is None
    assert metrics.yield_of([record([(2.0, 1)])], 5) is None
    assert metrics.yield_of([record([(2.0, 2)])], 0.5) == 2.0


def test_a_limit_is_kept_at_the_limit_itself_and_by_what_comes_at_once() -> None:
    exact = SLO(ttft_s=0.5, tpot_s=0.25, itl_s=1.0, e2e_s=2.0)
    assert metrics.meets(THREE, exact)
    for tighter in (SLO(ttft_s=0.49), SLO(tpot_s=0.24), SLO(itl_s=0.99), SLO(e2e_s=1.99)):
        assert not metrics.meets(THREE, tighter)
    assert metrics.meets(record([(1.5, 8)]), SLO(tpot_s=0.001, itl_s=0.001)), "one arrival has neither"
    assert not metrics.meets(record([]), SLO(ttft_s=1.0)), "what is not known is not kept"


@pytest.mark.parametrize(("tokens", "kept"), [(1, True), (2, False), (6, False)])
def test_time_per_token_that_is_not_known_is_not_kept_but_of_one_token_there_is_none(
    tokens: int, kept: bool
) -> None:
    line = Timeline(np.array([1.5, 2.0]), np.array([-1, tokens]), per_chunk=False)
    assert metrics.meets(record([(2.0, tokens)], timeline=line), SLO(tpot_s=9.0)) is kept


def test_a_speedup_says_which_arm_has_no_throughput() -> None:
    for on, off in ((round_of(THREE), round_of(FAILED)), (round_of(FAILED), round_of(THREE))):
        assert metrics.speedup(on, off).reason == "one arm has no throughput: no request succeeded"


def _energy(powers_w: list[tuple[float, float]], *records: RequestRecord, **changes: Any) -> metrics.Value:
    """Of a round from 100 to 104 s with ten tokens: its first request starts one second after it."""
    good = record([(2.0, 10)]), record([(2.0, 3)], completion_tokens=None), FAILED, *records
    return metrics.energy(round_of(*good, started_monotonic_s=99.0, **changes), powers_w)


def test_energy_is_power_over_the_round_with_its_edges_told_by_samples_two_seconds_outside() -> None:
    even = _energy([(101.0, 1000.0)])
    assert even.value == 4 * 1000 / 10
    assert even.detail == {"mean_power_w": 1000.0, "samples": 1}
    # 1500 W at both edges, by the samples outside, and 2000 W in the middle
    told = _energy([(98.0, 1000.0), (102.0, 2000.0), (106.0, 1000.0)])
    assert told.value == (2 * 1750 + 2 * 1750) / 10
    assert told.detail["samples"] == 3
    assert _energy([(97.9, 1000.0), (102.0, 2000.0), (106.1, 1000.0)]).value == 4 * 2000 / 10


def test_energy_needs_a_sample_within_the_round_and_tokens_and_time() -> None:
    assert _energy([(100.0, 1000.0)]).value == _energy([(104.0, 1000.0)]).value == 400
    assert "no power reading within" in (_energy([(99.9, 1000.0), (104.1, 1000.0)]).reason or "")
    assert _energy([(101.0, 1000.0)], duration_s=0.0).reason == "no request succeeded"
    assert _energy([(99.75, 1000.0), (100.25, 1000.0)], duration_s=0.5).value == 0.5 * 1000 / 10
    assert metrics.energy(round_of(FAILED), [(1.0, 1000.0)]).reason == "no request succeeded"


def test_tokens_that_are_not_told_add_nothing_to_a_rate() -> None:
    silent = record([(2.0, 3)], completion_tokens=None, prompt_tokens=None)
    values = metrics.summarize(round_of(THREE, silent))
    assert values["output_tokens_per_s"].value == 8 / 4
    assert values["total_tokens_per_s"].value == 18 / 4
    assert values["requests_per_s"].value == 2 / 4
