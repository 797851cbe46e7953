"""A pytest plugin that writes how every item ended, a JSON line each: ``-p faults.recorder``, file in FAULTS_RECORD."""

from __future__ import annotations

import json
import os
from collections.abc import Generator

import pytest

from suite.session.outcomes import (
    ArmNotInEffect,
    ArmUnavailable,
    Inconclusive,
    InvalidMeasurement,
    Regression,
    family,
)

WORDS: tuple[tuple[type[BaseException], str], ...] = (
    (Regression, "regression"),
    (ArmNotInEffect, "not in effect"),
    (InvalidMeasurement, "invalid"),
    (Inconclusive, "inconclusive"),
    (ArmUnavailable, "unavailable"),
)
"""What an exception says that is told apart from others of its family, the first that fits."""

FAMILIES = {"broken": "broken promise", "infrastructure": "infrastructure"}
"""What the others say by family; an error that is of none is the suite's own."""


def word_of(error: BaseException) -> str:
    """How an item ended that raised ``error``."""
    named = next((word for kind, word in WORDS if isinstance(error, kind)), None)
    return named or FAMILIES.get(family(error), "error")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    error = call.excinfo.value if call.excinfo is not None else None
    if report.failed and error is not None:
        _write(item, word_of(error), f"{type(error).__name__}: {error}")
    elif report.when == "call" or report.skipped:
        _write(item, report.outcome, str(error) if error is not None else "")
    return report


def _write(item: pytest.Item, word: str, text: str) -> None:
    name, _, parameters = item.name.removeprefix("test_").partition("[")
    line = {"scenario": name, "parameters": parameters.rstrip("]"), "word": word, "text": text}
    with open(os.environ["FAULTS_RECORD"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
