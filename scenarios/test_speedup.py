"""What does MTP gain over the same server without it?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.speedup]


@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("mtp_speedup")
@pytest.mark.ratio("output_tokens_per_s", "mtp-on", "mtp-off")
def test_mtp_speedup(measure, concurrency):
    """Output tokens/s with MTP over without, launch by launch (a workload already played is not played again)."""
    measure("code", concurrency=concurrency)
