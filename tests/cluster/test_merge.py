"""Shards joined: in any order the same file and the words of an unsharded run; doubles, strangers and gaps are told."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from suite.__main__ import main
from suite.cluster import merge
from suite.gate import BaselineStore, GateError, Launch, Plan, judge, load_run
from suite.gate.runs import load_verdicts
from suite.session import stored_runs
from suite.session.entries import Begun, Closed, Complete, Item, Launching, Note, Ready, RoundDone
from suite.session.fold import told
from tests.cluster.cutting import CUT, journal_of_all, shards_of, write
from tests.session.made import sample

ALL = journal_of_all()
MERGED = "20261201-070000-here-merged"


@pytest.fixture
def there(tmp_path, monkeypatch):
    """Commands run in an empty place."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def merged(folders, capsys) -> tuple[int, str]:
    code = main(["merge", *map(str, folders)])
    told_ = capsys.readouterr()
    return code, told_.out + told_.err


def recorded(root: Path) -> BaselineStore:
    """A baseline of the same run, measured a day before."""
    store = BaselineStore(root, "here")
    session = msgspec.structs.replace(
        told(ALL).session(), run_id="before", started_at="2026-11-30T07:00:00+00:00"
    )
    good = [s for s in session.series if not any(x.invalid for x in s.launches)]
    store.record(msgspec.structs.replace(session, series=good))
    return store


def test_the_words_are_those_of_an_unsharded_run(there, capsys):
    store = recorded(there / "baselines")
    code, _ = merged(write(there, shards_of(ALL)), capsys)
    session = told(ALL).session()
    alone = judge(session, store.sessions_for(session))
    said = load_verdicts(there / "results" / MERGED)
    assert {v.key: v for v in said.verdicts} == alone.verdicts
    assert {v.word for v in said.verdicts} >= {"pass", "unjudged"}
    assert (said.sentence, said.status, code) == (alone.sentence, alone.status, alone.status)
    kept = load_run(there / "results" / MERGED)
    assert kept.series == session.rounded().series
    assert kept.outcomes == session.outcomes


