"""Why decode got slower: steps, drafts, or what was changed."""

import pytest

from suite.gate import Estimate, Judgement, Key, Verdict
from suite.gate.factors import why as causes
from suite.gate.verdicts import Factor

Q, ARM = "decode_throughput[c1]", "mtp-on"


def _estimate(change):
    return Estimate("label", "u", 1.0, change=change)


def _judged(step, accepted, word="regression", changes=None):
    informational = {}
    if step is not None:
        informational[Key(Q, ARM, "step_s")] = _estimate(step)
    if accepted is not None:
        informational[Key(Q, ARM, "acceptance_length")] = _estimate(accepted)
    verdict = Verdict(Q, ARM, "output_tokens_per_s", word, "h", "r", _estimate(-0.2), 0.02)
    judgement = Judgement({verdict.key: verdict}, informational, changes or {}, [], [], None, [])
    return causes(verdict, judgement)


@pytest.mark.parametrize(
    ("step", "accepted", "begins"),
    [
        (0.25, 0.001, "steps got slower, as many tokens were accepted: time per step +25.0%"),
        (0.001, -0.2, "fewer tokens were accepted, steps took as long: time per step +0.1%"),
        (0.1, -0.1, "steps got slower and fewer tokens were accepted"),
        (0.0, 0.0, "neither steps nor acceptance moved"),
        (0.25, None, "steps got slower: time per step +25.0%"),
    ],
)
def test_a_slower_decode_is_split_into_its_two_factors(step, accepted, begins):
    (told,) = _judged(step, accepted)
    assert told.startswith(begins)


def test_fewer_tokens_from_a_slower_prefill_are_not_blamed_on_steps():
    informational = {
        Key(Q, ARM, metric): _estimate(change)
        for metric, change in (("step_s", 0.001), ("acceptance_length", 0.0), ("ttft_s", 0.42))
    }
    verdict = Verdict(Q, ARM, "output_tokens_per_s", "regression", "h", "r", _estimate(-0.03), 0.02)
    (told,) = causes(verdict, Judgement({verdict.key: verdict}, informational, {}, [], [], None, []))
    assert told.startswith("tokens came as fast once the first was there, but that came later: TTFT +42.0%")


def test_what_was_changed_is_named_as_the_likely_cause():
    told = _judged(None, None, changes={(Q, ARM): "attention_backend flashinfer -> triton"})
    assert told == ["likely cause, changed since the baseline: attention_backend flashinfer -> triton"]


def test_what_is_undecided_is_said_to_have_got_slower_only_if_it_is_no_chance():
    (told,) = _judged(0.25, None, word="inconclusive")
    assert told == "if it is more than chance: steps got slower: time per step +25.0%"


def test_a_metric_that_passed_needs_no_cause():
    assert _judged(0.25, 0.0, word="pass", changes={(Q, ARM): "x 1 -> 2"}) == []


@pytest.mark.parametrize(
    ("metric", "steps", "acceptance", "begins"),
    [
        (
            "output_tokens_per_s",
            -0.2,
            0.001,
            "steps got slower, as many tokens were accepted: time per step +25.0%",
        ),
        (
            "output_tokens_per_s",
            0.0,
            -0.2,
            "fewer tokens were accepted, steps took as long: time per step +0.0%",
        ),
        ("tpot_s", 0.25, 0.0, "steps got slower, as many tokens were accepted: time per step +25.0%"),
        (
            "tpot_s",
            0.0,
            0.25,
            "fewer tokens were accepted, steps took as long: time per step +0.0%, acceptance length -20.0%",
        ),
    ],
)
def test_the_factors_of_a_product_say_it_better_than_the_requests_that_were_timed(
    metric, steps, acceptance, begins
):
    factors = [Factor("steps", steps, None, None), Factor("acceptance", acceptance, None, None)]
    estimate = Estimate("label", "u", 1.0, change=-0.2, factors=factors)
    verdict = Verdict(Q, ARM, metric, "regression", "h", "r", estimate, 0.02)
    timed = {Key(Q, ARM, "step_s"): _estimate(0.5), Key(Q, ARM, "acceptance_length"): _estimate(0.5)}
    (told,) = causes(verdict, Judgement({verdict.key: verdict}, timed, {}, [], [], None, []))
    assert told.startswith(begins)
