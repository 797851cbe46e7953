"""run.json and verdicts.json."""

import json
import os
from pathlib import Path

import msgspec
import pytest

from suite.gate import (
    BaselineStore,
    CorruptFile,
    ForeignFile,
    MissingFile,
    WriteFailed,
    judge,
    load_run,
    load_verdicts,
    save_run,
)
from tests.gate.sessions import recorded, session


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return recorded(tmp_path / "baselines")


def test_a_run_comes_back_as_it_was(tmp_path: Path, store: BaselineStore) -> None:
    run = session(slow={"mtp-on": 0.05})
    judgement = judge(run, store.sessions_for(run))
    save_run(tmp_path / "run", run, judgement)
    assert load_run(tmp_path / "run") == load_run(tmp_path / "run" / "run.json") == run.rounded()
    said = load_verdicts(tmp_path / "run")
    assert {v.key: v for v in said.verdicts} == judgement.verdicts
    assert (said.worst, said.run_id) == ("regression", "new")


def test_run_json_holds_every_verdict_too(tmp_path: Path, store: BaselineStore) -> None:
    run = session()
    judgement = judge(run, store.sessions_for(run))
    save_run(tmp_path / "run", run, judgement)
    data = json.loads((tmp_path / "run" / "run.json").read_text())
    assert len(data["verdicts"]) == len(judgement.verdicts)


def test_settings_that_are_no_scalars_survive(tmp_path: Path, store: BaselineStore) -> None:
    run = session()
    series = [
        msgspec.structs.replace(s, subject=s.subject | {"nodes": ["a", "b"], "t": {"y": 1}})
        for s in run.series
    ]
    run = msgspec.structs.replace(run, series=series)  # type: ignore[arg-type]
    save_run(tmp_path / "run", run, judge(run, store.sessions_for(run)))
    assert load_run(tmp_path / "run").series[0].subject["nodes"] == '["a", "b"]'


def test_both_files_or_none(tmp_path: Path, store: BaselineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    run, calls = session(), []
    judgement = judge(run, store.sessions_for(run))
    really = os.fsync

    def full_at_the_second(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        really(handle)

    monkeypatch.setattr(os, "fsync", full_at_the_second)
    with pytest.raises(WriteFailed):
        save_run(tmp_path / "run", run, judgement)
    assert list((tmp_path / "run").iterdir()) == []


def test_bad_runs_are_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFile, match="no such run"):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(CorruptFile):
        load_run(tmp_path)
    (tmp_path / "run.json").write_text('{"format": "x", "version": 1}')
    with pytest.raises(ForeignFile):
        load_run(tmp_path)
