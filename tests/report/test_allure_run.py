"""What the end of a run adds to its Allure results: the verdict on top, comparisons, categories, ids that last, no markup of others."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from suite import redact
from suite.gate import Plan, Reference
from suite.report import allure_run, categories, pages, pictures, told
from suite.report.ci_system import executor
from suite.report.clean import clean
from tests.report import made

GITHUB = {
    "GITHUB_SERVER_URL": "https://github.com",
    "GITHUB_REPOSITORY": "us/perf",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_NUMBER": "12",
    "GITHUB_WORKFLOW": "nightly",
}


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where matplotlib is not installed."""
    monkeypatch.setattr(pictures, "can_draw", lambda: False)


def complete(root: Path, slow: float = 0.05, **more: Any) -> tuple[Path, told.ToldRun]:
    session = made.session(slow=slow, **more)
    folder = made.stored(root, session)
    directory = root / "allure"
    made.allure_results(directory, session, {"arm": "mtp-on"})
    run = told.read(folder)
    allure_run.write(directory, run, "sglang 0.5.22", {})
    return directory, run


def the_run(directory: Path) -> dict[str, Any]:
    (found,) = [r for r in made.results(directory) if r["fullName"] == "verdict.simulator"]
    return found


def of(directory: Path, question: str, arm: str, launch: str) -> dict[str, Any]:
    wanted = {("question", question), ("arm", arm), ("launch", launch)}
    (found,) = [
        r
        for r in made.results(directory)
        if wanted <= {(label["name"], label["value"]) for label in r["labels"]}
    ]
    return found


def test_the_sentence_is_the_name_of_the_first_suite_and_of_its_page(tmp_path: Path, undrawn: None) -> None:
    directory, run = complete(tmp_path)
    page = the_run(directory)
    suites = sorted({r["labels"][0]["value"] for r in made.results(directory)})
    assert suites[0] == f"00 {run.said.sentence}"
    assert run.said.sentence in page["name"]
    assert page["status"] == "failed"
    assert page["statusDetails"]["message"].startswith("Regression: NO-GO")
    assert (
        "Back to the last build that passed, sglang 0.5.22: <code>python -m suite known-good"
        in page["descriptionHtml"]
    )


def test_a_good_run_has_a_green_page(tmp_path: Path, undrawn: None) -> None:
    directory, _ = complete(tmp_path, slow=0.0)
    assert the_run(directory)["status"] == "passed"
    assert "figures pass</summary>" in the_run(directory)["descriptionHtml"]


def test_a_figure_has_its_comparison_its_reason_and_what_to_do(tmp_path: Path, undrawn: None) -> None:
    directory, run = complete(tmp_path)
    result = of(directory, "decode_throughput[c4]", "mtp-on", "verdict")
    tokens = next(v for v in run.of("decode_throughput[c4]", "mtp-on") if v.metric == "output_tokens_per_s")
    # 4 is as wide as 16 and 64 in the list, and stands before them
    assert result["name"].startswith("decode throughput, \u20074 clients, mtp-on: regression")
    page = result["descriptionHtml"]
    for expected in (tokens.headline, tokens.reason, "baseline", "-k decode_throughput"):
        assert pages.escaped(expected) in page
    assert "<table" in page
    assert "<img" not in page


def test_pictures_stand_on_the_pages_where_they_can_be_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    directory, _ = complete(tmp_path)
    first = the_run(directory)["descriptionHtml"]
    assert first.index("All changes against the baseline") < first.index("<table")
    assert len(re.findall("data:image/svg", first)) == 5
    assert (
        len(
            re.findall(
                "data:image/svg",
                of(directory, "decode_throughput[c4]", "mtp-on", "verdict")["descriptionHtml"],
            )
        )
        == 2
    )


def test_history_ids_survive_parameters_runs_and_titles(tmp_path: Path, undrawn: None) -> None:
    directory, _ = complete(tmp_path / "one")
    later = made.session("20261122-100000-simulator", day=22)
    other = tmp_path / "two" / "allure"
    made.allure_results(other, later, {"arm": "mtp-on", "a_new_parameter": "7"})
    allure_run.write(other, told.read(made.stored(tmp_path / "two", later)), variables={})
    ids = [sorted(r["historyId"] for r in made.results(where)) for where in (directory, other)]
    assert ids[0] == ids[1]
    assert len(set(ids[0])) == len(ids[0])


def test_of_two_builds_each_item_is_a_test_of_its_own_and_says_whose_it_is(
    tmp_path: Path, undrawn: None
) -> None:
    session = made.session(slow=0.0)
    refused = made.lost("decode_throughput[c1]", "mtp-off", 1, "no route to the host")
    compared = msgspec.structs.replace(
        session, reference=Reference("0.5.20", "0.5.23", session.series, [refused])
    )
    directory = tmp_path / "allure"
    made.allure_results(directory, compared)
    allure_run.write(directory, told.read(made.stored(tmp_path, compared)), variables={})
    results = made.results(directory)
    for identity in ("historyId", "testCaseId", "name"):
        assert len({r[identity] for r in results}) == len(results)
    first = [r for r in results if r["name"].startswith("decode throughput, \u20071 client, mtp-off of the")]
    assert {r["name"]: r["status"] for r in first if r["name"].endswith("launch 1")} == {
        "decode throughput, \u20071 client, mtp-off of the reference, launch 1": "broken",
        "decode throughput, \u20071 client, mtp-off of the candidate, launch 1": "passed",
    }
    (message,) = [r["statusDetails"]["message"] for r in first if "statusDetails" in r]
    assert message.startswith("Infrastructure: ")
    properties = (directory / "environment.properties").read_text().splitlines()
    assert {"reference=0.5.20", "candidate=0.5.23"} <= set(properties)


