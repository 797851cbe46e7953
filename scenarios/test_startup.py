"""What does a start cost, and how much room is left for requests?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.startup]


@pytest.mark.once
@pytest.mark.arms("mtp-off", "mtp-on")
def test_start(server, arm, table):
    """Start: seconds by phase, GPU memory and KV capacity."""
    table.row(arm=arm, **server.start_seconds, **server.memory)
    assert server.info.token_capacity, "this server does not report how many tokens its KV cache holds"
