"""What a CI system reads of a verdict: JUnit properties under stable names, in SI units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import pytest
from _pytest.junitxml import LogXML, xml_key

from suite.gate import Judgement, Verdict
from suite.report import failures
from suite.session.told_again import ToldItem


def of_run(config: pytest.Config, judgement: Judgement) -> None:
    """The run's sentence and exit status, as properties of the whole file; nothing where none is written."""
    if (xml := config.stash.get(xml_key, None)) is not None:
        _of_whole(xml, judgement)


def _of_whole(xml: LogXML, judgement: Judgement) -> None:
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


def figures(rounds: Mapping[str, Sequence[float | None]]) -> list[tuple[str, object]]:
    """``METRIC.value`` of everything that an item measured, judged or not: medians over its rounds."""
    known = {name: [value for value in values if value is not None] for name, values in rounds.items()}
    return [(f"{name}.value", median(values)) for name, values in known.items() if values]


def write(path: Path, items: Iterable[ToldItem], judgement: Judgement) -> None:
    """A file as pytest writes it, of items that were played elsewhere. Raises OSError."""
    xml = LogXML(path, None, family="xunit2")
    xml.pytest_sessionstart()
    for item in items:
        own = properties(item.verdicts) + (figures(item.measured.rounds) if item.measured else [])
        for report in failures.reports(item.nodeid, item.error, item.seconds, own):
            xml.pytest_runtest_logreport(report)
    _of_whole(xml, judgement)
    xml.pytest_sessionfinish()
