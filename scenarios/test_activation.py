"""Is speculation off unless asked for, and on when asked for? Answered before anything is measured."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.activation, pytest.mark.once]


@pytest.mark.arms("mtp-off", "mtp-steps-only")
def test_mtp_is_off_unless_asked_for(speculation):
    """Without --speculative-algorithm nothing may speculate, whatever other flags are set."""
    speculation.must_be_off()


@pytest.mark.arms("mtp-on", "mtp-on-lowercase")
def test_mtp_is_on_when_asked_for(speculation):
    """With NEXTN, in any case: EAGLE resolved, verify steps counted, more than one token a step."""
    speculation.must_be_on()
    assert speculation.algorithm == "EAGLE", f"NEXTN resolved to {speculation.algorithm}, not to EAGLE"
    speculation.must_yield_more_than_one_token_a_step()
