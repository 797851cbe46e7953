"""The order of launches."""

from hypothesis import given
from hypothesis import strategies as st

from suite.session.plan import Slot, alternate


def slots(arms: int, launches: int) -> list[Slot]:
    return [Slot(f"arm{a}", number) for a in range(arms) for number in range(1, launches + 1)]


def test_two_arms_alternate_so_that_neither_always_comes_first():
    assert [str(slot) for slot in alternate(slots(2, 3))] == [
        "arm0, launch 1",
        "arm1, launch 1",
        "arm1, launch 2",
        "arm0, launch 2",
        "arm0, launch 3",
        "arm1, launch 3",
    ]


@given(st.integers(1, 5), st.integers(1, 6), st.randoms())
def test_every_launch_comes_once_and_in_its_own_order(arms, launches, chance):
    wanted = slots(arms, launches)
    given_order = sorted(wanted, key=lambda slot: (chance.random(), slot.arm)) * 2
    order = alternate(given_order)
    assert sorted(order, key=str) == sorted(wanted, key=str)
    for arm in {slot.arm for slot in wanted}:
        assert [slot.launch for slot in order if slot.arm == arm] == list(range(1, launches + 1))


@given(st.integers(1, 5), st.integers(1, 4))
def test_a_steady_drift_hits_all_arms_alike_over_an_even_number_of_launches(arms, pairs):
    order = alternate(slots(arms, 2 * pairs))
    places = {arm: [i for i, slot in enumerate(order) if slot.arm == arm] for arm in {s.arm for s in order}}
    assert len({sum(where) for where in places.values()}) == 1
