"""What does MTP gain over the same server without it?"""

import pytest

pytestmark = [
    pytest.mark.perf,
    pytest.mark.speedup,
    pytest.mark.arms("mtp-off", "mtp-on"),
    pytest.mark.judges("mtp_speedup"),
    pytest.mark.ratio("output_tokens_per_s", "mtp-on", "mtp-off"),
]


@pytest.mark.claims(
    metric="mtp_speedup",
    floor="speedup_floor",
    where={"concurrency": 1},
    otherwise="MTP costs more than it gains, even for one client",
)
def test_mtp_speedup(measure, concurrency):
    """Output tokens/s with MTP over without, launch by launch (a workload already played is not played again)."""
    measure("code", concurrency=concurrency)


def test_mtp_speedup_by_context(measure, context):
    """The same for one client with a long prompt."""
    measure(context=context)
