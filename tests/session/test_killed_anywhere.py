"""Killed at a hundred random moments: a journal that is cut anywhere is judged, and taken up again to the same end.

These are cuts of a file; tests/perf/test_killed.py kills runs.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from suite.gate import judge
from suite.gate.baselines import Found
from suite.session import stored_runs
from suite.session.entries import Complete, RoundDone
from suite.session.fold import told
from suite.session.journal import NAME, Journal, line_of, read
from suite.session.resuming import resumption
from tests.session.made import ARMS, launched, whole

KILLS = 100
WHOLE = whole(launches=3, rounds=4)
BYTES = b"".join(line_of(entry) for entry in WHOLE)


@pytest.mark.parametrize("seed", range(KILLS))
def test_killed_anywhere_the_run_is_judged_and_goes_on_to_the_same_end(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    first_line = len(line_of(WHOLE[0]))
    cut = chance.randrange(first_line, len(BYTES))
    folder = tmp_path / "results" / "20261201-070000-here"
    folder.mkdir(parents=True)
    (folder / NAME).write_bytes(BYTES[:cut])

    # judged as it stands, by path and by id; at most the round in progress is lost
    half = stored_runs.load(folder)
    assert half.session == stored_runs.load(folder.name, tmp_path / "results").session
    assert any("--resume" in note for note in half.notes)
    judgement = judge(half.session, Found({}, {}))
    named = {(v.question, v.arm) for v in judgement.verdicts.values()}
    assert named == {(a.question, a.arm) for a in half.session.asked}
    begun_rounds = sum(isinstance(entry, RoundDone) for entry in WHOLE[: BYTES[:cut].count(b"\n") + 1])
    kept_rounds = sum(isinstance(entry, RoundDone) for entry in read(folder / NAME).entries)
    assert begun_rounds - 1 <= kept_rounds <= begun_rounds

    # taken up again: complete launches are not launched again, and the end is that of the whole
    again = resumption(folder.name, tmp_path / "results")
    launch_ids = [(arm, number) for number in (1, 2, 3) for arm in ARMS]
    rest = [launch_id for launch_id in launch_ids if launch_id not in again.done]
    assert len(again.done) == sum(isinstance(entry, Complete) for entry in read(folder / NAME).entries)
    journal = Journal(folder / NAME)
    number = max(again.told.launches, default=0)
    for place, launch_id in enumerate(rest, number + 1):
        journal.extend(launched(place, *launch_id, 4))
    journal.close()
    assert not read(folder / NAME).damage
    finished = told(read(folder / NAME).entries).session().rounded()
    assert finished == told(WHOLE).session().rounded()
    assert judge(finished, Found({}, {})) == judge(told(WHOLE).session(), Found({}, {}))
