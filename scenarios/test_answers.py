"""Are answers right, and the same with MTP and without? Garbage at full speed is a failure, however fast."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.once, pytest.mark.arms("mtp-off", "mtp-on")]


@pytest.mark.canary
def test_answers_are_right(canary, target):
    """Arithmetic, copying, JSON and counting: questions that any model of this size answers."""
    if target.canary_floor == 0:
        pytest.skip("canary_floor is 0: this target's checkpoint cannot answer questions")
    canary.must_be_right(target.canary_floor)


@pytest.mark.lossless
def test_mtp_does_not_change_answers(answers, arm, target, table):
    """Greedy answers with MTP and without part only at near ties."""
    answers.note()
    answers.must_be_as_on_the_reference()
    if arm != "mtp-off":
        found = answers.must_agree_with("mtp-off", target.divergence_ceiling)
        table.note(str(found) if found else "no answers without MTP to compare with in this run")
