"""Answers kept prompt by prompt: what a file may hold."""

from pathlib import Path

import msgspec
import pytest

from suite.gate import Answers, Session, judge, load_run, save_run
from suite.gate.baselines import Found
from suite.gate.errors import BadMeasurement
from suite.gate.records import check_session
from tests.gate.sessions import session


def with_answers(run: Session, answers: Answers) -> Session:
    """The run with the same answers in every launch of its first series."""
    first, *rest = run.series
    launches = [msgspec.structs.replace(launch, answers=answers) for launch in first.launches]
    return msgspec.structs.replace(run, series=[msgspec.structs.replace(first, launches=launches), *rest])


@pytest.mark.parametrize(
    ("answers", "what"),
    [
        (Answers(["a", "b"], [1], [1]), "2 prompts, 1 steps"),
        (Answers(["a"], [1]), "verify steps without correct drafts"),
        (Answers(["a", "a"]), "prompt 'a' is there twice"),
        (Answers(["a"], [3], [-1]), "negative"),
        (Answers(["a"], tokens=[-3]), "negative"),
        (Answers(["a"], texts=["x", "y"]), "1 prompts, 2 texts"),
    ],
)
def test_answers_that_contradict_themselves_are_refused(answers: Answers, what: str) -> None:
    with pytest.raises(BadMeasurement, match=what):
        check_session(with_answers(session(), answers))


def test_answers_come_back_from_disk_as_they_were(tmp_path: Path) -> None:
    run = with_answers(session(), Answers(["a", "a@2"], [40, 41], [90, 91], [128, 128], ["f00", "ba7"]))
    save_run(tmp_path, run, judge(run, Found()))
    kept = [launch.answers for one in load_run(tmp_path).series for launch in one.launches if launch.answers]
    assert kept == [Answers(["a", "a@2"], [40, 41], [90, 91], [128, 128], ["f00", "ba7"])] * 3
