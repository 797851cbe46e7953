"""What recording says: which session of which generation, and when it is worth little."""

from __future__ import annotations

from pathlib import Path

import msgspec

from suite.gate import BaselineStore
from suite.gate.recorded import told
from tests.gate.sessions import session


def said(store: BaselineStore, run: str, started: str, version: str = "0.5.23") -> list[str]:
    return told(store.record(msgspec.structs.replace(session(run, version=version), started_at=started)))


def test_the_session_and_what_its_fellows_can_tell(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, "simulator")
    (first,) = said(store, "a", "2026-12-01T10:00:00+00:00")
    assert first == "recorded 3 series as session 1 of 5 of generation 1; record the next on another day"
    (second,) = said(store, "b", "2026-12-01T10:02:00+00:00")
    assert "session 2 of 5 of generation 1; all 2 within 2 minutes" in second
    assert second.endswith("record on other days")
    (third,) = said(store, "c", "2026-12-02T09:00:00+00:00")
    assert third == "recorded 3 series as session 3 of 5 of generation 1; record the next on another day"
    for day in (3, 4):
        (last,) = said(store, f"d{day}", f"2026-12-0{day}T09:00:00+00:00")
    assert last == "recorded 3 series as session 5 of 5 of generation 1"
    (sixth,) = said(store, "f", "2026-12-05T09:00:00+00:00")
    assert sixth == "recorded 3 series as session 6 of generation 1"


def test_another_build_begins_a_generation_and_says_why(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, "simulator")
    said(store, "a", "2026-12-01T10:00:00+00:00")
    (begun,) = said(store, "b", "2026-12-02T10:00:00+00:00", version="0.5.24")
    assert "session 1 of 5 of generation 2, which begins with it" in begun
    assert "sglang 0.5.23 -> 0.5.24" in begun


def test_a_start_that_is_only_a_day_or_nothing_is_no_reason_to_fall_over(tmp_path: Path) -> None:
    store = BaselineStore(tmp_path, "simulator")
    said(store, "a", "2026-12-01T10:00:00+00:00")
    (mixed,) = said(store, "b", "2026-12-01")
    assert "session 2 of 5" in mixed
