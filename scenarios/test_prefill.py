"""How long until the first token, by the length of what was asked?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.prefill]


@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.judges("ttft_s")
def test_time_to_first_token(measure, context):
    """Prompts that the server has never seen: all of them must be computed."""
    measure(context=context, max_tokens=16)


@pytest.mark.arms("mtp-off", "mtp-on")
@pytest.mark.once
@pytest.mark.sized(context=[4096])
def test_shared_prefix_is_reused(measure, server, context):
    """Prompts that begin alike: the prefix cache must work, with MTP too."""
    server.needs_prefix_cache()
    measure("code", shared_prefix=context, max_tokens=16).require_reuse(0.8)
