"""``--minutes``: what is given up so that a plan fits, in which order, and what is kept to the last."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.config import ConfigError, Sizes
from suite.session.collection import launch_id_of, question_of
from suite.session.entries import Item, Launching, Measured, Ready, RoundDone, ServerEnded
from suite.session.minutes import Deadline, fitted, reserve_s
from suite.session.plan import LaunchId
from suite.session.price import Price
from suite.session.times import Expected, Times, add, known, learn, path_of
from tests.session.made import whole

START_S, ROUND_S = 100.0, 10.0


@dataclass(eq=False)
class Scenario:
    """As much of an item as a plan needs."""

    kind: str
    question: str
    launch_id: LaunchId
    stash: pytest.Stash = field(default_factory=pytest.Stash)

    def __post_init__(self) -> None:
        self.stash[launch_id_of] = self.launch_id
        self.stash[question_of] = self.question

    @property
    def nodeid(self) -> str:
        return f"{self.question} {self.launch_id}"

    def get_closest_marker(self, name: str) -> str | None:
        return name if name == self.kind else None


def scenarios(launches: int, **kinds: list[str]) -> list[Scenario]:
    """Each question put to both arms, in each launch; what is asked of ``held`` is put to an arm of its own."""
    return [
        Scenario(kind, question, LaunchId(arm, number))
        for number in range(1, launches + 1)
        for kind, questions in kinds.items()
        for question in questions
        for arm in (["held"] if kind == "steptime" else ["off", "on"])
    ]


def price(items, sizes) -> Price:
    launch_ids = {item.launch_id for item in items}
    each = {item.nodeid: sizes.rounds * ROUND_S for item in items}
    return Price(len(launch_ids), 0, each, dict.fromkeys(launch_ids, START_S))


SIZES = Sizes(launches=3, rounds=5, looks=3)
KINDS = {"activation": ["is_off"], "decode": ["decode[c1]", "decode[c16]"], "steptime": ["step[c1]"]}


def test_what_fits_is_left_as_it_is():
    items = scenarios(9, **KINDS)
    cut = fitted(items, SIZES, 1e9, price)
    assert (cut.sizes, cut.items, cut.left_out) == (SIZES, items, [])


def test_looks_are_given_up_before_launches_and_launches_before_rounds():
    items = scenarios(9, **KINDS)
    whole_s = price(items, SIZES).seconds
    assert fitted(items, SIZES, whole_s * 0.7, price).left_out == ["1 of 3 looks"]
    assert fitted(items, SIZES, whole_s * 0.25, price).left_out == [
        "2 of 3 looks",
        "1 of 3 launches of each arm",
    ]
    cut = fitted(items, SIZES, 500.0, price)
    assert cut.left_out[:3] == ["2 of 3 looks", "2 of 3 launches of each arm", "2 of 5 rounds"]
    assert {item.launch_id.number for item in cut.items} == {1}
    assert (cut.sizes.looks, cut.sizes.launches, cut.sizes.rounds) == (1, 1, 3)


def test_questions_are_given_up_by_name_the_least_worth_first():
    items = scenarios(1, **KINDS)
    one = SIZES.model_copy(update={"launches": 1, "looks": 1})
    assert fitted(items, one, 400.0, price).left_out == ["2 of 5 rounds", "step[c1]"]
    assert fitted(items, one, 330.0, price).left_out == ["2 of 5 rounds", "step[c1]", "decode[c16]"]
    last = fitted(items, one, 265.0, price)
    assert last.left_out == ["2 of 5 rounds", "step[c1]", "decode[c16]", "decode[c1]"]
    assert {item.question for item in last.items} == {"is_off"}


def test_too_little_for_anything_says_what_the_least_takes():
    with pytest.raises(ConfigError, match=r"leaves 0\.2 minutes .* takes about 4\.3: is_off"):
        fitted(scenarios(1, **KINDS), SIZES, 10.0, price)


@given(st.floats(0, 8000), st.integers(1, 3), st.integers(1, 3), st.integers(1, 6))
def test_whatever_is_cut_fits_or_is_refused(seconds, launches, looks, rounds):
    sizes = Sizes(launches=launches, looks=looks, rounds=rounds)
    items = scenarios(launches * looks, **KINDS)
    try:
        cut = fitted(items, sizes, seconds, price)
    except ConfigError:
        return
    assert price(cut.items, cut.sizes).seconds <= seconds
    assert set(cut.items) <= set(items)
    kept = {item.question for item in cut.items}
    gone = {item.question for item in items} - kept
    assert gone <= set(cut.left_out)
    assert bool(cut.left_out) == (cut.sizes != sizes or len(cut.items) < len(items))


def test_a_deadline_counts_from_the_start_of_the_process():
    age_s = time.time() - psutil.Process().create_time()  # of these tests: they may have run for long
    deadline = Deadline(age_s / 60 + 10.0, 30.0)
    assert deadline.left_s < 570.0
    assert deadline.fits(1.0)
    assert not deadline.fits(600.0)
    assert "--minutes 10" in Deadline(10.0, 30.0).reason


@given(st.floats(0.2, 600), st.floats(0, 60))
def test_there_is_always_time_left_to_end(minutes, end_s):
    assert reserve_s(minutes, end_s) >= max(end_s, 4.0)


# how long things take


def test_times_are_learnt_from_a_journal(tmp_path, small_target):
    path = path_of(tmp_path, "here")
    learn(path, whole())
    times = known(path)
    assert times.starts == {"mtp-off": [12.0, 12.0], "mtp-on": [12.0, 12.0]}
    assert times.ends == [0.5] * 4
    expected = Expected(times, small_target, Sizes(round_estimate_s=99.0))
    assert expected.learned
    assert expected.start_s("mtp-on") == 12.0
    assert expected.start_s("an arm that was never launched") == 12.0
    (load,) = [name for name in times.rounds["mtp-on"] if "c1" in name]
    assert expected.round_s("mtp-on", load) == 1.5
    assert expected.round_s("mtp-on", "never played") == 99.0


def test_a_load_is_the_same_however_many_rounds_it_is_played_for(small_target):
    times = Times()
    for rounds in (3, 5):
        key = f"code, 4 clients, 4 answers of 128 tokens, {rounds} rounds, 0a1b2c3d"
        entry = next(e for e in whole() if isinstance(e, RoundDone))
        add(times, [type(entry)(1, "mtp-on", 1, key, 0, rounds, 2.0, entry.sample)])
    assert times.rounds == {"mtp-on": {"code, 4 clients, 4 answers of 128 tokens": [2.0, 2.0]}}


def test_without_former_runs_the_targets_estimates_count(small_target):
    expected = Expected(Times(), small_target, Sizes(round_estimate_s=7.0, warmup_requests=0))
    assert not expected.learned
    assert expected.start_s("mtp-on") == small_target.start_estimate_s
    assert expected.round_s("mtp-on", "any") == 7.0
    assert expected.warmup_s("mtp-on", "any") == 0.0


def test_a_file_of_times_that_cannot_be_read_is_no_obstacle(tmp_path):
    path = path_of(tmp_path, "here")
    path.parent.mkdir()
    path.write_text("{ half")
    assert known(path) == Times()
    learn(path, whole())
    assert known(path).starts


@pytest.fixture
def small_target():
    from suite.config import Target

    return Target(name="here", model="m", start_estimate_s=30.0)


def test_what_is_left_of_an_item_beside_its_rounds_is_learnt_too():
    times = Times()
    entries = [
        e for e in whole(1) if isinstance(e, (Launching, Ready, RoundDone, Measured, Item, ServerEnded))
    ]
    add(times, entries)
    assert set(times.items["mtp-on"]) == {"decode[c1]", "decode[c4]"}
    assert all(re.match("decode", question) for question in times.items["mtp-off"])
