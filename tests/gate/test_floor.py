"""An arm against itself: the noise that is printed is the noise that was put in."""

import pytest

from suite.gate import Key
from suite.gate.floor import NoiseFloor, noise_floor
from suite.report.summary import of_noise
from suite.terminal.looks import Looks
from tests.gate.sessions import session


def test_noise_is_found_again() -> None:
    floors = {
        f.key.metric: f
        for f in noise_floor(session(noise=0.02, launches=10, rounds=20))
        if f.key.arm == "mtp-on"
    }
    assert floors["output_tokens_per_s"].round_cv == pytest.approx(0.02, rel=0.2)
    assert floors["output_tokens_per_s"].launch_sd == pytest.approx((0.01**2 + 0.02**2 / 20) ** 0.5, rel=0.6)
    assert floors["output_tokens_per_s"].value == pytest.approx(220, rel=0.02)


def test_a_noisier_machine_sees_less() -> None:
    quiet, loud = (noise_floor(session(noise=n)) for n in (0.002, 0.03))
    assert [f.key for f in quiet] == [f.key for f in loud]
    for low, high in zip(quiet, loud, strict=True):
        if low.key.metric != "acceptance_length":
            assert low.sdc_five_sessions < high.sdc_five_sessions


def test_five_sessions_see_more_than_one() -> None:
    for floor in noise_floor(session(noise=0.002)):
        assert floor.sdc_five_sessions <= floor.sdc_one_session
        assert floor.sdc_five_sessions >= 0.02, "never below the margin"


def test_one_launch_of_one_round_says_what_it_cannot_say() -> None:
    floor = noise_floor(session(launches=1, rounds=1))[0]
    assert floor.round_cv is None
    assert floor.launch_sd is None
    assert floor.sdc_one_session > 0


def test_the_table_shows_each_figure_in_its_column() -> None:
    key = Key("decode[c1]", "mtp-on", "tpot_s")
    told = NoiseFloor(key, 0.0125, "s", 0.0123, 0.0045, 0.067, 0.031)
    one_launch = NoiseFloor(key, 0.0125, "s", None, None, 0.067, 0.031)
    lines = of_noise([told, one_launch], Looks())
    figures = [line.split("tpot_s")[1].split() for line in lines if "tpot_s" in line]
    assert " ".join(figures[0]) == "12.5 ms 1.23 % 0.45 % 6.7 % 3.1 %"
    assert " ".join(figures[1]) == "12.5 ms - - 6.7 % -"
