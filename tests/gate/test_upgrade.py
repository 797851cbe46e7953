"""Two builds in one session: drift is not a change, a change is not drift."""

import msgspec
import numpy as np
import pytest

from suite.gate import BadMeasurement, Invalid, Launch, Series
from suite.gate.builds import BuildVerdict, judge_builds
from suite.gate.layout import Column, Layout
from suite.gate.upgrade import compare_builds, order
from tests.gate.builds import run
from tests.gate.sessions import session

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


def measured(slow: float, drift: float = 0.0) -> tuple[list[Series], list[Series]]:
    """Four launches of two builds, interleaved on a machine that drifts."""
    whole = session(launches=8, noise=0.002, machine=0.0)
    builds = order(4)

    def part(series: Series, letter: str) -> Series:
        launches = []
        for i, (launch, build) in enumerate(zip(series.launches, builds, strict=True)):
            factor = (1 + drift * i / 7) * (1 + slow if letter == "C" else 1)
            speeds: list[float | None] = [v and v / factor for v in launch.rounds["output_tokens_per_s"]]
            if build == letter:
                launches.append(Launch({"output_tokens_per_s": speeds}))
        return msgspec.structs.replace(series, launches=launches)

    arms = whole.series[:2]
    return [part(s, "R") for s in arms], [part(s, "C") for s in arms]


@pytest.mark.parametrize("drift", [0.0, 0.05])
def test_builds_are_judged_in_words(drift: float) -> None:
    assert [v.answer for v in judge_builds(*measured(0.0, drift), order(4))] == ["go", "go"]
    slower = judge_builds(*measured(0.06, drift), order(4))
    assert [v.answer for v in slower] == ["no-go", "no-go"]
    assert slower[0].change == pytest.approx(1 / 1.06 - 1, abs=0.008)
    assert slower[0].headline.startswith("output tokens/s -5.")


def test_builds_that_were_not_measured_alike_are_refused() -> None:
    reference, candidate = measured(0.0)
    with pytest.raises(BadMeasurement, match="no such series"):
        judge_builds(reference, candidate[:1], order(4))
    with pytest.raises(BadMeasurement, match="4 launches of the reference, 3 in RCCRRC"):
        judge_builds(reference, candidate, order(3))
    other = [msgspec.structs.replace(s, identity={"gpu": "other"}) for s in candidate]
    with pytest.raises(BadMeasurement, match="not measured alike"):
        judge_builds(reference, other, order(4))


def test_an_invalid_launch_of_either_build_is_no_verdict() -> None:
    reference, candidate = measured(0.1)
    bad = msgspec.structs.replace(candidate[0].launches[1], invalid=[Invalid("gpu_lost", "Xid 79")])
    candidate[0] = msgspec.structs.replace(candidate[0], launches=[bad, *candidate[0].launches[1:]])
    assert [v.answer for v in judge_builds(reference, candidate, order(4))] == ["invalid", "no-go"]


# builds whose answers part


def parts(old: str, new: str, **changed: float) -> tuple[list[Series], list[Series]]:
    """Four launches each of two builds, 128 prompts."""
    return tuple(
        list(run(f"run-{build}-{i}", build, launches=4, **(changed if i else {})).series)
        for i, build in enumerate((old, new))
    )  # type: ignore[return-value]


def answers_by_metric(old: str, new: str, **changed: float) -> dict[tuple[str, str], BuildVerdict]:
    return {(v.arm, v.metric): v for v in judge_builds(*parts(old, new, **changed), order(4))}


def test_two_builds_as_good_as_each_other_are_no_no_go() -> None:
    for build in "abcdef":
        verdicts = answers_by_metric("old", build)
        assert {v.answer for v in verdicts.values()} <= {"go", "inconclusive"}, build
        assert (
            verdicts["mtp-on", "acceptance_length"].ci_low < verdicts["mtp-on", "acceptance_length"].ci_high
        )  # type: ignore[operator]


def test_lower_acceptance_is_no_go_and_not_the_steps() -> None:
    verdicts = answers_by_metric("old", "a", lower=0.06)
    assert verdicts["mtp-on", "acceptance_length"].answer == "no-go"
    speed = verdicts["mtp-on", "tpot_s"]
    assert speed.answer == "no-go"
    steps, acceptance = speed.factors
    assert steps.ci_low < 0 < steps.ci_high  # type: ignore[operator]
    assert acceptance.ci_low > 0.02  # type: ignore[operator]
    assert verdicts["mtp-off", "tpot_s"].answer == "go"


def test_longer_steps_are_no_go_whatever_the_answers_yield() -> None:
    for build in "abc":
        verdicts = answers_by_metric("old", build, slower=0.05)
        assert verdicts["mtp-on", "tpot_s"].answer == "no-go"
        assert verdicts["mtp-on", "acceptance_length"].answer != "no-go"


def test_launches_of_one_build_do_not_make_its_acceptance_precise() -> None:
    """Four launches answer alike; what another build yields is known from the prompts, not from them."""
    verdict = answers_by_metric("old", "a")["mtp-on", "acceptance_length"]
    assert verdict.ci_high - verdict.ci_low > 0.015  # type: ignore[operator]
