"""Rows of runs: what is appended, what survives a dying writer, and which slow losses are seen."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from suite.gate import BaselineStore, CorruptFile, Key
from suite.gate.history import Entry, History, change_points, cumulative_drifts, entry_of, steps
from tests.gate.sessions import QUESTION, session

SPEED = Key(QUESTION, "mtp-on", "output_tokens_per_s")


def entries(speeds: list[float], name: str = "/".join(SPEED)) -> list[Entry]:
    return [
        Entry(f"run-{i}", f"2026-{1 + i // 28:02d}-{1 + i % 28:02d}", {name: v}) for i, v in enumerate(speeds)
    ]


def row(losses: list[float], each: int, sd: float, seed: int = 1) -> list[float]:
    level = np.repeat(np.cumprod(1 - np.array([0.0, *losses])), each)
    return list(200 * level * (1 + sd * np.random.default_rng(seed).standard_normal(len(level))))


def test_medians_are_kept_by_question_arm_and_metric() -> None:
    entry = entry_of(session())
    assert entry.sglang == "0.5.23"
    assert entry.values["/".join(SPEED)] == pytest.approx(220, rel=0.02)
    assert entry.values[f"{QUESTION}/mtp-on/acceptance_length"] == pytest.approx(3.25)


def test_runs_are_appended_once_in_any_order(tmp_path: Path) -> None:
    history = History(tmp_path, "simulator")
    for i in (2, 1, 3, 2):
        history.append(session(f"r{i}", day=i))
    assert [e.run_id for e in history.read()] == ["r1", "r2", "r3"]
    assert len(history.path.read_text().splitlines()) == 3


def test_a_line_cut_off_by_a_dying_writer_is_skipped_and_replaced(tmp_path: Path) -> None:
    history = History(tmp_path, "simulator")
    history.append(session("r1", day=1))
    with history.path.open("a") as stream:
        stream.write('{"run_id": "half')
    assert [e.run_id for e in history.read()] == ["r1"]
    history.append(session("r2", day=2))
    assert [e.run_id for e in history.read()] == ["r1", "r2"]


def test_other_damage_is_named_with_its_line(tmp_path: Path) -> None:
    history = History(tmp_path, "simulator")
    history.path.write_text('{"run_id": "a", "started_at": "x", "values": {}}\nrubbish\n')
    with pytest.raises(CorruptFile, match="line 2"):
        history.read()


def test_a_step_is_found_where_it_is() -> None:
    found = steps(entries(row([0.05], 12, 0.004)))
    assert [(s.key, s.run_id, s.worse) for s in found] == [(SPEED, "run-12", True)]
    assert found[0].change == pytest.approx(-0.05, abs=0.006)


def test_better_is_not_worse() -> None:
    assert [s.worse for s in steps(entries(row([-0.06], 12, 0.004)))] == [False]


def test_a_steady_row_has_no_steps() -> None:
    assert steps(entries(row([], 40, 0.01))) == []
    assert steps(entries([100.0] * 40)) == []


def test_few_runs_are_not_enough_to_tell() -> None:
    assert change_points(np.array([0.0, 0.0, 0.5, 0.5])) == []


def test_one_odd_run_is_no_step() -> None:
    odd = row([], 30, 0.003)
    odd[15] *= 0.8
    assert steps(entries(odd)) == []


@pytest.mark.parametrize("sd", [0.003, 0.008])
def test_six_losses_of_one_percent_are_seen_as_lost(sd: float) -> None:
    found = steps(entries(row([0.01] * 6, 6, sd)))
    assert found
    assert found[-1].after / found[0].before - 1 < -0.03


def test_six_promoted_losses_each_pass_and_the_best_level_tells(tmp_path: Path) -> None:
    from suite.gate import judge

    store = BaselineStore(tmp_path, "simulator")
    for i in range(3):
        store.record(session(f"first-{i}", day=i + 1, noise=0.001))
    told = []
    for i in range(1, 7):
        slow = 1.01**i - 1
        run = session(f"loss-{i}", slow={"mtp-on": slow, "mtp-off": slow}, day=i + 3, noise=0.001)
        judgement = judge(run, store.sessions_for(run))
        assert judgement.verdicts[SPEED].word == "pass"
        told.append({c.key for c in cumulative_drifts(run, store.all()[0])})
        assert (SPEED in told[-1]) is any(
            "cumulative drift" in n and "mtp-on, output_tokens" in n for n in judgement.notes
        )
        store.record(run, promote=True)
    assert SPEED not in told[0]
    assert all(SPEED in keys for keys in told[2:])


def test_a_history_of_two_thousand_runs_is_searched_in_seconds() -> None:
    """It takes some hundredths of a second; a search over all pairs of points would take minutes."""
    names = [f"{QUESTION}/{arm}/output_tokens_per_s" for arm in ("mtp-off", "mtp-on")]
    draw = np.random.default_rng(0)
    rows = [
        Entry(
            f"run-{i}", f"2026-01-01T{i:06d}", {n: 200 * (1 + 0.01 * draw.standard_normal()) for n in names}
        )
        for i in range(2000)
    ]
    start = time.perf_counter()
    steps(rows)
    assert time.perf_counter() - start < 20
