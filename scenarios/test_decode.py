"""How fast are tokens made, once the first is there?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.decode]


@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("output_tokens_per_s", "tpot_s")
def test_decode_throughput(measure, concurrency):
    """Output tokens/s and time per output token at a fixed number of clients."""
    measure("code", concurrency=concurrency)
