"""Is everything resolved and installed as it was when the baseline was recorded?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.configuration, pytest.mark.once]


@pytest.mark.arms("mtp-off", "mtp-on")
def test_configuration_since_the_baseline(server, baseline, table):
    """Changed since the baseline."""
    changed = baseline.since(server)
    if changed is None:
        pytest.skip("no baseline of this arm to compare with; record one with --record-baseline")
    for line in changed:
        table.row(arm=server.launch_id.arm, finding=line)
