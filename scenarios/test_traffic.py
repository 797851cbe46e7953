"""Does our own traffic keep its limits, and how much more of it would?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.traffic]


@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("goodput_requests_per_s", "highest_rate_per_s")
def test_own_traffic(measure, traffic):
    """Traffic of [targets.NAME.traffic] at its own pace, then faster, until the limits are no longer kept."""
    measure.traffic(traffic)
