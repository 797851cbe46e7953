"""How many tokens to draft? More are accepted of a longer draft, and more is lost when they are not."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.depth, pytest.mark.once]


@pytest.mark.arms("mtp-depth-*")
def test_draft_depth(measure, arm, concurrency, table):
    """Draft depth: output tokens/s and acceptance length by steps and clients."""
    measured = measure("code", concurrency=concurrency)
    table.row(
        clients=concurrency,
        steps=int(arm.rsplit("-", 1)[1]),
        tokens_per_s=measured["output_tokens_per_s"],
        acceptance_length=measured["acceptance_length"],
    )
    table.best_of("tokens_per_s", by="clients", named="steps")
