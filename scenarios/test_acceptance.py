"""How many tokens does a verify step yield? A dead or damaged draft shows here, and often nowhere else."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.acceptance, pytest.mark.once]

ALMOST_NOTHING = "the draft proposes almost nothing that is accepted"


@pytest.mark.arms("mtp-on")
@pytest.mark.judges("acceptance_length")
def test_acceptance_length(measure, kind, temperature, target, table):
    """Acceptance length by kind of content, over many prompts asked once each."""
    measured = measure.each_prompt(kind, temperature=temperature)
    table.row(
        content=kind, temperature=temperature, length=measured["acceptance_length"], **measured.per_position()
    )
    measured.require_at_least("acceptance_length", target.acceptance_floor, ALMOST_NOTHING)


@pytest.mark.arms("mtp-on")
@pytest.mark.judges("acceptance_length")
def test_acceptance_by_context(measure, context, target, table):
    """Acceptance length by length of context."""
    measured = measure.each_prompt(context=context)
    table.row(context=context, length=measured["acceptance_length"], **measured.per_position())
    measured.require_at_least("acceptance_length", target.acceptance_floor, ALMOST_NOTHING)
