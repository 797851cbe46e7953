"""From how many clients on MTP loses, as a number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.gate import Launch, Plan, Series, Session
from suite.gate.crossover import crossover, speedups

# DOMAIN: output tokens/s of Qwen3.5-397B-A17B-NVFP4 on four cards at 1, 2, 4, 8, 16 clients
OFF = {1: 108, 2: 189, 4: 346, 8: 554, 16: 799}
ON = {1: 180, 2: 294, 4: 446, 8: 669, 16: 769}


def test_the_published_box_loses_at_sixteen_clients():
    found = crossover({clients: ON[clients] / OFF[clients] for clients in OFF})
    assert found.measured == 16
    assert 12 < found.estimate < 16
    assert "from 16 clients on" in str(found)


def test_a_box_where_mtp_always_wins_claims_nothing_beyond_what_was_measured():
    found = crossover({1: 1.8, 8: 1.2})
    assert (found.measured, found.estimate) == (None, None)
    assert "up to 8" in str(found)


def test_a_box_where_mtp_never_wins_has_no_crossing_to_estimate():
    assert crossover({1: 0.9, 2: 0.8}).measured == 1
    assert crossover({1: 0.9, 2: 0.8}).estimate is None


def test_one_unlucky_number_of_clients_in_the_middle_is_no_crossover():
    assert crossover({1: 1.5, 4: 0.99, 8: 1.1}).measured is None


def test_nothing_measured_is_an_error():
    with pytest.raises(ValueError, match="no speed-up"):
        crossover({})


@given(st.dictionaries(st.integers(1, 512), st.floats(0.2, 4), min_size=1))
def test_from_the_crossover_on_every_speedup_is_below_one_and_just_before_it_is_not(measured):
    found = crossover(measured)
    clients = sorted(measured)
    if found.measured is None:
        assert measured[clients[-1]] >= 1
        return
    assert all(measured[c] < 1 for c in clients if c >= found.measured)
    before = [c for c in clients if c < found.measured]
    if before:
        assert measured[before[-1]] >= 1
        assert before[-1] * (1 - 1e-9) <= found.estimate <= found.measured * (1 + 1e-9)  # logarithm and back


def _series(question: str, clients: int, values: list[float]) -> Series:
    launches = [Launch({"mtp_speedup": [value]}) for value in values]
    return Series(question, "mtp-on", {"concurrency": clients}, {}, launches, ["mtp-on", "mtp-off"])


def test_only_short_prompts_count_and_launches_are_averaged():
    session = Session(
        "r",
        "2026-01-01T00:00:00+00:00",
        "t",
        Plan(),
        [
            _series("mtp_speedup[c1]", 1, [1.5, 1.7]),
            _series("mtp_speedup[c8]", 8, [1.1]),
            _series("mtp_speedup_by_context[1024]", 1, [3.0]),
        ],
    )
    assert speedups(session) == {1: pytest.approx(1.6), 8: 1.1}