@given(st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_any_cut_gives_the_same_journal(tmp_path, data):
    arms = list(itertools.chain(*CUT))
    number_of = data.draw(st.lists(st.integers(0, 3), min_size=len(arms), max_size=len(arms)))
    cut = [
        [arm for arm, own in zip(arms, number_of, strict=True) if own == n] for n in sorted(set(number_of))
    ]
    folders = write(tmp_path, shards_of(ALL, cut))
    shards = [merge.read(folder) for folder in folders]
    first = merge.joined(shards)
    again = merge.joined(data.draw(st.permutations(shards)))
    assert again == first
    assert first.complete
    assert told(first.entries).session().rounded().series == told(ALL).session().rounded().series


def test_a_merged_run_is_a_run_like_any_other(there, capsys):
    code, out = merged(write(there, shards_of(ALL)), capsys)
    assert "shard 2/3" in out
    assert "on node2, 2 of 2 launches complete" in out
    assert main(["judge", MERGED]) == code
    assert stored_runs.load(MERGED).notes == []
    history = (there / "results" / "history" / "here.jsonl").read_text().splitlines()
    assert len(history) == 1
    merged(write(there, shards_of(ALL))[::-1], capsys)
    assert (there / "results" / "history" / "here.jsonl").read_text().splitlines() == history


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_what_a_missing_shard_would_have_answered_is_named_and_nothing_of_it_passes(there, capsys, gone):
    recorded(there / "baselines")
    folders = write(there, shards_of(ALL))
    del folders[gone - 1]
    code, out = merged(folders, capsys)
    assert f"shard {gone}/3: missing" in out
    session, said = (
        load_run(there / "results" / MERGED_OF[gone]),
        load_verdicts(there / "results" / MERGED_OF[gone]),
    )
    lost = set(CUT[gone - 1])
    assert not {s.arm for s in session.series} & lost
    named = {o.arm: o for o in session.outcomes if o.short == f"shard {gone}/3 is missing"}
    assert set(named) == lost
    assert {o.word for o in named.values()} == {"unproven"}
    assert not [v for v in said.verdicts if v.arm in lost and v.word != "invalid"]
    assert code == (1 if gone != 3 else 8), "shard 3 holds the broken promise"
    assert not (there / "results" / "history").exists()


MERGED_OF = {1: "20261201-070100-here-merged", 2: MERGED, 3: MERGED}


def test_a_shard_that_was_ended_early_counts_as_far_as_it_came(there, capsys):
    journals = shards_of(ALL)
    stop = next(i for i, entry in enumerate(journals[0]) if isinstance(entry, Complete) and entry.number == 1)
    journals[0] = [*journals[0][: stop + 1], Closed(5.0, "ended by SIGTERM")]
    del journals[2]
    folders = write(there, journals)
    folders = [folder.rename(there / f"half-{n}") for n, folder in enumerate(folders)]
    code, out = merged(folders, capsys)
    assert "1 of 4 launches complete, not finished" in out
    session = load_run(there / "results" / MERGED)
    assert session.find("decode[c1]", "mtp-off") is not None
    assert session.find("decode[c1]", "mtp-on") is None
    why = {(o.item, o.arm, o.launch): o.short for o in session.outcomes if o.word == "unproven"}
    assert why["decode[c1]", "mtp-on", 1] == "shard 1/3 was ended before its end: ended by SIGTERM"
    assert why["decode[c1]", "mtp-off", 2] == "shard 1/3 was ended before its end: ended by SIGTERM"
    assert ("decode[c1]", "mtp-off", 1) not in why
    assert code == 8


@pytest.mark.parametrize("settled", [True, False])
def test_launches_that_a_shard_left_out_for_good_are_not_missing(there, capsys, settled):
    journals = shards_of(ALL)
    launches = {e.launch: e.number for e in journals[0] if isinstance(e, Launching)}
    first = [
        entry
        for entry in journals[0]
        if (getattr(entry, "number", None) or launches.get(getattr(entry, "launch", 0), 1)) == 1
    ]
    told_ = [Note("NO-GO after the first pair of launches: nothing more is launched")] if settled else []
    journals[0] = [*first[:-1], *told_, Closed(9.0)]
    merged(write(there, journals), capsys)
    said = {o.short for o in load_run(there / "results" / MERGED).outcomes if o.word == "unproven"}
    assert said == (set() if settled else {"shard 1/3 tells nothing of it"})


def test_a_missing_shard_that_comes_later_completes_the_run(there, capsys):
    folders = write(there, shards_of(ALL))
    merged(folders[:2], capsys)
    code, _ = merged(folders, capsys)
    assert code == 1
    assert "is missing" not in (there / "results" / MERGED / "run.json").read_text()
    assert len((there / "results" / "history" / "here.jsonl").read_text().splitlines()) == 1


def test_the_same_shard_twice_is_refused(there, capsys):
    folders = write(there, shards_of(ALL))
    again = write(there / "again", shards_of(ALL))
    code, out = merged([*folders, again[1]], capsys)
    assert code == 2
    assert f"shard 2/3 is there twice: {there / 'again'}" in out
    assert not (there / "results").exists()


def of_another(what: str) -> list[list[object]]:
    """Shards of which the second is of another run."""
    journals: list[list[object]] = [list(one) for one in shards_of(ALL)]
    begun = journals[1][0]
    assert isinstance(begun, Begun)
    assert begun.shard is not None
    changed = {
        "target": {"target": "there"},
        "plan": {"plan": Plan("gate", 2, 9, [2])},
        "options": {"options": {"budget": "quick"}},
        "flags": {"arms": {"mtp-on": "--tp-size 4"}},
        "cut": {
            "shard": msgspec.structs.replace(begun.shard, arms=[CUT[0], CUT[1][:1], [CUT[1][1], *CUT[2]]])
        },
        "scenarios": {"shard": msgspec.structs.replace(begun.shard, items=begun.shard.items[1:])},
        "installed build": {"shard": msgspec.structs.replace(begun.shard, build={"commit": "0000"})},
    }
    if what in changed:
        journals[1][0] = msgspec.structs.replace(begun, **changed[what])
    else:
        journals[1] = [
            msgspec.structs.replace(entry, build={"sglang": "0.5.24"}) if isinstance(entry, Ready) else entry
            for entry in journals[1]
        ]
    return journals


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("target", "target there, not here"),
        ("plan", "plan Plan("),
        ("options", "options {'budget': 'quick'}, not"),
        ("flags", "not of the same run"),
        ("cut", "arms mtp-off mtp-on; mtp-depth-1; mtp-depth-2 mtp-headless, not"),
        ("scenarios", "other scenarios were planned"),
        ("installed build", "build: commit '0000', not '5e2cda61'"),
        ("running build", "build: sglang '0.5.24', not '0.5.23'"),
    ],
)
def test_a_shard_of_another_run_is_refused(there, capsys, what, says):
    if what == "flags":
        journals = shards_of(ALL, arms={"mtp-on": "--tp-size 8"})
        journals[1] = of_another(what)[1]
    else:
        journals = of_another(what)
    code, out = merged(write(there, journals), capsys)
    assert code == 2
    assert says in out
    assert not (there / "results").exists()


