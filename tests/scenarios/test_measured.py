"""What a measurement may be held to: floors, reuse of prefixes, and whether warm-up was over."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.load import ClientHealth, Fault, FaultKind, RequestRecord, Round, Timeline
from suite.metrics import Value
from suite.session.fitness import still_warming
from suite.session.measurement import Measurement, require_answers
from suite.session.outcomes import BrokenPromise, InvalidMeasurement
from suite.session.recording import WorkloadResult


def _record(prompt_tokens: int, cached: int | None, fault: Fault | None = None) -> RequestRecord:
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
        ([0.010, 0.008], False),  # two rounds are no trend
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


def test_nothing_answered_is_invalid_and_says_the_first_fault():
    fault = Fault(FaultKind.stalled, "no byte for 10 s")
    with pytest.raises(
        InvalidMeasurement, match=r"all 1 requests failed, the first: stalled: no byte for 10 s"
    ):
        require_answers(WorkloadResult(rounds=[_round(_record(1, 0, fault))]))
    require_answers(WorkloadResult(rounds=[_round(_record(1, 0, fault), _record(1, 0))]))
