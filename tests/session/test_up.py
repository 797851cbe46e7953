"""Which servers are up: one at a time, in a duet two of one arm and launch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from suite.questions.memory import OfBuild
from suite.session.plan import BUILDS, LaunchId
from suite.session.up import Up

LAUNCHES = [LaunchId(arm, n, b) for arm in ("mtp-off", "mtp-on") for n in (1, 2) for b in BUILDS]


def running(launch_id: LaunchId) -> Any:
    return SimpleNamespace(launch_id=launch_id)


@given(st.lists(st.sampled_from(LAUNCHES), max_size=12), st.booleans())
def test_whatever_is_asked_for_no_more_is_up_than_may_be(asked: list[LaunchId], duet: bool) -> None:
    up = Up(duet=duet)
    for launch_id in asked:
        if launch_id not in up:
            for other in up.in_the_way_of(launch_id):
                up.take(other)
            up.add(running(launch_id))
        assert launch_id in up
        there = list(up)
        assert len(there) <= (2 if duet else 1)
        assert len({(one.arm, one.number) for one in there}) == 1
        assert len({one.build for one in there}) == len(there)


def test_what_two_builds_leave_for_later_is_not_mixed() -> None:
    kept: dict[str, int] = {}
    reference, candidate, alone = (OfBuild(kept, build) for build in (*BUILDS, ""))
    reference["mtp-on"], candidate["mtp-on"], candidate["mtp-off"] = 1, 2, 3
    assert (dict(reference), dict(candidate)) == ({"mtp-on": 1}, {"mtp-on": 2, "mtp-off": 3})
    alone["mtp-on"] = 4
    assert (reference["mtp-on"], kept["mtp-on"]) == (1, 4)
    del candidate["mtp-off"]
    assert len(candidate) == 1
