"""Which files are changed, and which tests must notice."""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """Files that are mutated, and the tests that are run against each mutant: the room's own and quick ones."""

    files: tuple[str, ...]
    tests: tuple[str, ...]


PLACES = {
    "gate/decide": Place(
        ("suite/gate/decide.py",),
        ("tests/gate/test_decide.py",),
    ),
    "metrics": Place(
        (
            "suite/metrics/acceptance.py",
            "suite/metrics/energy.py",
            "suite/metrics/formulas.py",
            "suite/metrics/registry.py",
            "suite/metrics/requests.py",
            "suite/metrics/rounds.py",
            "suite/metrics/validity.py",
        ),
        ("tests/test_metrics.py", "tests/test_registry.py", "tests/probes/test_fitness.py"),
    ),
    "session/judging": Place(
        (
            "suite/session/fitness.py",
            "suite/session/measurement.py",
            "suite/session/verdict_items.py",
        ),
        (
            "tests/session/test_verdict_items.py",
            "tests/scenarios/test_measured.py",
            "tests/scenarios/test_precise_rounds.py",
        ),
    ),
}
"""By the name of a place. Each is judged as a whole: what its tests may leave alive is a share of all its mutants."""
