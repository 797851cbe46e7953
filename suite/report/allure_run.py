"""What is added to a run's Allure results once it was judged: the verdict on top, comparisons, pictures, categories, metrics.

Reads nothing but the results and what is stored of the run, so that it can be done at the end of the run, and again
anywhere, with pictures where matplotlib is installed. Written for Allure 3 and read by Allure 2 as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from suite import redact
from suite.foreign import NotJSON, json_of, one_line, read_file
from suite.gate import Key, Verdict
from suite.metrics import METRICS
from suite.report import categories, pages, pictures, words
from suite.report.allure_files import ARM, BUILD, LAUNCH, MEASURED, PART, QUESTION, RUN, VERDICT, title
from suite.report.ci_system import executor
from suite.report.told import ToldRun
from suite.session.plan import CANDIDATE, REFERENCE
from suite.whole import write_whole

TOP = "00"
"""Before the run's sentence, which is the name of the suite on top: a list that is folded shows it."""

KNOWN = {
    "sglang": "SGLang",
    "commit": "commit",
    "described": "described",
    "image": "image",
    "image_digest": "image digest",
    "driver": "driver",
    "gpu": "GPU",
    "gpus": "GPUs",
    "model": "model",
    "torch": "torch",
    "cuda": "CUDA",
}
"""Of build and machine, what the report's front page names, and how."""

Result = dict[str, Any]


def write(
    directory: Path, run: ToldRun, known_good: str = "", variables: Mapping[str, str] | None = None
) -> None:
    """Complete the results of a run; again for the same run replaces what was written then.

    Args:
        directory: of Allure results, other runs' among them.
        known_good: the last build that passed, in words.
        variables: of the CI job; this process's own by default.

    Raises:
        OSError: the directory cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    run_id = run.session.run_id
    can = pictures.can_draw()
    _write(directory / "environment.properties", _environment(run))
    _executor(directory / "executor.json", run_id, os.environ if variables is None else variables)
    _write_json(directory / "categories.json", categories.rules())
    for path, result in results_of(directory, run_id):
        _complete(result, run, can)
        _write_json(path, result)
    for path, container in _containers(directory):
        _write_json(path, container)
    drawn = pictures.of_run(run) if can else []
    name = _id("run", run_id)
    _write_json(
        directory / f"{name}-result.json", _overall(directory, run, pages.of_run(run, drawn, known_good))
    )
    _write_json(directory / f"{name}-perf.json", _metrics(run))


def _executor(path: Path, run_id: str, variables: Mapping[str, str]) -> None:
    """Which CI job it was; a report that is made by hand later leaves that as the job wrote it."""
    made = executor(variables, run_id)
    there = _read(path) or {}
    if made["type"] != "local" or there.get("reportName") != run_id:
        _write_json(path, made)


def results_of(directory: Path, run_id: str) -> Iterator[tuple[Path, Result]]:
    """The results of one run, but for the page on top."""
    for path in sorted(directory.glob("*-result.json")):
        result = _read(path)
        if result is not None and label_of(result, RUN) == run_id and label_of(result, QUESTION):
            yield path, result


def label_of(result: Result, name: str) -> str:
    """The value of a label; empty where it is not there."""
    labels = [label for label in result.get("labels") or [] if isinstance(label, dict)]
    return next((str(label.get("value", "")) for label in labels if label.get("name") == name), "")


def _complete(result: Result, run: ToldRun, can_draw: bool) -> None:
    """What the judgement adds to an item's page, and what does not change from run to run."""
    question, arm, launch, build = (label_of(result, name) for name in (QUESTION, ARM, LAUNCH, BUILD))
    asked = (question, arm, launch, *([build] if build else []))
    result["historyId"] = _id("history", run.session.target, *asked)
    result["testCaseId"] = _id("case", *asked)
    for parameter in result.get("parameters") or []:
        parameter["value"] = str(parameter.get("value", "")).strip("'")
    result["name"] = title(words.aligned(question, _questions(run)), arm, launch, build)
    if launch == VERDICT:
        key = Key(question, arm, "")
        drawn = pictures.of_series(run, key) if can_draw else []
        result["name"] = pages.title_of(run, key)
        result["descriptionHtml"] = pages.of_series(run, key, drawn)
        result["parameters"] = [{"name": "arm", "value": arm}, {"name": "question", "value": question}]
    labels = {(label["name"], label["value"]) for label in result.get("labels") or []}
    if launch != VERDICT and any(series.question == question for series in run.session.series):
        labels.add((PART, MEASURED))
    result["labels"] = [{"name": name, "value": value} for name, value in sorted(labels)]
    _say_what_kind(result, _category(run, question, arm, launch, build))


def _questions(run: ToldRun) -> list[str]:
    return [series.question for series in run.session.series]


def _category(run: ToldRun, question: str, arm: str, launch: str, build: str) -> str:
    if launch == VERDICT:
        verdicts = run.of(question, arm)
        return categories.of_word(verdicts[0].word) if verdicts else ""
    session = run.session
    outcomes = session.reference.outcomes if session.reference and build == REFERENCE else session.outcomes
    of_item = [o for o in outcomes if (o.item, o.arm, str(o.launch)) == (question, arm, launch)]
    return next(filter(None, map(categories.of_outcome, of_item)), "")


def _say_what_kind(result: Result, category: str) -> None:
    """Begin the message with its category, which `categories.json` sorts by, in place of the exception's name."""
    details = result.get("statusDetails")
    if not category or not isinstance(details, dict) or result.get("status") == "passed":
        return
    message = str(details.get("message") or "")
    if not message.startswith(f"{category}:"):
        first, _, rest = message.partition(": ")
        details["message"] = f"{category}: {rest if rest and ' ' not in first else message}"


