"""What is said while a run goes on: a line that lives on a terminal, a line now and then elsewhere, nothing with -q."""

from __future__ import annotations

import os
import time

import pytest

from suite.config import Sizes, Target
from suite.session.outlook import Outlook
from suite.session.plan import LaunchId
from suite.session.price import Price
from suite.session.times import Expected, Times
from suite.terminal import progress as module
from suite.terminal.progress import RunProgress, bar, clock


class Config:
    """As much of pytest's configuration as progress asks for."""

    def __init__(self, verbosity: int = 0) -> None:
        self._verbosity = verbosity
        self.pluginmanager = self

    def get_verbosity(self) -> int:
        return self._verbosity

    def getplugin(self, name: str) -> None:
        return None


@pytest.fixture
def pipe():
    read, write = os.pipe()
    os.set_blocking(read, False)

    def said() -> str:
        try:
            return os.read(read, 65536).decode()
        except BlockingIOError:
            return ""

    yield write, said
    os.close(read)
    os.close(write)


def test_on_a_terminal_the_line_lives(pipe, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.02)
    monkeypatch.setattr(module, "STILL_S", 0.0)
    out, said = pipe
    progress = RunProgress(Config(), out, terminal=True)
    progress.passing("launching mtp-on ... loading weights")
    time.sleep(0.3)
    told = said()
    assert told.count("\r") >= 3
    assert "\n" not in told
    assert "loading weights (0:00)" in told
    progress.passing("x")
    assert "\r\x1b[Jx (0:00)" in said(), "what stood there before is taken away"
    progress.done()
    time.sleep(0.1)
    said()
    time.sleep(0.2)
    assert said() == ""


def test_a_remark_is_no_wider_than_the_terminal(pipe, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out, said = pipe
    progress = RunProgress(Config(), out, terminal=True)
    progress.passing("word " * 40, "about 3 min left, and much more to say", 0.5)
    lines = said().split("\n")
    progress.done()
    assert max(map(len, lines)) == 39
    assert lines[1].startswith(bar(0.5)[:39])


def test_how_far_and_how_long_still_stand_below_what_is_going_on(pipe, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    out, said = pipe
    progress = RunProgress(Config(), out, terminal=True)
    progress.passing("mtp-on, launch 1: warming up", "launch 2 of 7, about 3 min left", 0.25)
    assert said() == f"mtp-on, launch 1: warming up\n{bar(0.25)} launch 2 of 7, about 3 min left"
    progress.passing("again", "about 2 min left", 0.5)
    assert said() == f"\r\x1b[A\x1b[Jagain\n{bar(0.5)} about 2 min left"
    progress.clear()
    assert said() == "\r\x1b[A\x1b[J"
    progress.clear()
    assert said() == "", "what is gone is not taken away again"
    progress.done()


@pytest.mark.parametrize("share", [-0.1, 0.0, 0.49, 1.0, 1.7])
def test_a_bar_is_as_long_however_far_a_run_is(share):
    assert len(bar(share)) == len(bar(share, drawn=False)) == 20
    assert bar(share, drawn=False).isascii()


def test_a_line_that_pytest_has_begun_is_left_alone(pipe, monkeypatch):
    class Reporter:
        currentfspath = "scenarios/test_decode.py"

    config = Config()
    config.getplugin = lambda name: reporter
    out, said = pipe
    reporter = Reporter()
    progress = RunProgress(config, out, terminal=True)
    progress.passing("warming up")
    assert said() == "\nwarming up"
    assert reporter.currentfspath is None, "pytest begins another line then"
    progress.done()


@pytest.mark.parametrize("dumb", [True, False])
def test_a_dumb_terminal_is_none(pipe, monkeypatch, dumb):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "dumb" if dumb else "xterm")
    out, said = pipe
    progress = RunProgress(Config(), out)
    progress.passing("warming up")
    assert said() == ("" if dumb else "warming up")
    progress.done()


def test_elsewhere_a_line_now_and_then(pipe, monkeypatch):
    monkeypatch.setattr(module, "TICK_S", 0.01)
    out, said = pipe
    progress = RunProgress(Config(), out, terminal=False)
    for number in range(50):
        progress.passing(f"round {number}")
    assert said() == ""
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.2)
    time.sleep(0.5)
    lines = said().splitlines()
    assert lines
    assert all(line.startswith("round 49") for line in lines)
    assert len(lines) <= 3
    assert "\r" not in "".join(lines)
    progress.done()


def test_quiet_is_quiet(pipe, monkeypatch):
    monkeypatch.setattr(module, "PLAIN_EVERY_S", 0.0)
    out, said = pipe
    for terminal in (True, False):
        progress = RunProgress(Config(-1), out, terminal=terminal)
        progress.passing("anything")
        progress.say("anything else")
    assert said() == ""


def test_secrets_and_control_characters_do_not_pass(pipe):
    out, said = pipe
    progress = RunProgress(Config(), out, terminal=True)
    progress.passing("\x1b[2J Authorization: Bearer abcdefghijklmnop")
    progress.done()
    told = said()
    assert "\x1b[2J" not in told
    assert "abcdefghijklmnop" not in told


@pytest.mark.parametrize(("seconds", "shown"), [(0, "0:00"), (65.9, "1:05"), (3600 + 245, "1:04:05")])
def test_a_length_of_time(seconds, shown):
    assert clock(seconds) == shown


def outlook() -> Outlook:
    launch_ids = [LaunchId("off", 1), LaunchId("on", 1)]
    price = Price(
        2, 10, {f"{launch_id}": 120.0 for launch_id in launch_ids}, dict.fromkeys(launch_ids, 1200.0)
    )
    return Outlook(price, Expected(Times(), Target(name="t", model="m", start_estimate_s=1170.0), Sizes()))


def test_how_far_and_how_long_still():
    now = outlook()
    now.launching(LaunchId("off", 1))
    assert str(now) == "launch 1 of 2, 0 of 10 rounds done, about 24 min left"
    assert now.of_launch("off", 252.0) == "4:12 of about 19:30"
    now.round_played()
    now.item_over(str(LaunchId("off", 1)))
    assert str(now) == "launch 1 of 2, 1 of 10 rounds done, about 22 min left"
    now.told_again(LaunchId("on", 1))
    assert str(now) == "launch 2 of 2, 1 of 10 rounds done, about 2 min left"
    assert now.share == pytest.approx(1 - 120 / 2640)


def test_a_further_look_is_added():
    now = outlook()
    more = LaunchId("on", 2)
    now.add(Price(1, 5, {"again": 6000.0}, {more: 1200.0}))
    now.launching(LaunchId("off", 1))
    assert str(now) == "launch 1 of 3, 0 of 15 rounds done, about 2 h 24 min left"
