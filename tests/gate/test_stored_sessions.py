"""A subject that is stored as a difference is read back as it was, and a file of version 1 still is."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from suite.gate import BaselineStore
from suite.gate.records import Facts
from suite.gate.stored_sessions import StoredSession, folded, unfolded
from tests.gate.sessions import session

VALUES = st.one_of(st.none(), st.booleans(), st.sampled_from([0, 1, 1.0, 2.5, "", "x"]))
SUBJECTS = st.lists(st.dictionaries(st.sampled_from("abcd"), VALUES), min_size=1, max_size=5)


def kinds(subject: Facts) -> dict[str, type]:
    """1, 1.0 and true are equal to Python, and three facts."""
    return {name: type(value) for name, value in subject.items()}


@given(subjects=SUBJECTS)
def test_what_is_folded_unfolds_to_the_same(subjects: list[Facts]) -> None:
    stored = [
        StoredSession(str(n), "", [], whole, changed, gone)
        for n, (whole, changed, gone) in enumerate(folded(subjects))
    ]
    read = msgspec.json.decode(msgspec.json.encode(stored), type=list[StoredSession])
    again = unfolded(read)
    assert again == subjects
    assert [kinds(subject) for subject in again] == [kinds(subject) for subject in subjects]


def test_what_did_not_change_is_not_written_again(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, "simulator")
    for number in range(3):
        store.record(msgspec.structs.replace(session(), run_id=f"run-{number}"))
    (path, *_) = sorted(store.folder.glob("*.json"))
    first, second, third = json.loads(path.read_text())["baseline"]["sessions"]
    assert first["subject"]
    for later in (second, third):
        assert not {"subject", "changed", "gone"} & later.keys()


def test_a_file_of_version_1_is_read_and_a_dropped_first_session_takes_no_subject_with_it(
    tmp_path: Path,
) -> None:
    store = BaselineStore(tmp_path, "simulator")
    for number in range(2):
        store.record(msgspec.structs.replace(session(), run_id=f"run-{number}"))
    (path, *_) = sorted(store.folder.glob("*.json"))
    stored = json.loads(path.read_text())
    assert stored["version"] == 2  # a suite that does not know differences must refuse this file
    question, arm = stored["baseline"]["question"], stored["baseline"]["arm"]
    whole = store.load(question, arm)
    old = {**stored, "version": 1}
    for kept in old["baseline"]["sessions"]:
        kept["subject"] = whole.sessions[0].subject
    path.write_text(json.dumps(old))
    assert store.load(question, arm) == whole
    store.drop(question, arm, "run-0")
    assert store.load(question, arm).sessions == whole.sessions[1:]
