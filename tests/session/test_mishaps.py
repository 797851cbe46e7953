"""What no figure shows: requests that failed and pauses, in warm-up as in rounds."""

from __future__ import annotations

from typing import Any

import pytest

from suite.load import Fault, FaultKind, Round
from suite.session.mishaps import longest_pause, mishaps
from tests.test_metrics import record, round_of


def answer(*arrivals: float, ended_s: float | None = None, fault: Fault | None = None) -> Any:
    tokens = [(at_s, number) for number, at_s in enumerate(arrivals, 1)]
    return record(tokens, ended_s=arrivals[-1] if ended_s is None else ended_s, fault=fault)


@pytest.mark.parametrize(
    ("arrivals", "ended_s", "pause_s"),
    [
        ((1.0, 1.1, 1.2), 1.2, 0.1),
        ((30.0, 30.1), 30.1, 0.1),
        ((1.0, 26.0, 26.1), 26.1, 25.0),
        ((1.0, 1.1), 9.1, 8.0),
    ],
)
def test_a_pause_is_within_an_answer_or_at_its_torn_end(
    arrivals: tuple[float, ...], ended_s: float, pause_s: float
) -> None:
    assert longest_pause(answer(*arrivals, ended_s=ended_s)) == pytest.approx(pause_s)


def test_all_well_is_nothing_to_tell() -> None:
    assert mishaps(round_of(answer(0.1, 0.2, 4.9))) == []


def test_what_went_wrong_is_counted() -> None:
    fault = Fault(FaultKind.stalled, "no token for 25 s")
    round_: Round = round_of(answer(0.1, 0.2), answer(0.1, 25.3, fault=fault), answer(0.1, 7.0))
    assert mishaps(round_) == [
        "1 of 3 requests failed, the first by stalled: no token for 25 s",
        "the server paused for 25.2 s (2 of 3 answers waited)",
    ]
