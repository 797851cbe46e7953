"""From Allure results to one HTML file that needs nothing beside it: no server, no network, and nobody is told who reads it.

Allure 3 makes the page. Of the results only the newest run's are shown; earlier runs are its history.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite.foreign import lines
from suite.report import categories
from suite.report.allure_files import ARM, BUILD, LAUNCH, PART, QUESTION, RUN
from suite.report.allure_run import label_of
from suite.report.told import ToldRun
from suite.whole import write_whole

ALLURE = "3.18.0"
"""The version that this was tried with."""
HOME = Path(".allure")
PLACE = HOME / "node_modules" / ".bin" / "allure"
GET = ("npm", "install", "--no-audit", "--no-fund", "--prefix", str(HOME), f"allure@{ALLURE}")
RUNS_KEPT = 60
LIMIT_S = 300
HIDDEN = (
    *("suite", "subSuite", "feature", "tag", "host", "thread", "framework", "language", "package"),
    *(QUESTION, ARM, LAUNCH, BUILD, RUN),
)
"""Labels that say again what the page says, or what only programs ask for. One that the list is sorted by cannot be hidden."""
PAGE, HISTORY = "index.html", "history.jsonl"

_ANALYTICS = re.compile(
    r'<script[^>]*src="https://www\.googletagmanager\.com/[^"]*"[^>]*>\s*</script>\s*<script>.*?</script>',
    re.DOTALL,
)
_DATA_TO_COME = "<script>window.allureReportDataReady=false;window.allureReportData={}</script>"
"""Before Allure's own script. That looks once whether its data is in the page, which stands further down: where the browser
pauses between the two, on a busy machine, it would look for files that are not there, and the page would stay empty."""
_FROM_ELSEWHERE = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]{0,500}?(?:src|href)=["']?(?:https?:)?//[^"'\s>]+"""
)


class ReportError(Exception):
    """No report could be made; the text says why, and what to do next."""


@dataclass(frozen=True, slots=True)
class HtmlReport:
    """A report. runs: of how many runs it holds the history, this one among them."""

    path: Path
    runs: int


def find_allure(named: str | None) -> str:
    """The command that makes reports: the one named, Allure in `.allure`, or on the PATH.

    Raises:
        ReportError: there is none.
    """
    found = shutil.which(named) if named else (shutil.which(PLACE) or shutil.which("allure"))
    if found is None:
        raise ReportError(
            f"no Allure at {named}"
            if named
            else "Allure 3 is not installed; it needs Node.js 20: python -m suite report --install"
        )
    return str(Path(found).absolute())


