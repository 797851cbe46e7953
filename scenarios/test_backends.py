"""Which kernels start on this card, answer rightly, and how fast are they? A table; nothing is judged."""

import pytest

pytestmark = [pytest.mark.perf, pytest.mark.backends, pytest.mark.once]


@pytest.mark.arms("*-backend.*")
def test_backend(trial, arm, table):
    """Backends: what starts, whether it answers rightly, and its output tokens/s."""
    table.row(backend=arm, **trial.row())
