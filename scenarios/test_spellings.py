"""Every other way in which speculation can be asked for, half asked for, or arrive unasked."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.activation, pytest.mark.spellings, pytest.mark.once]


@pytest.mark.arms("mtp-on-lowercase", "mtp-on-abbreviated")
def test_mtp_is_on_in_any_spelling(speculation):
    """In lower case, or by a shortened flag, NEXTN is the same."""
    speculation.must_be_on()
    speculation.must_resolve_to("EAGLE")


@pytest.mark.arms("mtp-steps-only")
def test_half_a_switch_leaves_mtp_off(speculation, table):
    """Speculative flags without --speculative-algorithm are ignored."""
    speculation.must_be_off()
    for flag in speculation.ignored:
        table.note(f"SGLang silently ignores --{flag}: --speculative-algorithm is not given")


@pytest.mark.arms("mtp-headless")
def test_a_checkpoint_without_mtp_heads_does_not_start(launching):
    """NEXTN on a checkpoint without MTP heads fails loudly at launch."""
    launching.must_be_refused_for_its_draft()


@pytest.mark.arms("mtp-by-config")
def test_speculation_that_no_flag_asks_for_is_traced(speculation):
    """Speculation that arrives with a --config file is found, and the file is named."""
    speculation.must_be_on()
    speculation.must_come_from("--config")