def test_a_whole_run_is_no_shard(there, capsys):
    (folder,) = write(there, [ALL])
    with pytest.raises(GateError, match="whole run and no shard"):
        merge.read(folder)


def test_hosts_may_have_power_limits_of_their_own(there, capsys):
    journals = [
        [
            msgspec.structs.replace(e, build={**e.build, "power_limit_w": str(400 + number)})
            if isinstance(e, Ready)
            else e
            for e in one
        ]
        for number, one in enumerate(shards_of(ALL))
    ]
    code, _ = merged(write(there, journals), capsys)
    assert code == 1


def test_what_one_host_did_not_let_be_seen_is_no_other_build(there, capsys):
    journals = shards_of(ALL)
    journals[1] = [
        msgspec.structs.replace(e, build={**e.build, "driver": "580.95.05"}) if isinstance(e, Ready) else e
        for e in journals[1]
    ]
    code, _ = merged(write(there, journals), capsys)
    assert code == 1


def result(folder: Path, name: str, status: str, **labels: str) -> None:
    """A result as allure-pytest leaves it in ``folder``."""
    folder.mkdir(exist_ok=True)
    told_ = [{"name": label, "value": value} for label, value in labels.items()]
    text = json.dumps(
        {"uuid": name, "name": name, "status": status, "labels": told_, "statusDetails": {"message": "x"}}
    )
    (folder / f"{name}-result.json").write_text(text)


def test_the_shards_make_one_allure_report_that_says_what_the_whole_says(there, capsys):
    session = told(ALL).session()
    known = judge(session, recorded(there / "baselines").sessions_for(session))
    good = next(key for key, verdict in known.verdicts.items() if verdict.word == "pass")
    folders = write(there, shards_of(ALL))
    for number, folder in enumerate(folders, 1):
        result(there / "allure", f"top{number}", "passed", run=folder.name)
    item = {"run": folders[0].name, "question": good.question, "arm": good.arm}
    result(there / "allure", "item", "passed", **item, launch="1")
    result(there / "allure", "verdict", "failed", **item, launch="verdict")
    unjudged = {"run": folders[1].name, "question": "decode[c1]", "arm": "mtp-depth-1", "launch": "verdict"}
    result(
        there / "allure", "foreign", "passed", run="another-run", question="decode[c1]", arm="x", launch="1"
    )
    result(there / "allure", "unjudged", "passed", **unjudged)
    (there / "allure" / "abc-attachment.txt").write_text("a log")
    (there / "allure" / "executor.json").write_text("{}")
    _, out = merged([*folders, f"--alluredir={there / 'out'}"], capsys)
    assert "Allure results of 3 items" in out
    made = {
        path.name.removesuffix("-result.json"): json.loads(path.read_text())
        for path in (there / "out").glob("*-result.json")
    }
    assert {"item", "verdict", "unjudged"} < set(made)
    assert len(made) == 4, "one page on top: the whole run's"
    for one in made.values():
        assert [label["value"] for label in one["labels"] if label["name"] == "run"] == [MERGED]
    assert made["verdict"]["status"] == "passed"
    assert (there / "out" / "abc-attachment.txt").read_text() == "a log"


