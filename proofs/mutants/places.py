"""Which files are changed, and which tests must notice."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Files that are mutated, and the tests that are run against each mutant, the quickest first."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


PLACES = {
    "gate/decide": Place(
        ("suite/gate/decide.py",),
        ("tests/gate/test_judge.py", "tests/gate/test_properties.py"),
    ),
    "metrics": Place(
        (
            "suite/metrics/acceptance.py",
            "suite/metrics/formulas.py",
            "suite/metrics/requests.py",
            "suite/metrics/rounds.py",
            "suite/metrics/validity.py",
        ),
        ("tests/test_metrics.py",),
    ),
    "session/verdict_items": Place(
        (
            "suite/session/verdict_items.py",
            "suite/session/measurement.py",
            "suite/session/fitness.py",
        ),
        (
            "tests/session/test_verdict_items.py",
            "tests/scenarios/test_measured.py",
            "tests/scenarios/test_precise_rounds.py",
        ),
    ),
}
"""By the name of a place, which is what ``--only`` takes."""
