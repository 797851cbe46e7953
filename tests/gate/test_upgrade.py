"""Two builds in one session: drift is not a change, a change is not drift."""

import numpy as np
import pytest

from suite.gate.layout import Column, Layout
from suite.gate.upgrade import compare_builds, order

LAYOUT = Layout(tuple(Column(f"q{i}", "arm", "decode") for i in range(10)))


def launches(
    builds: str, *, change: float = 0.0, drift: float = 0.0, sd: float = 0.003, seed: int = 1
) -> np.ndarray:
    number = np.arange(len(builds))[:, None]
    candidate = np.array([b == "C" for b in builds])[:, None]
    noise = sd * np.random.default_rng(seed).standard_normal((len(builds), 10))
    return (change * candidate + drift * number / (len(builds) - 1) + noise)[None]


def test_the_order_puts_both_builds_at_the_same_mean_time() -> None:
    assert order(4) == "RCCRRCCR"
    for pairs in (2, 4, 6):
        builds = order(pairs)
        times = {b: np.mean([i for i, x in enumerate(builds) if x == b]) for b in "RC"}
        assert times["R"] == times["C"]


@pytest.mark.parametrize("drift", [0.0, 0.05, -0.2])
def test_unchanged_builds_go_whatever_the_machine_drifts(drift: float) -> None:
    result = compare_builds(launches("RCCRRCCR", drift=drift), "RCCRRCCR", LAYOUT)
    assert {result.answer(g) for g in range(10)} == {"go"}


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_a_slower_build_is_no_go(drift: float) -> None:
    result = compare_builds(launches("RCCRRCCR", change=0.05, drift=drift), "RCCRRCCR", LAYOUT)
    assert {result.answer(g) for g in range(10)} == {"no-go"}
    assert result.change == pytest.approx(0.05, abs=0.012)


def test_a_faster_build_is_better() -> None:
    result = compare_builds(launches("RCCRRCCR", change=-0.05), "RCCRRCCR", LAYOUT)
    assert {result.answer(g) for g in range(10)} == {"better"}


def test_drift_does_not_change_the_estimate_at_all() -> None:
    still, drifting = (compare_builds(launches("RCCRRCCR", drift=d), "RCCRRCCR", LAYOUT) for d in (0.0, 0.3))
    assert drifting.change == pytest.approx(still.change, abs=1e-12)
    assert drifting.se == pytest.approx(still.se, abs=1e-12)


def test_noise_is_inconclusive() -> None:
    result = compare_builds(launches("RCCRRCCR", change=0.03, sd=0.05), "RCCRRCCR", LAYOUT)
    assert "inconclusive" in {result.answer(g) for g in range(10)}


def test_one_launch_of_a_build_is_refused() -> None:
    with pytest.raises(ValueError, match="two launches of each build"):
        compare_builds(launches("RC"), "RC", LAYOUT)


def test_no_noise_at_all() -> None:
    result = compare_builds(launches("RCCR", sd=0.0), "RCCR", LAYOUT)
    assert {result.answer(g) for g in range(10)} == {"go"}
