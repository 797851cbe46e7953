"""How many tokens does a verify step yield? A dead or damaged draft shows here, and often nowhere else."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.acceptance]


@pytest.mark.arms("mtp-on")
@pytest.mark.judges("acceptance_length")
def test_acceptance_length(measure, kind, target):
    """Acceptance length by kind of content, at temperature 0."""
    measured = measure(kind)
    measured.require_at_least(
        "acceptance_length", target.acceptance_floor, "the draft proposes almost nothing that is accepted"
    )
