"""Does a server hold out: for long, above its limits, with hardly any cache left, and when clients hang up?"""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.steadiness, pytest.mark.once]


@pytest.mark.arms("mtp-off", "mtp-on")
def test_speed_holds(measure, server, sizes):
    """A long run with more clients than the server runs at once: as much accepted as alone, no fading, no dips."""
    clients = server.max_running_requests + 8
    loaded = measure.steadily("code", concurrency=clients, seconds=sizes.steady_s, max_tokens=64)
    loaded.must_hold()
    if server.asks_for_speculation:
        alone = measure.steadily("code", concurrency=1, seconds=sizes.steady_s / 4, max_tokens=64)
        loaded.must_accept_like(alone, "under load")
    server.must_give_everything_back("a long run")


@pytest.mark.arms("mtp-small-cache")
def test_acceptance_holds_in_a_full_cache(measure, server, sizes):
    """Clients that fill 90 % of the KV cache: as much must be accepted as with room to spare."""
    prompt, answer = server.fill(0.9, clients=8)
    alone = measure.steadily(prompt, concurrency=1, seconds=sizes.steady_s / 4, max_tokens=answer)
    full = measure.steadily(prompt, concurrency=8, seconds=sizes.steady_s, max_tokens=answer)
    full.must_accept_like(alone)
    server.must_give_everything_back("a run with a full cache")


@pytest.mark.arms("mtp-on")
def test_nothing_is_left_of_clients_that_hang_up(measure, server):
    """Clients who hang up in the middle of an answer leave no request running and no cache in use."""
    assert measure.leave_early("code", clients=8, after_s=0.5) > 0, (
        "every client was answered before it could hang up"
    )
    server.must_give_everything_back("eight clients hung up")
