"""Small-sample arithmetic against scipy, against definitions, and against data whose truth is known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from suite.gate.robust import (
    holm,
    mean,
    median,
    satterthwaite,
    squeeze,
    t_quantile,
    t_tail,
    trigamma_inverse,
    trimmed_mean,
)

floats = st.floats(-1e3, 1e3)


@given(st.lists(floats, min_size=1, max_size=15))
def test_trimmed_mean_is_scipys(values: list[float]) -> None:
    assert trimmed_mean(np.array(values)) == pytest.approx(stats.trim_mean(values, 0.2), abs=1e-9)


@given(st.lists(floats, min_size=1, max_size=9), st.integers(0, 4))
def test_values_that_are_missing_do_not_count(values: list[float], missing: int) -> None:
    padded = np.array(values + [np.nan] * missing)
    np.random.default_rng(0).shuffle(padded)
    assert trimmed_mean(padded) == pytest.approx(stats.trim_mean(values, 0.2), abs=1e-9)
    assert mean(padded, 0) == pytest.approx(np.mean(values), abs=1e-9)
    assert median(padded, 0) == pytest.approx(np.median(values), abs=1e-9)


def test_nothing_measured_is_nan_not_zero() -> None:
    nothing = np.full(3, np.nan)
    assert np.isnan(trimmed_mean(nothing))
    assert np.isnan(mean(nothing, 0))
    assert np.isnan(median(nothing, 0))


@given(st.floats(1e-3, 1e6))
def test_trigamma_inverse_inverts(x: float) -> None:
    assert trigamma_inverse(special.polygamma(1, np.array([x])))[0] == pytest.approx(x, rel=1e-3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_what_its_definition_rejects(p: list[float]) -> None:
    expected = [False] * len(p)
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[index] > 0.05 / (len(p) - rank):
            break
        expected[index] = True
    assert holm(np.array(p), 0.05).tolist() == expected


def test_holm_does_not_count_what_is_not_tested() -> None:
    assert holm(np.array([0.02, np.nan, 0.9]), 0.05).tolist() == [True, False, False]
    assert holm(np.array([0.02, 0.9, 0.9]), 0.05).tolist() == [False, False, False]


@given(st.floats(-20, 20), st.floats(1, 200))
def test_t_distribution_is_scipys(t: float, df: float) -> None:
    assert t_tail(np.array(t), np.array(df)) == pytest.approx(stats.t.sf(t, df), rel=1e-9)
    assert t_quantile(0.99, np.array(df)) == pytest.approx(stats.t.ppf(0.99, df), rel=1e-6)


def test_no_degrees_of_freedom_promise_nothing() -> None:
    assert t_quantile(0.95, np.array(0.5)) == np.inf


def test_satterthwaite_of_two_equal_parts() -> None:
    part = (np.array(2.0), np.array(5.0))
    assert satterthwaite([part, part], np.array(4.0)) == pytest.approx(10.0)


def test_shrinking_recovers_the_posterior_mean_of_a_known_prior() -> None:
    rng = np.random.default_rng(7)
    prior_df, prior, df = 8.0, 2.0, 4.0
    truth = prior_df * prior / rng.chisquare(prior_df, 20_000)
    seen = truth * rng.chisquare(df, truth.shape) / df
    every = np.ones(truth.shape, bool)
    found = squeeze(seen, np.full(truth.shape, df), cap=100.0, fit=every, use=every)
    assert found.df[0] == pytest.approx(prior_df + df, rel=0.06)
    assert found.variance == pytest.approx((prior_df * prior + df * seen) / (prior_df + df), rel=0.06)


def test_equal_variances_are_pooled_up_to_the_cap() -> None:
    seen, every = np.full(10, 3.0), np.ones(10, bool)
    found = squeeze(seen, np.full(10, 4.0), cap=12.0, fit=every, use=every)
    assert found.df.tolist() == [16.0] * 10
    assert found.variance == pytest.approx(seen)


def test_two_variances_are_left_alone() -> None:
    seen, every = np.array([1.0, 9.0]), np.ones(2, bool)
    found = squeeze(seen, np.array([4.0, 4.0]), cap=12.0, fit=every, use=every)
    assert found.variance.tolist() == [1.0, 9.0]
    assert found.df.tolist() == [4.0, 4.0]


def test_a_variance_that_is_not_used_comes_back_as_it_was() -> None:
    seen = np.array([1.0, 2.0, 3.0, 1e-9])
    use = np.array([True, True, True, False])
    found = squeeze(seen, np.full(4, 4.0), cap=12.0, fit=use, use=use)
    assert found.variance[3] == 1e-9
    assert found.df[3] == 4.0


@pytest.mark.parametrize("df", [1.0, 1.7, 4.0, 30.0, 1e6])
@pytest.mark.parametrize("p", [0.001, 0.3, 0.5, 0.92, 0.975, 0.9997, 1 - 1e-7])
def test_t_quantiles_are_those_of_the_tables(df: float, p: float) -> None:
    assert float(t_quantile(p, np.array(df))) == pytest.approx(float(stats.t.ppf(p, df)), rel=1e-9, abs=1e-12)
