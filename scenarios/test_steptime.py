"""How long does a verify step take, whatever is accepted?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.steptime]


@pytest.mark.arms("mtp-held")
@pytest.mark.judges("tpot_s")
def test_step_time(measure, concurrency):
    """Acceptance held still by SGLang itself: what moves here is kernels, not drafts."""
    measure("code", concurrency=concurrency)
