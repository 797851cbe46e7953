"""What an Allure report shows beside pytest's outcome: labels, the server's life, samples and verdicts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import allure
import pytest

from suite.gate import Verdict
from suite.recording import Played
from suite.run import Run
from suite.served import Served
from suite.settings import Settings

LOG_TAIL_LINES = 400
"""A whole log can be megabytes, which the report's page would hold in its text: only the end is attached."""

KINDS = (
    "activation",
    "decode",
    "prefill",
    "acceptance",
    "speedup",
    "sanity",
    "steadiness",
    "backends",
    "startup",
)


def label(item: pytest.Item) -> None:
    """Feature: the kind of question; story: the question; parameters as the item has them."""
    kind = next((kind for kind in KINDS if item.get_closest_marker(kind)), "other")
    allure.dynamic.feature(kind)  # type: ignore[no-untyped-call]
    documented = getattr(item, "function", None)
    if documented is not None and documented.__doc__:
        allure.dynamic.story(documented.__doc__.strip().splitlines()[0])  # type: ignore[no-untyped-call]


def attach_server(served: Served) -> None:
    """The command line, what it resolved to, and the end of the server's log."""
    lines = [" ".join(served.server.command), *(f"{k}={v}" for k, v in sorted(served.server.env.items()))]
    attach_text("command line", "\n".join(lines))
    attach_json("resolved configuration", {"version": served.info.version, **served.info.resolved})
    attach_text("server log (end)", "\n".join(served.server.log_tail(LOG_TAIL_LINES)))


def attach_played(played: Played) -> None:
    """Every round's metrics, and why any are missing."""
    rounds = [{name: value.value for name, value in values.items()} for values in played.values]
    reasons = {
        name: value.reason for values in played.values for name, value in values.items() if value.reason
    }
    attach_json("samples", {"rounds": rounds, "missing": reasons, "identity": played.identity})


def attach_verdicts(verdicts: Sequence[Verdict]) -> None:
    """The verdicts' sentences."""
    attach_text("verdicts", "\n".join(f"{verdict.word}: {verdict.headline}" for verdict in verdicts))


def attach_text(name: str, text: str) -> None:
    allure.attach(text, name=name, attachment_type=allure.attachment_type.TEXT)


def attach_json(name: str, value: Any) -> None:
    text = json.dumps(value, indent=2, default=str)
    allure.attach(text, name=name, attachment_type=allure.attachment_type.JSON)


def write_environment(config: pytest.Config, settings: Settings, run: Run, facts: Mapping[str, Any]) -> None:
    """``environment.properties`` in the results directory, if Allure results are being written."""
    directory = config.getoption("allure_report_dir", default=None)
    if not directory:
        return
    shown = {"target": settings.target.name, "budget": settings.budget, "run": run.run_id, **facts}
    text = "".join(f"{_escaped(name)}={_escaped(str(value))}\n" for name, value in shown.items())
    (Path(directory) / "environment.properties").write_text(text, encoding="utf-8")


def _escaped(text: str) -> str:
    """As a Java properties file wants it: one line, no bare separators in a name."""
    return text.replace("\\", "\\\\").replace("\n", " ").replace("=", "\\=").replace(":", "\\:")
