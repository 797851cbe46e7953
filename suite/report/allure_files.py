"""What an Allure report shows of an item while it is played: labels in plain words, the server's life, samples.

What can be said only once the run was judged is added at its end, see :mod:`suite.report.allure_run`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import allure
import pytest

from suite import redact
from suite.report import words
from suite.report.clean import clean
from suite.session.collection import SeriesId, kind_of, launch_id_of, question_of, verdict_of
from suite.session.recording import WorkloadResult
from suite.session.running_arm import RunningArm

LOG_LINES = 200
"""Of a log, the end: a whole one can be megabytes, which the report's page would hold in its text."""

PLACES = {
    "activation": (1, "blocker"),
    "spellings": (2, "normal"),
    "canary": (3, "blocker"),
    "lossless": (3, "blocker"),
    "decode": (4, "critical"),
    "speedup": (5, "critical"),
    "acceptance": (6, "critical"),
    "prefill": (7, "critical"),
    "steptime": (8, "normal"),
    "traffic": (9, "critical"),
    "steadiness": (10, "critical"),
    "startup": (11, "normal"),
    "log": (12, "normal"),
    "configuration": (13, "minor"),
    "depth": (14, "trivial"),
    "backends": (15, "trivial"),
}
"""Where a kind of question stands in the report, and how grave it is when its promise breaks; tables judge nothing."""

OTHERS = (99, "normal")
QUESTION, ARM, LAUNCH, BUILD, RUN = "question", "arm", "launch", "build", "run"
"""Names of the labels by which an item's page is found again at the end of the run, or later."""
PART, MEASURED = "part", "measured: every launch"
"""The label by which launches are folded away behind the verdict on them, and its value."""
VERDICT = "verdict"
"""In place of a launch's number: the item judges them all."""


def label(item: pytest.Item, run_id: str) -> None:
    """Suite: the kind of question in the words of its file; and which question, arm and launch it is."""
    kind = kind_of(item) or ""
    place, severity = PLACES.get(kind, OTHERS)
    told = _first_sentence(getattr(getattr(item, "module", None), "__doc__", None)) or kind or item.name
    suite = f"{place:02d} {told}"
    question, arm, launch, build = _asked(item)
    allure.dynamic.parent_suite(suite)  # type: ignore[no-untyped-call]
    allure.dynamic.suite(words.asked(question).title)  # type: ignore[no-untyped-call]
    allure.dynamic.feature(suite)  # type: ignore[no-untyped-call]
    allure.dynamic.severity(severity)  # type: ignore[no-untyped-call]
    told_of = {QUESTION: question, ARM: arm, LAUNCH: launch, **({BUILD: build} if build else {}), RUN: run_id}
    for name, value in told_of.items():
        allure.dynamic.label(name, value)  # type: ignore[no-untyped-call]


def title(asked: str, arm: str, launch: str, build: str = "") -> str:
    """`decode throughput, 4 clients, mtp-on, launch 2`; of two builds `mtp-on of the candidate, launch 2`."""
    who = f"{arm} of the {build}" if build else arm
    return f"{asked}, {who}, {launch if launch == VERDICT else f'launch {launch}'}"


def _asked(item: pytest.Item) -> tuple[str, str, str, str]:
    """Question, arm, number of the launch, and which of two builds; empty where there is one."""
    series: SeriesId | None = item.stash.get(verdict_of, None)
    if series is not None:
        return series.question, series.arm, VERDICT, ""
    launch = item.stash[launch_id_of]
    return item.stash[question_of], launch.arm, str(launch.number), launch.build


def _first_sentence(text: str | None) -> str:
    line = (text or "").strip().partition("\n")[0]
    return re.split(r"(?<=[?.])\s", line, maxsplit=1)[0].rstrip(".")


class ServerPages:
    """What is shown of servers: of one launch, what is long is shown once, and of its log each line with one item."""

    def __init__(self) -> None:
        self._shown: dict[int, int] = {}
        """By launch of the run, how far into its log the items so far have come, in bytes."""

    def attach(self, served: RunningArm, changed: Sequence[str] | None) -> None:
        """The command line, what it resolved to, how that differs from the baseline, and this item's part of the log.

        Args:
            changed: what differs from the arm's baseline, a line each; None without a baseline.
        """
        lines = [" ".join(served.server.command), *(f"{k}={v}" for k, v in sorted(served.server.env.items()))]
        attach_text("command line and variables", "\n".join(lines))
        if changed is not None:
            same = "nothing: configuration and build are the baseline's"
            attach_text("changed since the baseline", "\n".join(changed) or same)
        if served.number not in self._shown:
            attach_json("resolved configuration", {"version": served.info.version, **served.info.resolved})
        attach_text("server log, this item's part", "\n".join(self._log(served)) or "(no line)")

    def _log(self, served: RunningArm) -> list[str]:
        path, before = served.server.log_path, self._shown.get(served.number, 0)
        self._shown[served.number] = before
        if path is None:
            return served.server.log_tail(LOG_LINES)
        try:
            with path.open("rb") as file:
                file.seek(before)
                data = file.read()
        except OSError:
            return served.server.log_tail(LOG_LINES)
        self._shown[served.number] = before + len(data)
        lines = data.decode("utf-8", "replace").splitlines()
        left = len(lines) - LOG_LINES
        return [f"({left} earlier lines are in {path.name})", *lines[-LOG_LINES:]] if left > 0 else lines


def attach_played(played: WorkloadResult) -> None:
    """Every round's metrics, why any are missing, and what makes the samples comparable."""
    rounds = [{name: value.value for name, value in values.items()} for values in played.values]
    reasons = {
        name: value.reason for values in played.values for name, value in values.items() if value.reason
    }
    attach_json(
        "samples",
        {
            "rounds": rounds,
            "missing": reasons,
            "invalid": [f"{reason.name}: {reason.evidence}" for reason in played.launch().invalid],
            "identity": played.identity,
        },
    )


def attach_text(name: str, text: str) -> None:
    """A text attachment of the current item."""
    allure.attach(clean(text), name=name, attachment_type=allure.attachment_type.TEXT)


def attach_json(name: str, value: Any) -> None:
    """A JSON attachment of the current item, indented, because the report shows it as it is."""
    text = redact.cut(json.dumps(redact.masked(value), indent=2, default=str))
    allure.attach(text, name=name, attachment_type=allure.attachment_type.JSON)