def cases(path: Path) -> dict[str, tuple[str, dict[str, str]]]:
    """Of a JUnit file, by name: how each case ended, and its properties."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        ends = [part.tag for part in case if part.tag != "properties"]
        own = {one.attrib["name"]: one.attrib["value"] for one in case.iter("property")}
        found[case.attrib["name"]] = (ends[0] if ends else "passed", own)
    return found


def test_junit_holds_every_item_and_verdict_with_its_figures(there, capsys):
    recorded(there / "baselines")
    code, _ = merged([*write(there, shards_of(ALL)), f"--junitxml={there / 'junit.xml'}"], capsys)
    root = ElementTree.parse(there / "junit.xml").getroot()
    (whole,) = root.iter("testsuite")
    of_run = {one.attrib["name"]: one.attrib["value"] for one in whole.find("properties") or ()}
    said = load_verdicts(there / "results" / MERGED)
    assert of_run == {"sentence": said.sentence, "status": str(code)}
    found = cases(there / "junit.xml")
    begun = ALL[0]
    assert isinstance(begun, Begun)
    assert len(found) == len(begun.items) + len(begun.asked)
    assert found["test_refused[mtp-headless-launch1]"][0] == "failure"
    ended, figures = found["test_decode[c1][mtp-off-launch1]"]
    assert ended == "passed"
    assert figures["output_tokens_per_s.value"] == "101.1", "the middle of 101.0, 101.1 and 101.2"
    for verdict in said.verdicts:
        ended, figures = found[f"test_{verdict.question.rstrip(']')}-{verdict.arm}-verdict]"]
        assert figures[f"{verdict.metric}.verdict"] == verdict.word
        assert ended == {"pass": "passed", "unjudged": "skipped"}.get(verdict.word, "failure")


def test_junit_names_what_a_missing_shard_would_have_answered(there, capsys):
    merged([*write(there, shards_of(ALL))[:2], f"--junitxml={there / 'junit.xml'}"], capsys)
    assert cases(there / "junit.xml")["test_refused[mtp-headless-launch1]"][0] == "failure"


def damaged(folder: Path, place: int) -> None:
    """Have a line of a shard's journal be another than was written."""
    path = folder / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[place] = b"{ half a line\xff\n"
    path.write_bytes(b"".join(lines))


def test_a_shard_with_a_lost_line_is_told_and_counts_for_no_history(there, capsys):
    folders = write(there, shards_of(ALL))
    damaged(folders[1], 4)
    _, out = merged(folders, capsys)
    assert "journal.jsonl, line 5: damaged" in out
    assert "nothing was added to history or baselines" in out
    assert not (there / "results" / "history").exists()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda folder: damaged(folder, 0), "the line of its plan is lost (journal.jsonl, line 1: damaged"),
        (lambda folder: (folder / "journal.jsonl").write_text(""), "its journal is empty; measure it again"),
        (lambda folder: (folder / "journal.jsonl").unlink(), "there is no such run"),
    ],
)
def test_a_shard_that_cannot_be_read_is_refused_by_name(there, capsys, spoil, says):
    folders = write(there, shards_of(ALL))
    spoil(folders[1])
    code, out = merged(folders, capsys)
    assert code == 2
    assert f"{folders[1]}: {says}" in out
    assert not (there / "results").exists()


