"""The commands, as a person types them."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import msgspec
import pytest

from suite import __main__ as command_line
from suite.cli import gate as cli_gate
from suite.gate import BaselineStore, GateError, Invalid, judge, save_run
from suite.gate.baselines import Found
from tests.gate.sessions import QUESTION, recorded, session


def run(folder: Path, *argv: str) -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for add in (cli_gate.add_judge, cli_gate.add_baseline, cli_gate.add_history):
        add(commands)
    plain = [
        "--target",
        "simulator",
        "--baselines",
        str(folder / "baselines"),
        "--suite-config",
        str(folder / "none.toml"),
    ]
    arguments = parser.parse_args([*argv, *plain])
    return int(arguments.func(arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = recorded(tmp_path / "baselines", sessions=3)
    for name, slow in (("good", 0.0), ("bad", 0.08)):
        made = session(name, slow={"mtp-on": slow})
        save_run(tmp_path / "results" / name, made, judge(made, store.sessions_for(made)))
    return tmp_path


def test_list_and_show(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "baseline", "list") == 0
    assert f"{QUESTION}, mtp-on: 3 sessions, newest 2026-11-03, sglang 0.5.23" in capsys.readouterr().out
    assert run(folder, "baseline", "show", QUESTION) == 0
    assert "run recorded-2" in capsys.readouterr().out


def test_list_names_a_damaged_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = folder / "baselines" / "simulator" / "decode_throughput-c1--mtp-on.json"
    damaged.write_text("{")
    assert run(folder, "baseline", "list") == 1
    assert f"unusable: {damaged}" in capsys.readouterr().out


def test_judge_says_what_the_run_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "judge", str(folder / "results" / "good")) == 0
    assert run(folder, "judge", str(folder / "results" / "bad"), "--save") == 1
    said = capsys.readouterr().out
    stored = json.loads((folder / "results" / "bad" / "verdicts.json").read_text())
    assert all(v["headline"] in said for v in stored["verdicts"])


def test_promote_moves_the_level_and_nothing_else_does(folder: Path) -> None:
    assert run(folder, "judge", str(folder / "results" / "bad")) == 1
    assert run(folder, "baseline", "promote", str(folder / "results" / "bad")) == 0
    assert run(folder, "judge", str(folder / "results" / "good")) == 0


def test_drop(folder: Path) -> None:
    assert run(folder, "baseline", "drop", QUESTION, "--run-id", "recorded-1") == 0
    assert run(folder, "baseline", "drop", QUESTION) == 0
    with pytest.raises(GateError, match="nothing to drop"):
        run(folder, "baseline", "drop", QUESTION)


def test_diff(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "baseline", "diff", "recorded-0", str(folder / "results" / "bad")) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if "output_tokens_per_s" in x and "-7." in x)
    assert "->" in line
    with pytest.raises(GateError, match="recorded: recorded-0, recorded-1, recorded-2"):
        run(folder, "baseline", "diff", "recorded-0", "nothing")


def test_import_writes_a_run_that_can_be_judged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.gate.test_imports import BENCH_SERVING, write

    file = write(folder / "mine.jsonl", BENCH_SERVING, BENCH_SERVING)
    results = folder / "results"
    assert run(folder, "baseline", "import", str(file), "--arm", "mtp-on", "--results", str(results)) == 0
    assert (results / "imported-mine" / "run.json").exists()
    assert "baseline promote" in capsys.readouterr().out
    assert run(folder, "judge", str(results / "imported-mine")) == 0


def test_history_tells_cumulative_drift(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--history", str(folder / "history"), "--results", str(folder / "results")]
    store = BaselineStore(folder / "baselines", "simulator")
    for level in (1, 2, 3):  # each promoted: the level before the first of them is the best there was
        store.record(
            session(f"level-{level}", slow={"mtp-on": 0.015 * level}, day=3 + level, noise=0.001),
            promote=True,
        )
    newest = session("newest", slow={"mtp-on": 0.045}, day=25, noise=0.001)
    save_run(folder / "results" / "newest", newest, judge(newest, store.sessions_for(newest)))
    assert run(folder, "history", *options) == 1
    (told,) = [
        line
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(f"cumulative drift: {QUESTION}, mtp-on, output_tokens_per_s")
    ]
    assert "since the best promoted level" in told
    assert len((folder / "history" / "simulator.jsonl").read_text().splitlines()) == 3


def test_promote_takes_nothing_of_an_arm_that_was_not_measured_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    made = session("bad")
    late = [Invalid("client_saturated", "late by 150 ms")]
    series = [
        msgspec.structs.replace(
            s, launches=[msgspec.structs.replace(one, invalid=late) for one in s.launches]
        )
        if s.arm == "mtp-off"
        else s
        for s in made.series
    ]
    made = msgspec.structs.replace(made, series=series)
    (tmp_path / "results" / "bad").mkdir(parents=True)
    save_run(tmp_path / "results" / "bad", made, judge(made, Found()))
    assert command_line.main(["baseline", "promote", "bad"]) == 1  # by its id, as it is printed
    assert "nothing of mtp-off is recorded" in capsys.readouterr().err
    stored, _ = BaselineStore(tmp_path / "baselines", "simulator").all()
    assert {(b.question, b.arm) for b in stored} == {("decode_throughput[c1]", "mtp-on")}


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "baselines" / "simulator").glob("*.json")}


def test_undo_takes_back_one_change_after_another(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = files_of(folder)
    assert run(folder, "baseline", "promote", str(folder / "results" / "bad")) == 0
    second = files_of(folder)
    assert run(folder, "baseline", "drop", QUESTION, "mtp-on") == 0
    assert files_of(folder) != second
    assert run(folder, "baseline", "undo") == 0
    assert f"took back the drop of {QUESTION} mtp-on" in capsys.readouterr().out
    assert files_of(folder) == second
    assert run(folder, "baseline", "undo") == 0
    assert "took back the promotion of run bad" in capsys.readouterr().out
    assert files_of(folder) == first


def test_undo_of_a_first_recording_leaves_nothing(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path / "baselines", "simulator")
    store.record(session("only"))
    assert files_of(tmp_path)
    run(tmp_path, "baseline", "undo")
    assert files_of(tmp_path) == {}
    with pytest.raises(GateError, match="nothing to take back"):
        run(tmp_path, "baseline", "undo")


def test_undo_touches_nothing_that_somebody_else_changed(folder: Path) -> None:
    assert run(folder, "baseline", "promote", str(folder / "results" / "good")) == 0
    changed = next((folder / "baselines" / "simulator").glob("decode*.json"))
    changed.write_bytes(changed.read_bytes() + b" ")
    before = files_of(folder)
    with pytest.raises(GateError, match=rf"changed since by something else: .*{changed.name}"):
        run(folder, "baseline", "undo")
    assert files_of(folder) == before