def test_writing_again_replaces_what_was_written(tmp_path: Path, undrawn: None) -> None:
    directory, run = complete(tmp_path)
    before = {path.name: path.read_text() for path in directory.iterdir()}
    allure_run.write(directory, run, "sglang 0.5.22", {})
    assert {path.name: path.read_text() for path in directory.iterdir()} == before


def test_items_that_met_the_machine_are_sorted_as_infrastructure(tmp_path: Path, undrawn: None) -> None:
    lost = made.lost("decode_throughput[c1]", "mtp-off", 1, "no route to the host")
    directory, _ = complete(tmp_path, outcomes=[lost])
    message = of(directory, "decode_throughput[c1]", "mtp-off", "1")["statusDetails"]["message"]
    assert message == "Infrastructure: no route to the host"
    matching = [rule["name"] for rule in categories.rules() if re.match(rule["messageRegex"], message)]
    assert matching == ["Infrastructure"]


def test_an_unjudged_run_says_how_to_record(tmp_path: Path, undrawn: None) -> None:
    session = made.session()
    folder = made.stored(tmp_path, session)
    from suite.gate import BaselineStore, judge, save_run

    save_run(
        folder, session, judge(session, BaselineStore(tmp_path / "none", "simulator").sessions_for(session))
    )
    directory = tmp_path / "allure"
    made.allure_results(directory, session)
    allure_run.write(directory, told.read(folder), variables={})
    assert "without a verdict" in the_run(directory)["descriptionHtml"]
    assert (
        "--record-baseline" in of(directory, "decode_throughput[c4]", "mtp-on", "verdict")["descriptionHtml"]
    )


def test_tear_down_steps_have_names_in_words(tmp_path: Path, undrawn: None) -> None:
    directory, _ = complete(tmp_path)
    steps = [
        step["name"]
        for path in directory.glob("*-container.json")
        for step in json.loads(path.read_text())["afters"]
    ]
    assert set(steps) == {"end: server"}


def test_build_and_machine_are_on_the_first_page(tmp_path: Path, undrawn: None) -> None:
    directory, _ = complete(tmp_path, plan=Plan("gate", 3, 5, [3]))
    told_lines = (directory / "environment.properties").read_text().splitlines()
    for line in (
        "SGLang=0.5.23",
        "commit=5e2cda61",
        "driver=580.95",
        "GPU=modelled",
        "model=tiny",
        "budget=gate",
    ):
        assert line in told_lines


def test_the_ci_job_is_named_and_a_report_made_later_by_hand_keeps_it(tmp_path: Path, undrawn: None) -> None:
    directory, run = complete(tmp_path)
    allure_run.write(directory, run, variables=GITHUB)
    allure_run.write(directory, run, variables={})
    job = json.loads((directory / "executor.json").read_text())
    assert job["buildUrl"] == "https://github.com/us/perf/actions/runs/77"
    assert job["buildOrder"] == 12


def test_gitlab_and_jenkins_are_known_too() -> None:
    gitlab = {"CI_JOB_URL": "https://git.example/j/5", "CI_PIPELINE_IID": "9", "CI_PROJECT_PATH": "us/perf"}
    jenkins = {
        "JENKINS_URL": "https://ci.example",
        "BUILD_URL": "https://ci.example/j/3",
        "BUILD_NUMBER": "3",
    }
    assert executor(gitlab, "r")["name"] == "GitLab CI"
    assert executor(jenkins, "r")["buildOrder"] == 3
    assert executor({}, "r")["buildName"] == "r"


def test_what_others_say_is_no_markup(tmp_path: Path, undrawn: None) -> None:
    session = made.hostile()
    directory = tmp_path / "allure"
    made.allure_results(directory, session)
    allure_run.write(directory, told.read(made.stored(tmp_path, session)), variables={})
    for result in made.results(directory):
        page = result.get("descriptionHtml", "")
        assert "<script" not in page
        assert "<img src=x" not in page
        assert "\x1b" not in page
    assert "&lt;script&gt;" in the_run(directory)["descriptionHtml"]


def test_a_secret_that_a_server_echoes_is_in_no_file(tmp_path: Path) -> None:
    """Planted in what a server says of itself; looked for in every file, inside of pictures as well."""
    planted = "hf_plantedZq91token"
    redact.learn(planted)
    from suite.gate import Event

    session = made.session(slow=0.05, events=[Event("faults", f"the server said {planted}")])
    spoken = [
        type(s)(
            **{**{f: getattr(s, f) for f in s.__struct_fields__}, "subject": {**s.subject, "sglang": planted}}
        )
        for s in session.series
    ]
    session = type(session)(
        **{**{f: getattr(session, f) for f in session.__struct_fields__}, "series": spoken}
    )
    folder = made.stored(tmp_path, session)
    directory = tmp_path / "allure"
    made.allure_results(directory, session)
    allure_run.write(directory, told.read(folder), f"{planted} was good", {})
    for path in [*folder.rglob("*"), *directory.rglob("*")]:
        text = path.read_text() if path.is_file() else ""
        inside = [
            base64.b64decode(d).decode("utf-8", "replace")
            for d in re.findall(r"base64,([A-Za-z0-9+/=]+)", text)
        ]
        assert not any(planted in one for one in [text, *inside]), path
    assert planted not in clean(planted)
