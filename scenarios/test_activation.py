"""Is speculation off unless asked for, and on when asked for? Answered before anything is measured."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.activation, pytest.mark.once]


@pytest.mark.arms("mtp-off")
def test_mtp_is_off_unless_asked_for(speculation):
    """Without --speculative-algorithm nothing may speculate."""
    speculation.must_be_off()


@pytest.mark.arms("mtp-on")
def test_mtp_is_on_when_asked_for(speculation):
    """With NEXTN: EAGLE resolved, verify steps counted, more than one token a step."""
    speculation.must_be_on()
    speculation.must_resolve_to("EAGLE")
    speculation.must_yield_more_than_one_token_a_step()
