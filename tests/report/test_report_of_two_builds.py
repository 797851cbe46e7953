"""A report of two builds: their items are told apart, in name, history and category, and what held stands side by side."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from suite.gate import Outcome, Reference, Session, judge, save_run
from suite.report import allure_run, told
from tests.report import made


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Launch 1 of one question on both builds, lost on the reference, and its verdict."""
    monkeypatch.setattr("suite.report.pictures.can_draw", lambda: False)
    lost = made.lost("decode_throughput[c1]", "mtp-off", 1, "no route to the host")
    other = made.session("other")
    held = [Outcome("answers_are_right", "canary", "mtp-off", 1, "kept", "", "")]
    reference = Reference("sglang==0.5.20", "sglang==0.5.23", other.series, [lost, *held])
    session = made.session(slow=0.08, reference=reference, outcomes=held)
    folder = tmp_path / session.run_id
    folder.mkdir()
    save_run(folder, session, judge(session, []))
    directory = tmp_path / "allure"
    made.allure_results(directory, _only(session, "decode_throughput[c1]"))
    allure_run.write(directory, told.read(folder), variables={})
    return directory


def _only(session: Session, question: str) -> Session:
    return msgspec.structs.replace(session, series=[s for s in session.series if s.question == question])


def test_the_same_launch_of_two_builds_is_two_entries(results: Path) -> None:
    found = made.results(results)
    assert len({result["historyId"] for result in found}) == len(found)
    names = {result["name"] for result in found}
    for build in ("reference", "candidate"):
        assert f"decode throughput, \u20071 client, mtp-off of the {build}, launch 1" in names


def test_what_stood_in_the_way_of_the_reference_is_told_of_its_own_item(results: Path) -> None:
    told_of = {r["name"]: r.get("statusDetails", {}).get("message") for r in made.results(results)}
    assert (
        told_of["decode throughput, \u20071 client, mtp-off of the reference, launch 1"]
        == "Infrastructure: no route to the host"
    )


def test_the_page_of_the_run_compares_with_the_reference_and_says_what_held(results: Path) -> None:
    (page,) = [r["descriptionHtml"] for r in made.results(results) if r["fullName"] == "verdict.simulator"]
    assert ">reference</th>" in page
    assert ">baseline</th>" not in page
    assert "What held on both builds" in page
    assert "answers_are_right" in page