def _containers(directory: Path) -> Iterator[tuple[Path, Result]]:
    """Set-ups and tear-downs that say nothing to people are left out: pytest's own bookkeeping, and bare parameters."""
    for path in sorted(directory.glob("*-container.json")):
        container = _read(path)
        if container is None:
            continue
        steps = [step for step in container.get("afters") or [] if isinstance(step, dict)]
        kept = [step for step in steps if "::<lambda>" not in str(step.get("name", ""))]
        for step in kept:
            fixture, separator, _ = str(step["name"]).partition("::")
            step["name"] = f"end: {fixture}" if separator else fixture
        if kept != steps or steps:
            yield path, {**container, "afters": kept}


def _overall(directory: Path, run: ToldRun, page: str) -> Result:
    """One result for the run: its name tells in ten seconds what a person came to see."""
    session, said = run.session, run.said
    start = _milliseconds(session.started_at)
    words = [v.word for v in run.verdicts]
    counted = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
    status = {0: "passed", 1: "failed"}.get(said.status, "broken")
    kind = {1: _gravest(run), 8: categories.UNDECIDED, 9: categories.MACHINE}.get(said.status, "")
    message = f"{said.sentence}\n{session.target}: {counted or 'nothing judged'}"
    name = _id("run", session.run_id)
    return {
        "uuid": name,
        "historyId": _id("history", session.target, TOP),
        "testCaseId": _id("case", TOP),
        "fullName": f"verdict.{session.target}",
        "name": f"The run: {said.sentence}",
        "status": status,
        "statusDetails": {"message": f"{kind}: {message}" if kind else message},
        "start": start,
        "stop": start + 1,
        "descriptionHtml": page,
        "attachments": list(_attached(directory, run.folder, name)),
        "labels": [
            {"name": "parentSuite", "value": f"{TOP} {said.sentence}"},
            {"name": "feature", "value": f"{TOP} {said.sentence}"},
            {"name": "severity", "value": "blocker"},
            {"name": RUN, "value": session.run_id},
        ],
    }


def _gravest(run: ToldRun) -> str:
    broken = any(outcome.word == "broken" for outcome in run.session.outcomes)
    words = {verdict.word for verdict in run.verdicts}
    return categories.BROKEN if broken or "broken promise" in words else categories.REGRESSION


def _attached(directory: Path, folder: Path, name: str) -> Iterator[Result]:
    """What the run wrote for people and for programs, beside its page."""
    for number, (file, kind) in enumerate(
        (("summary.md", "text/markdown"), ("verdicts.json", "application/json"))
    ):
        with suppress(OSError):
            text = read_file(folder / file).decode("utf-8", "replace")
            source = f"{name[:-1]}{number}-attachment{Path(file).suffix}"
            _write(directory / source, text)
            yield {"name": file, "source": source, "type": kind}


def _metrics(run: ToldRun) -> list[Result]:
    """The judged figures in the form that Allure 3 draws over time."""
    start = _milliseconds(run.session.started_at)
    return [
        {
            "id": _id("metric", run.session.run_id, *verdict.key),
            "key": ".".join((run.session.target, *verdict.key)),
            "value": verdict.value,
            "start": start,
            "stop": start + 1,
            "title": f"{verdict.question} {verdict.arm} {verdict.estimate.label}",
            "unit": verdict.estimate.unit,
            "group": run.session.target,
            "better": _better(verdict),
        }
        for verdict in run.verdicts
        if verdict.value is not None
    ]


def _better(verdict: Verdict) -> str:
    metric = METRICS.get(verdict.metric)
    return metric.better if metric is not None else "neutral"


def _environment(run: ToldRun) -> str:
    """A Java properties file: build and machine of the first series that tells of them, then the run."""
    session = run.session
    sources = [source for series in session.series for source in (series.subject, series.identity)]
    facts: dict[str, object] = {"target": session.target}
    for name, told in KNOWN.items():
        value = next((source[name] for source in sources if source.get(name) not in (None, "")), None)
        facts |= {told: value} if value is not None else {}
    if session.reference is not None:
        facts |= {REFERENCE: session.reference.name, CANDIDATE: session.reference.candidate}
    facts |= {"budget": session.plan.budget, "run": session.run_id, "started": session.started_at}
    return "".join(f"{_property(name)}={_property(one_line(str(value)))}\n" for name, value in facts.items())


def _property(text: str) -> str:
    """As a Java properties file wants it: one line, no bare separators in a name."""
    return text.replace("\\", "\\\\").replace("\n", " ").replace("=", "\\=").replace(":", "\\:")


def _milliseconds(when: str) -> int:
    try:
        return int(datetime.fromisoformat(when).timestamp() * 1000)
    except ValueError:
        return 0


def _id(*parts: str) -> str:
    """The same for the same parts, in the form of a UUID, so that nothing is there twice when it is written again."""
    return str(uuid.UUID(bytes=hashlib.sha256("\0".join(parts).encode()).digest()[:16]))


def _read(path: Path) -> Result | None:
    """A JSON table; None for what is none, which Allure would not read either."""
    with suppress(OSError, NotJSON):
        found = json_of(read_file(path))
        if isinstance(found, dict):
            return found
    return None


def _write_json(path: Path, value: Sequence[Any] | Mapping[str, Any]) -> None:
    _write(path, json.dumps(value, ensure_ascii=False, allow_nan=False))


def _write(path: Path, text: str) -> None:
    write_whole(path, redact.cut(text))
