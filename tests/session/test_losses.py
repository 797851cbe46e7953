"""A question that lost its server is asked again once; an arm whose servers die in two questions is given up."""

from __future__ import annotations

from suite.session.losses import DEATHS, SUPERVISORS, Losses


def test_one_death_costs_one_asking() -> None:
    losses = Losses()
    assert losses.died("mtp-on", "decode", "killed")
    assert losses.given_up("mtp-on") is None


def test_a_question_that_kills_is_not_asked_a_third_time_and_costs_the_others_nothing() -> None:
    losses = Losses()
    assert losses.died("mtp-on", "long context", "out of memory")
    assert not losses.died("mtp-on", "long context", "out of memory")
    assert losses.given_up("mtp-on") is None
    assert losses.given_up("mtp-off") is None


def test_deaths_in_two_questions_are_the_arms() -> None:
    losses = Losses()
    assert losses.died("mtp-on", "decode", "first")
    assert not losses.died("mtp-on", "prefill", "second")
    assert losses.given_up("mtp-on") == "its servers died 2 times, last: second"
    assert losses.died("mtp-off", "decode", "another arm")


def test_one_question_cannot_kill_for_ever() -> None:
    losses = Losses()
    for _ in range(DEATHS):
        losses.died("mtp-on", "decode", "again")
    assert losses.given_up("mtp-on")


def test_lost_supervisors_are_replaced_a_few_times() -> None:
    losses = Losses()
    assert losses.supervisor_lost("mtp-on", "decode")
    assert not losses.supervisor_lost("mtp-on", "decode")
    for number in range(SUPERVISORS - 2):
        assert losses.given_up("mtp-off") is None
        assert not losses.supervisor_lost("mtp-off", f"question {number}") or number < SUPERVISORS - 3
    assert losses.given_up("mtp-on") == f"the suite's supervisor process was lost {SUPERVISORS} times"
