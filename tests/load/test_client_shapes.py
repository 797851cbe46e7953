"""Load shapes: when requests are meant to start."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.load import ClosedLoop, OpenLoop


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert list(OpenLoop(4, requests=5, arrivals="constant").starts()) == [0, 0.25, 0.5, 0.75, 1.0]


def test_bursts_come_together_and_keep_the_rate() -> None:
    assert list(OpenLoop(4, requests=6, arrivals="burst", burst=2).starts()) == [0, 0, 0.5, 0.5, 1.0, 1.0]


def test_poisson_arrivals_have_the_rate_and_spread_of_poisson_and_repeat_by_seed() -> None:
    starts = list(OpenLoop(50, requests=20_000, seed=3).starts())
    gaps = [b - a for a, b in itertools.pairwise(starts)]
    mean = sum(gaps) / len(gaps)
    spread = (sum((g - mean) ** 2 for g in gaps) / len(gaps)) ** 0.5
    assert mean == pytest.approx(1 / 50, rel=0.03)
    assert spread == pytest.approx(mean, rel=0.05)  # an exponential's deviation is its mean
    assert starts == list(OpenLoop(50, requests=20_000, seed=3).starts())
    assert starts != list(OpenLoop(50, requests=20_000, seed=4).starts())


def test_a_duration_ends_an_open_loop() -> None:
    starts = list(OpenLoop(10, duration_s=2.0, arrivals="constant").starts())
    assert len(starts) == 20
    assert max(starts) < 2.0


def test_a_ramp_sends_what_its_area_says() -> None:
    # from 0 to 10 a second over 4 s: an area of 20 requests; from then on one each 0.1 s
    starts = list(OpenLoop(10, requests=41, arrivals="constant", ramp_s=4.0).starts())
    assert starts[20] == pytest.approx(4.0)
    assert starts[40] == pytest.approx(6.0)
    assert starts[5] == pytest.approx(2.0)  # a quarter of the area by half of the time


@given(st.integers(1, 40), st.integers(1, 8), st.one_of(st.none(), st.integers(1, 400)))
def test_shares_add_up_to_the_whole(concurrency: int, workers: int, requests: int | None) -> None:
    load = ClosedLoop(concurrency, requests)
    if concurrency < workers:
        with pytest.raises(ValueError, match="cannot be shared"):
            load.share(0, workers)
        return
    if requests is not None and requests < workers:
        return
    shares = [load.share(i, workers) for i in range(workers)]
    assert sum(s.concurrency for s in shares) == concurrency
    if requests is not None:
        assert sum(s.requests or 0 for s in shares) == requests


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match=r"ClosedLoop\.concurrency must be above 0"):
        ClosedLoop(0)
    with pytest.raises(ValueError, match="never ends"):
        OpenLoop(5)
    with pytest.raises(ValueError, match=r"OpenLoop\.rate_per_s must be above 0"):
        OpenLoop(-1, requests=3)
