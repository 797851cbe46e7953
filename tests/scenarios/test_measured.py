"""What a measurement may be held to: floors, reuse of prefixes, and whether warm-up was over."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.load import ClientHealth, Fault, FaultKind, RequestRecord, Round, Timeline
from suite.metrics import Value
from suite.session.fitness import not_warmed_up, still_warming
from suite.session.measurement import Measurement, require_answers
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.recording import WorkloadResult


def _record(prompt_tokens: int | None, cached: int | None, fault: Fault | None = None) -> RequestRecord:
    line = Timeline(np.array([0.1]), np.array([1]))
    return RequestRecord(
        0, "p", "code", 0.0, 0.0, 0.0, 1.0, line, prompt_tokens, cached, 1, 0, ("length",), None, fault, 1, 1
    )


def _round(*records: RequestRecord) -> Round:
    return Round(records, ClientHealth(0, 0, 0, 0, 0, 0), 1.0, 0.0, 0.0, "w", "h", "closed", 1)


@pytest.mark.parametrize(
    ("tpot_s", "warming"),
    [
        ([0.010, 0.009, 0.007], True),
        ([0.010, 0.009, 0.008], False),  # of three rounds, within noise
        ([0.010, 0.008, 0.009], False),  # not one way
        ([0.010, 0.005], False),  # two rounds are no trend
        ([None, 0.010, 0.009, 0.0085, 0.0081], True),
        ([], False),
    ],
)
def test_warming_up_is_told_from_noise(tpot_s, warming):
    assert (still_warming(tpot_s) is not None) is warming


@given(st.lists(st.floats(1e-4, 1.0), min_size=3, max_size=9))
def test_a_server_that_gets_slower_is_never_warming_up(tpot_s):
    assert still_warming(sorted(tpot_s)) is None or len(set(tpot_s)) == 1


def test_the_first_request_of_a_round_cannot_reuse_and_the_others_must():
    reused = WorkloadResult(rounds=[_round(_record(1000, 0), _record(1000, 900), _record(1000, 900))])
    Measurement(reused).require_reuse(0.8)
    lost = WorkloadResult(rounds=[_round(_record(1000, 0), _record(1000, 0), _record(1000, 0))])
    with pytest.raises(BrokenPromise, match="prefix reuse lost: 0 of 3000"):
        Measurement(lost).require_reuse(0.8)


def test_reuse_that_is_not_reported_is_unknown_and_not_lost():
    silent = WorkloadResult(rounds=[_round(_record(1000, None), _record(1000, None))])
    with pytest.raises(BrokenPromise, match="prefix reuse unknown"):
        Measurement(silent).require_reuse(0.8)


def test_a_floor_and_a_missing_metric():
    known = WorkloadResult(values=[{"acceptance_length": Value(1.0, "tokens/step")}])
    with pytest.raises(BrokenPromise, match=r"acceptance length 1\.000 is below the floor of 1\.2: dead"):
        Measurement(known).require_at_least("acceptance_length", 1.2, "dead")
    missing = WorkloadResult(values=[{"acceptance_length": Value(None, "tokens/step", "not reported")}])
    with pytest.raises(BrokenPromise, match="acceptance length unknown: not reported"):
        Measurement(missing).require_at_least("acceptance_length", 1.2, "dead")


def test_positions_are_weighted_by_their_verify_steps():
    few = Value(3.0, "", None, {"position_1": 1.0, "verify_steps": 1, "correct_drafts": 2})
    many = Value(1.0, "", None, {"position_1": 0.0, "verify_steps": 9, "correct_drafts": 0})
    found = Measurement(
        WorkloadResult(values=[{"acceptance_length": few}, {"acceptance_length": many}])
    ).per_position()
    assert found == {"position_1": pytest.approx(0.1)}


@pytest.mark.parametrize("details", [[], [{}], [{"verify_steps": 0, "correct_drafts": 0}]])
def test_where_no_step_was_verified_no_position_has_a_share(details):
    values = [{"acceptance_length": Value(None, "", "silent", detail)} for detail in details]
    assert Measurement(WorkloadResult(values=values)).per_position() == {}


def test_a_round_that_tells_no_steps_has_no_weight():
    told = Value(2.0, "", None, {"position_1": 0.5, "verify_steps": 4})
    silent = Value(None, "", "silent", {})
    values = [{"acceptance_length": value} for value in (silent, told)]
    assert Measurement(WorkloadResult(values=values)).per_position() == {"position_1": 0.5}


def test_reuse_is_a_share_of_prompts_whose_length_is_known():
    reused = WorkloadResult(rounds=[_round(_record(1000, 0), _record(1000, 900), _record(None, 900))])
    with pytest.raises(BrokenPromise, match=r"900 of 2000 .* at least 950 must"):
        Measurement(reused).require_reuse(0.95)


def test_nothing_answered_is_invalid_and_says_the_first_fault():
    fault = Fault(FaultKind.stalled, "no byte for 10 s")
    with pytest.raises(
        InvalidMeasurement, match=r"all 1 requests failed, the first: stalled: no byte for 10 s"
    ):
        require_answers(WorkloadResult(rounds=[_round(_record(1, 0, fault))]))
    require_answers(WorkloadResult(rounds=[_round(_record(1, 0, fault), _record(1, 0))]))


def test_a_floor_is_reached_where_it_is_met_and_a_silent_release_breaks_no_promise():
    exact = WorkloadResult(values=[{"acceptance_length": Value(1.2, "tokens/step")}])
    Measurement(exact, "0.5.9 tells nothing").require_at_least("acceptance_length", 1.2, "dead")
    missing = WorkloadResult(values=[{"acceptance_length": Value(None, "tokens/step", "not reported")}])
    with pytest.raises(InvalidMeasurement, match=r"acceptance length unknown: 0\.5\.9 tells nothing"):
        Measurement(missing, "0.5.9 tells nothing").require_at_least("acceptance_length", 1.2, "dead")
    low = WorkloadResult(values=[{"acceptance_length": Value(1.1, "tokens/step")}])
    with pytest.raises(BrokenPromise, match="below the floor"):
        Measurement(low, "0.5.9 tells nothing").require_at_least("acceptance_length", 1.2, "dead")


def test_reuse_is_enough_at_the_share_itself_and_says_how_much_must_be():
    half = WorkloadResult(rounds=[_round(_record(1000, 0), _record(1000, 500))])
    Measurement(half).require_reuse(0.5)  # of 1000 that could be
    with pytest.raises(BrokenPromise, match=r"500 of 2000 .* at least 600 must"):
        Measurement(half).require_reuse(0.6)


def test_positions_are_those_of_the_first_round_and_weighted_by_steps_of_all():
    def told(share: float, steps: int, more: dict[str, float]) -> dict[str, Value]:
        return {
            "acceptance_length": Value(2.0, "", None, {"position_1": share, "verify_steps": steps, **more})
        }

    rounds = [told(1.0, 1, {"position_2": 0.5}), told(0.5, 3, {}), told(0.0, 4, {})]
    assert Measurement(WorkloadResult(values=rounds)).per_position() == {
        "position_1": pytest.approx(2.5 / 8),
        "position_2": pytest.approx(0.5 / 8),
    }


def test_the_first_fault_is_told_of_several():
    first, last = Fault(FaultKind.stalled, "no byte"), Fault(FaultKind.reset, "closed")
    with pytest.raises(InvalidMeasurement, match="all 2 requests failed, the first: stalled: no byte"):
        require_answers(WorkloadResult(rounds=[_round(_record(1, 0, first), _record(1, 0, last))]))


@pytest.mark.parametrize(("tokens", "told"), [(64, True), (63, False), (None, False), (256, True)])
def test_only_answers_that_are_long_enough_tell_of_a_cold_server(tokens, told):
    asked = SimpleNamespace(sampling=SimpleNamespace(max_tokens=tokens))
    found = not_warmed_up([0.020, 0.010, 0.008, 0.005], asked)
    assert [reason.name for reason in found] == ["not_warmed_up"] * told
    if told:
        assert (
            found[0].evidence == "TPOT fell from round to round, 20 ms to 5 ms: the server was not warm yet"
        )
    assert not_warmed_up([0.010, 0.010, 0.010], asked) == []


def test_four_rounds_must_fall_by_a_tenth_and_three_by_a_quarter():
    assert still_warming([1.00, 0.98, 0.95, 0.90]) is not None
    assert still_warming([1.00, 0.98, 0.95, 0.91]) is None
    assert still_warming([1.00, 0.90, 0.75]) is not None
    assert still_warming([1.00, 0.90, 0.76]) is None
