"""Baselines on disk: readable, whole, guarded, and a named outcome for every way they can be bad."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
from pathlib import Path

import msgspec
import pytest

from suite.gate import (
    BadMeasurement,
    BaselineStore,
    CorruptFile,
    ForeignFile,
    FutureVersion,
    IdentityMismatch,
    Invalid,
    WriteFailed,
    judge,
)
from suite.gate.files import locked
from tests.gate.sessions import QUESTION, recorded, session


@pytest.fixture
def store(tmp_path: Path) -> BaselineStore:
    return recorded(tmp_path, sessions=2)


def test_a_file_is_one_series_and_reads_like_one(store: BaselineStore) -> None:
    path = store.path(QUESTION, "mtp-on")
    assert path.name == "decode_throughput-c1--mtp-on.json"
    data = json.loads(path.read_text())
    assert (data["format"], data["version"], data["target"]) == ("sglang-perf-baseline", 2, "simulator")
    assert [s["run_id"] for s in data["baseline"]["sessions"]] == ["recorded-0", "recorded-1"]
    rounds = data["baseline"]["sessions"][0]["launches"][0]["rounds"]
    assert len(rounds["output_tokens_per_s"]) == 5
    line = next(text for text in path.read_text().splitlines() if "output_tokens_per_s" in text)
    assert line.count(",") >= 4, "the rounds of a metric stay on one line"


def test_values_are_rounded_to_what_was_measured(store: BaselineStore) -> None:
    text = store.path(QUESTION, "mtp-on").read_text()
    values = [
        v for s in json.loads(text)["baseline"]["sessions"] for v in s["launches"][0]["rounds"]["tpot_s"]
    ]
    assert all(v == float(f"{v:.6g}") for v in values)


def test_recording_again_changes_no_byte_of_what_was_there(store: BaselineStore) -> None:
    path = store.path(QUESTION, "mtp-on")
    before = path.read_bytes()
    store.record(session("recorded-1", day=2))
    assert path.read_bytes() == before
    store.record(session("third", day=3))
    kept = before.decode().splitlines()[:-6]
    assert path.read_text().splitlines()[: len(kept)] == kept


def test_a_run_is_not_its_own_baseline(store: BaselineStore) -> None:
    found = store.sessions_for(session("recorded-1", day=2))
    assert [s.run_id for s in found.baselines[QUESTION, "mtp-on"].sessions] == ["recorded-0"]


@pytest.mark.parametrize(
    ("damage", "error", "says"),
    [
        (lambda t: t[: len(t) // 2], CorruptFile, "truncated or not JSON"),
        (lambda t: "", CorruptFile, "truncated or not JSON"),
        (lambda t: "\x00\xff", CorruptFile, "truncated or not JSON"),
        (lambda t: t.replace('"version": 2', '"version": 99', 1), FutureVersion, "update the suite"),
        (lambda t: t.replace("sglang-perf-baseline", "other-tool", 1), ForeignFile, "is a 'other-tool' file"),
        (lambda t: '{"benchmarks": []}', ForeignFile, "is JSON but no sglang-perf-baseline file"),
        (lambda t: t.replace('"started_at"', '"begun"'), CorruptFile, "missing required field `started_at`"),
        (lambda t: t.replace('"arm": "mtp-on"', '"arm": "mtp-off"', 1), ForeignFile, "their files collide"),
        (lambda t: t.replace('"target": "simulator"', '"target": "blackwell"', 1), ForeignFile, "of target 'blackwell'"),
    ],
)  # fmt: skip
def test_every_bad_file_has_a_name_and_spoils_only_its_own_series(
    store: BaselineStore, damage: object, error: type[Exception], says: str
) -> None:
    path = store.path(QUESTION, "mtp-on")
    path.write_text(damage(path.read_text()))  # type: ignore[operator]
    with pytest.raises(error, match=says.replace("(", r"\(")) as raised:
        store.load(QUESTION, "mtp-on")
    assert str(path) in str(raised.value)
    run = session()
    verdicts = judge(run, store.sessions_for(run)).verdicts
    words = {key.arm: v.word for key, v in verdicts.items() if key.question == QUESTION}
    assert words["mtp-on"] == "invalid"
    assert words["mtp-off"] != "invalid"


def test_a_corrupt_file_is_not_recorded_over(store: BaselineStore) -> None:
    path = store.path(QUESTION, "mtp-on")
    path.write_text(path.read_text()[:100])
    before = {p: p.read_bytes() for p in store.folder.glob("*.json")}
    with pytest.raises(CorruptFile):
        store.record(session())
    assert {p: p.read_bytes() for p in store.folder.glob("*.json")} == before


def test_another_identity_is_not_recorded(store: BaselineStore) -> None:
    run = session()
    series = [msgspec.structs.replace(s, identity={**s.identity, "gpu": "other"}) for s in run.series]
    with pytest.raises(IdentityMismatch, match="gpu: 'modelled' -> 'other'"):
        store.record(msgspec.structs.replace(run, series=series))


def test_an_invalid_run_is_not_recorded(store: BaselineStore) -> None:
    run = session()
    launches = [
        msgspec.structs.replace(x, invalid=[Invalid("gpu_lost", "Xid 79")]) for x in run.series[1].launches
    ]
    series = [run.series[0], msgspec.structs.replace(run.series[1], launches=launches), run.series[2]]
    before = store.path(QUESTION, "mtp-off").read_bytes()
    with pytest.raises(BadMeasurement, match="gpu_lost"):
        store.record(msgspec.structs.replace(run, series=series))
    assert store.path(QUESTION, "mtp-off").read_bytes() == before, "all files or none"


def test_another_build_starts_a_level_of_its_own(store: BaselineStore) -> None:
    told = store.record(session("upgraded", version="0.5.24", day=9))
    assert "sglang 0.5.23 -> 0.5.24" in told[0].text
    baseline = store.load(QUESTION, "mtp-on")
    assert [s.generation for s in baseline.sessions] == [1, 1, 2]
    assert baseline.current.run_id == "upgraded"


def test_drop_removes_a_session_or_a_question(store: BaselineStore) -> None:
    assert len(store.drop(QUESTION, "mtp-on", "recorded-0")) == 1
    assert [s.run_id for s in store.load(QUESTION, "mtp-on").sessions] == ["recorded-1"]
    assert len(store.drop(QUESTION)) == 2
    assert [b.question for b in store.all()[0]] == ["mtp_speedup[c1]"]


def _record(root: Path, first: int) -> None:
    store = BaselineStore(root, "simulator")
    for i in range(first, first + 4):
        store.record(session(f"writer-{i}", rounds=2, launches=1))


def test_two_writers_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_record, args=(tmp_path, first)) for first in (0, 4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    store = BaselineStore(tmp_path, "simulator")
    assert sorted(s.run_id for s in store.load(QUESTION, "mtp-on").sessions) == [
        f"writer-{i}" for i in range(8)
    ]


def test_a_lock_that_is_never_given_back_is_named(tmp_path: Path) -> None:
    with (
        locked(tmp_path),
        pytest.raises(WriteFailed, match="held by another writer"),
        locked(tmp_path, wait_s=0.1),
    ):
        pass


def test_a_full_disk_leaves_what_was_there(store: BaselineStore, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {p.name: p.read_bytes() for p in store.folder.iterdir() if p.is_file()}

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteFailed, match="No space left on device"):
        store.record(session())
    assert {p.name: p.read_bytes() for p in store.folder.iterdir() if p.is_file()} == before