def install(limit_s: float = LIMIT_S) -> None:
    """Put Allure into `.allure`, from npm's registry, where it is not there yet.

    Raises:
        ReportError: there is no npm, or it could not, or took longer than the limit.
    """
    if shutil.which(PLACE) is not None:
        return
    npm = shutil.which(GET[0])
    if npm is None:
        raise ReportError("npm is missing: install Node.js 20 or later, which includes it")
    HOME.mkdir(exist_ok=True)
    try:
        done = subprocess.run([npm, *GET[1:]], capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise ReportError(
            f"{' '.join(GET)} was not done after {limit_s:.0f} s: is npm's registry to be reached?"
        ) from None
    if done.returncode:
        raise ReportError(f"{' '.join(GET)} ended with {done.returncode}: {lines(done.stderr.strip())}")


def newest_run(results: Path) -> str:
    """The run whose results were written last.

    Raises:
        ReportError: there are no results of the suite's.
    """
    runs = [run for path in results.glob("*-result.json") if (run := label_of(_json(path), RUN))]
    if not runs:
        raise ReportError(
            f"{results} holds no Allure results of this suite; to make some: pytest -m perf --alluredir {results}"
        )
    return max(runs)


def build(results: Path, run: ToldRun, output: Path, allure: str) -> HtmlReport:
    """Write ``output/index.html``, and the history beside it.

    Args:
        results: of one run or several; attachments are taken along as they are named.

    Raises:
        ReportError: Allure failed, or its page would call elsewhere.
        OSError: the output cannot be written.
    """
    output.mkdir(parents=True, exist_ok=True)
    history = output / HISTORY
    with tempfile.TemporaryDirectory(prefix="allure-") as made:
        work = Path(made)
        _take(results, run.session.run_id, work / "results")
        name = f"{run.said.sentence} ({run.session.run_id})"
        _without(history, run.session.run_id, work / HISTORY)
        (work / "allurerc.json").write_text(json.dumps(_settings(name)), encoding="utf-8")
        _generate(allure, work)
        page = offline((work / "report" / PAGE).read_text(encoding="utf-8"))
        write_whole(output / PAGE, page)
        kept = (work / HISTORY).read_text(encoding="utf-8")
        write_whole(history, kept)
    return HtmlReport(output / PAGE, len(kept.splitlines()))


def offline(page: str) -> str:
    """The page without Allure's call to an analytics service, and so that it waits for its own data.

    Raises:
        ReportError: something in it would still be fetched from elsewhere.
    """
    page = _ANALYTICS.sub("", page)
    outside = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    if (left := _FROM_ELSEWHERE.search(outside)) is not None:
        raise ReportError(
            f"the page that Allure made would fetch something from elsewhere ({left[0][-120:]}): it is not kept. "
            f"This was tried with Allure {ALLURE}"
        )
    return page.replace("<script", f"{_DATA_TO_COME}<script", 1)


def _settings(name: str) -> dict[str, Any]:
    """Allure's configuration: the sentence as title, how the list is grouped, and the categories."""
    return {
        "name": name,
        "output": "report",
        "historyPath": HISTORY,
        "historyLimit": RUNS_KEPT,
        "appendHistory": True,
        "hideLabels": list(HIDDEN),
        "categories": {"rules": [{**rule, "expand": True} for rule in categories.rules()]},
        "plugins": {
            "awesome": {
                "options": {
                    "singleFile": True,
                    "reportLanguage": "en",
                    "groupBy": ["parentSuite", PART],
                    "defaultSortBy": "name,asc",
                    "stepTreeExpansion": "expand_failed_only",
                }
            }
        },
    }


def _take(results: Path, run_id: str, into: Path) -> None:
    """The files of one run: its results, their containers, attachments and metrics, and what speaks of the run as a whole."""
    into.mkdir()
    uuids: set[str] = set()
    for path in results.glob("*-result.json"):
        result = _json(path)
        if label_of(result, RUN) == run_id:
            uuids.add(str(result.get("uuid", "")))
            _link(path, into)
            for source in _sources(result):
                _link(results / source, into)
    for path in results.glob("*-container.json"):
        if uuids & set(_json(path).get("children") or ()):
            _link(path, into)
    whole = [results / name for name in ("environment.properties", "executor.json", "categories.json")]
    for path in [*whole, *(results / f"{uuid}-perf.json" for uuid in uuids)]:
        _link(path, into)


def _sources(result: dict[str, Any]) -> list[str]:
    """Names of attachments, of the result and of its steps; nothing that leads out of the folder."""
    found = [str(one.get("source", "")) for one in result.get("attachments") or [] if isinstance(one, dict)]
    for step in result.get("steps") or []:
        found += _sources(step) if isinstance(step, dict) else []
    return [source for source in found if source and Path(source).name == source]


def _link(path: Path, into: Path) -> None:
    if path.is_file():
        shutil.copyfile(path, into / path.name)


def _without(history: Path, run_id: str, into: Path) -> None:
    """The history but for this run: made again, its report replaces the first, and is compared with the run before."""
    try:
        entries = history.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        entries = []
    kept = [entry for entry in entries if entry.strip() and not _name(entry).endswith(f"({run_id})")]
    into.write_text("".join(f"{entry}\n" for entry in kept), encoding="utf-8")


def _name(entry: str) -> str:
    try:
        return str(json.loads(entry).get("name"))
    except (ValueError, AttributeError):
        return ""


def _generate(allure: str, work: Path) -> None:
    command: Sequence[str] = (allure, "generate", "-c", "allurerc.json", "results")
    try:
        done = subprocess.run(
            command, cwd=work, capture_output=True, text=True, timeout=LIMIT_S, check=False, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ReportError(f"{allure} gave no report: {error}") from None
    if done.returncode or not (work / "report" / PAGE).exists():
        told = lines((done.stderr or done.stdout).strip()) or "it printed nothing"
        raise ReportError(f"{allure} ended with {done.returncode}: {told}")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
