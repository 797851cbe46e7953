"""The order of launches."""

from hypothesis import given
from hypothesis import strategies as st

from suite.session.plan import BUILDS, LaunchId, alternate


def launch_ids(arms: int, launches: int) -> list[LaunchId]:
    return [LaunchId(f"arm{a}", number) for a in range(arms) for number in range(1, launches + 1)]


def test_two_arms_alternate_so_that_neither_always_comes_first():
    assert [str(launch_id) for launch_id in alternate(launch_ids(2, 3))] == [
        "arm0, launch 1",
        "arm1, launch 1",
        "arm1, launch 2",
        "arm0, launch 2",
        "arm0, launch 3",
        "arm1, launch 3",
    ]


@given(st.integers(1, 5), st.integers(1, 6), st.randoms())
def test_every_launch_comes_once_and_in_its_own_order(arms, launches, chance):
    wanted = launch_ids(arms, launches)
    given_order = sorted(wanted, key=lambda launch_id: (chance.random(), launch_id.arm)) * 2
    order = alternate(given_order)
    assert sorted(order, key=str) == sorted(wanted, key=str)
    for arm in {launch_id.arm for launch_id in wanted}:
        assert [launch_id.number for launch_id in order if launch_id.arm == arm] == list(
            range(1, launches + 1)
        )


@given(st.integers(1, 5), st.integers(1, 4))
def test_a_steady_drift_hits_all_arms_alike_over_an_even_number_of_launches(arms, pairs):
    order = alternate(launch_ids(arms, 2 * pairs))
    places = {
        arm: [i for i, launch_id in enumerate(order) if launch_id.arm == arm]
        for arm in {s.arm for s in order}
    }
    assert len({sum(where) for where in places.values()}) == 1


@given(st.integers(1, 4), st.integers(1, 4))
def test_two_builds_take_turns_in_each_arm_and_sit_at_the_same_mean_time(arms, pairs):
    wanted = [LaunchId(f"arm{a}", n, b) for a in range(arms) for n in range(1, 2 * pairs + 1) for b in BUILDS]
    order = alternate(wanted)
    assert sorted(order, key=str) == sorted(wanted, key=str)
    for arm in {launch_id.arm for launch_id in wanted}:
        of_arm = "".join(i.build[0].upper() for i in order if i.arm == arm)
        assert of_arm == "RCCR" * pairs
        places = [[p for p, i in enumerate(order) if (i.arm, i.build) == (arm, build)] for build in BUILDS]
        assert sum(places[0]) == sum(places[1])
        assert all(abs(a - b) == 1 for a, b in zip(*places, strict=True))  # a pair is never apart