def test_the_rules_are_those_of_the_file_that_the_shards_were_measured_with(there, capsys):
    (there / "own.toml").write_text(
        'default_target = "here"\n[targets.here]\nmodel = "m"\nlaunch = { kind = "process", module = "simulator" }\n'
        "[targets.here.gate.metrics]\noutput_tokens_per_s = { margin = 0.3 }\n"
    )
    journals = [list(one) for one in shards_of(ALL)]
    for one in journals:
        assert isinstance(one[0], Begun)
        one[0] = msgspec.structs.replace(one[0], options={**one[0].options, "suite_config": "own.toml"})
    recorded(there / "baselines")
    merged(write(there, journals), capsys)
    verdicts = load_verdicts(there / "results" / MERGED).verdicts
    assert {v.margin for v in verdicts if v.metric == "output_tokens_per_s"} == {0.3}


def test_an_item_that_is_no_scenario_and_failed_ends_the_whole_as_it_ends_one_run(there, capsys):
    journals = all_good()
    journals[0].insert(-1, Note("an item failed that is no scenario"))
    code, out = merged(write(there, journals), capsys)
    assert code == 1
    assert "an item failed that is no scenario" in out


def test_what_github_shows_of_a_merged_run_is_its_summary(there, capsys, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(there / "page.md"))
    merged(write(there, shards_of(ALL)), capsys)
    assert (there / "page.md").read_text() == (there / "results" / MERGED / "summary.md").read_text()


def all_good() -> list[list[object]]:
    """Shards of a run of which all is well, as ``--promote-on-pass`` was given with."""
    good = [e for e in ALL if not (isinstance(e, Item) and e.outcome.word == "broken")]
    entries = [
        msgspec.structs.replace(e, sample=Launch(rounds=sample(e.arm, 1, e.question, e.round).rounds))
        if isinstance(e, RoundDone)
        else e
        for e in good
    ]
    one = entries[0]
    assert isinstance(one, Begun)
    entries[0] = msgspec.structs.replace(one, items=[i for i in one.items if "refused" not in i])
    made = shards_of(entries)
    for journal_ in made:
        begun = journal_[0]
        assert isinstance(begun, Begun)
        journal_[0] = msgspec.structs.replace(begun, options={**begun.options, "promote_on_pass": True})
    return [list(journal_) for journal_ in made]


def test_promotion_and_the_known_good_build_are_those_of_the_whole(there, capsys):
    good = all_good()
    store = BaselineStore(there / "baselines", "here")
    whole = merge.joined([merge.read(folder) for folder in write(there / "first", good)])
    before = msgspec.structs.replace(
        told(whole.entries).session(), run_id="before", started_at="2026-11-30T07:00:00+00:00"
    )
    store.record(before)
    code, out = merged(write(there, good), capsys)
    assert code == 0, out
    assert "promoted: baselines in" in out
    assert "known good: sglang 0.5.23" in out
    levels, _ = store.all()
    assert {one.current.run_id for one in levels} == {MERGED}
    assert (there / "results" / "known-good" / "here.json").exists()


def test_a_part_of_a_run_promotes_nothing(there, capsys):
    code, out = merged(write(there, all_good())[1:], capsys)
    assert code == 8
    assert "promoted" not in out
    assert not (there / "baselines").exists()
    assert not (there / "results" / "known-good").exists()


def test_a_merged_run_that_cannot_be_written_ends_as_any_run_does(there, capsys):
    folders = write(there, all_good())
    (there / "results").mkdir()
    (there / "results" / "history").write_text("in the way")
    code, out = merged(folders, capsys)
    assert code == 9
    assert "the history was not written" in out
