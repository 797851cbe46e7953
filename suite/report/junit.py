"""What a CI system reads of a verdict: JUnit properties under stable names, in SI units."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from _pytest.junitxml import xml_key

from suite.gate import Judgement, Verdict
from suite.session.recording import STORED, WorkloadResult


def of_run(config: pytest.Config, judgement: Judgement) -> None:
    """The run's sentence and exit status, as properties of the whole file; nothing where none is written."""
    if (xml := config.stash.get(xml_key, None)) is not None:
        xml.add_global_property("sentence", judgement.sentence)
        xml.add_global_property("status", str(judgement.status))


def properties(verdicts: Iterable[Verdict]) -> list[tuple[str, object]]:
    """``METRIC.value``, ``.baseline``, ``.change``, ``.ci_low``, ``.ci_high`` and ``.verdict``; what is not known is left out."""
    told: list[tuple[str, object]] = []
    for verdict in verdicts:
        e = verdict.estimate
        known = {
            "value": e.value,
            "baseline": e.baseline_value,
            "change": e.change,
            "ci_low": e.ci_low,
            "ci_high": e.ci_high,
            "verdict": verdict.word,
        }
        told += [(f"{verdict.metric}.{name}", value) for name, value in known.items() if value is not None]
    return told


def figures(result: WorkloadResult) -> list[tuple[str, object]]:
    """``METRIC.value`` of everything that an item measured, judged or not: medians over its rounds."""
    medians = {name: result.median(name) for name in STORED}
    return [(f"{name}.value", value) for name, value in medians.items() if value is not None]
