"""One file, offline: what is taken into it, what is cut out of it, and which runs are its history."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from suite.__main__ import main
from suite.report import allure_html, told
from suite.report.allure_html import ReportError, offline
from tests.report import made

PAGE = """<html><script src="data:text/javascript;base64,aHR0cDovL3gueQ=="></script>
<script async src="https://www.googletagmanager.com/gtag/js?id=G-1"></script>
<script>window.dataLayer = [];</script><script>mine()</script><svg xmlns="http://www.w3.org/2000/svg"/></html>"""

ALLURE = """#!/bin/sh
mkdir report; cp {page} report/index.html; ls results > {seen}
grep -o '"name": *"[^"]*"' allurerc.json | head -1 | sed 's/^/{{/; s/$/}}/' >> history.jsonl
"""
"""Takes the place of Allure: makes a page, notes which results it was given, and appends to the history."""


@pytest.fixture
def allure(tmp_path: Path) -> Path:
    (tmp_path / "page.html").write_text(PAGE)
    command = tmp_path / "allure-command"
    command.write_text(ALLURE.format(page=tmp_path / "page.html", seen=tmp_path / "seen"))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return command


@pytest.fixture(autouse=True)
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take their time, and are no subject here."""
    monkeypatch.setattr("suite.report.pictures.can_draw", lambda: False)


def report(tmp_path: Path, allure: Path, *more: str) -> int:
    where = ["--allure-results", str(tmp_path / "allure"), "--results", str(tmp_path / "results")]
    return main(["report", *where, "--output", str(tmp_path / "out"), "--allure", str(allure), *more])


def played(tmp_path: Path, run_id: str, slow: float = 0.0) -> None:
    session = made.session(run_id, slow=slow)
    made.stored(tmp_path, session)
    made.allure_results(tmp_path / "allure", session)


def test_the_analytics_script_is_cut_out_and_nothing_else() -> None:
    page = offline(PAGE)
    assert "googletagmanager" not in page
    assert "dataLayer" not in page
    assert "mine()" in page
    assert "http://www.w3.org" in page


def test_a_page_knows_that_its_data_is_to_come_before_the_first_script_runs() -> None:
    """Allure's script looks once whether data is in the page, and asks a server for it where none is to come."""
    page = offline(PAGE)
    assert page.index("window.allureReportData=") < page.index("data:text/javascript")


@pytest.mark.parametrize(
    "tag", ['<script src="https://cdn.example/x.js">', "<link rel=stylesheet href=//cdn.example/x.css>"]
)
def test_a_page_that_would_fetch_from_elsewhere_is_refused(tag: str) -> None:
    with pytest.raises(ReportError, match=r"cdn\.example"):
        offline(PAGE + tag)


def test_only_the_newest_run_is_shown_and_the_others_are_its_history(
    tmp_path: Path, allure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(tmp_path, "20261120-100000-simulator")
    assert report(tmp_path, allure) == 0
    played(tmp_path, "20261121-100000-simulator", slow=0.05)
    assert report(tmp_path, allure) == 0
    assert "NO-GO" in capsys.readouterr().out
    first = {r["uuid"] for r in made.results(tmp_path / "allure") if _run(r) == "20261120-100000-simulator"}
    shown = (tmp_path / "seen").read_text()
    assert first
    assert not any(uuid in shown for uuid in first)
    history = (tmp_path / "out" / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["name"].partition("(")[2] for line in history] == [
        f"{day}-100000-simulator)" for day in ("20261120", "20261121")
    ]


def test_a_report_made_again_counts_once_in_the_history(tmp_path: Path, allure: Path) -> None:
    played(tmp_path, "20261120-100000-simulator")
    for _ in range(2):
        assert report(tmp_path, allure) == 0
    assert len((tmp_path / "out" / "history.jsonl").read_text().splitlines()) == 1


def test_an_attachment_outside_of_the_results_is_not_taken(tmp_path: Path, allure: Path) -> None:
    played(tmp_path, "20261120-100000-simulator")
    (tmp_path / "outside.txt").write_text("not for people")
    result = next((tmp_path / "allure").glob("*-result.json"))
    told_by = json.loads(result.read_text())
    told_by["attachments"].append({"name": "x", "source": "../outside.txt", "type": "text/plain"})
    result.write_text(json.dumps(told_by))
    assert report(tmp_path, allure) == 0
    assert "outside" not in (tmp_path / "seen").read_text()


def test_bad_input_is_told_in_a_sentence(
    tmp_path: Path, allure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report(tmp_path, allure) == 2
    assert "pytest -m perf --alluredir" in capsys.readouterr().err
    assert report(tmp_path, tmp_path / "nothing") == 2
    assert "no Allure at" in capsys.readouterr().err
    played(tmp_path, "20261120-100000-simulator")
    allure.write_text("#!/bin/sh\necho went wrong >&2; exit 3\n")
    assert report(tmp_path, allure) == 2
    assert "ended with 3: went wrong" in capsys.readouterr().err


def test_without_matplotlib_the_report_is_made_and_says_so(
    tmp_path: Path, allure: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    played(tmp_path, "20261120-100000-simulator")
    assert report(tmp_path, allure) == 0
    assert "no pictures: pictures need matplotlib: pip install" in capsys.readouterr().out


def _run(result: dict[str, object]) -> str:
    labels = result["labels"]
    assert isinstance(labels, list)
    return next(label["value"] for label in labels if label["name"] == "run")


def test_a_run_is_named_or_it_is_the_newest_that_has_results(tmp_path: Path) -> None:
    played(tmp_path, "20261120-100000-simulator")
    played(tmp_path, "20261121-100000-simulator")
    assert allure_html.newest_run(tmp_path / "allure") == "20261121-100000-simulator"
    assert told.read(tmp_path / "results" / "20261120-100000-simulator").session.run_id.startswith("20261120")
