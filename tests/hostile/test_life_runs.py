"""``pytest -m perf`` on a full disk, told to stop, and told twice: it ends in time, says so, and leaves nothing."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.perf.running import config, servers_of, start

CI_S = 10.0
"""What CI systems leave between a SIGTERM and a SIGKILL."""

DISK_S = 15.0

LONG = ("--rounds=40", "--launches=2", "-k", "decode or asked_for")


@dataclass
class Life:
    """A run that goes on in a process of its own."""

    directory: Path
    process: subprocess.Popen[str]
    out: str = ""

    def until(self, *words: str, limit_s: float = 60.0) -> None:
        """Wait until it has said these words, one after the other."""
        begun = time.monotonic()
        assert self.process.stdout is not None
        for word in words:
            while not re.search(word, self.out):
                assert time.monotonic() - begun < limit_s, self.out
                line = self.process.stdout.readline()
                assert line, f"it ended: {self.out}"
                self.out += line

    def ended(self, limit_s: float) -> float:
        """How long it took to end from now; fails if longer than ``limit_s``."""
        begun = time.monotonic()
        try:
            rest, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there after {limit_s:g} s, having said:\n{self.out}")
        self.out += rest
        return time.monotonic() - begun

    @property
    def everybody(self) -> list[psutil.Process]:
        """Its servers, and whatever else runs on its behalf."""
        mark = str(self.directory)
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("PERF_TEST_MARK") == mark:
                    found.append(process)
        return found

    def nothing_left(self, limit_s: float = 5.0) -> None:
        deadline = time.monotonic() + limit_s
        while (left := self.everybody) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert left == []


@contextmanager
def life(directory: Path, *arguments: str, more: str = "") -> Iterator[Life]:
    directory.mkdir(parents=True, exist_ok=True)
    process = start(
        directory, config(directory, more=more), f"--junitxml={directory / 'junit.xml'}", *arguments
    )
    running = Life(directory, process)
    try:
        yield running
    finally:
        process.kill()
        process.wait()
        for left in running.everybody:
            with contextlib.suppress(psutil.Error):
                left.kill()


def fill(directory: Path) -> None:
    """As another program that writes there until there is no room."""
    with contextlib.suppress(OSError), (directory / "other").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_disk_that_runs_full_ends_the_run_with_what_it_has(
    tmp_path: Path, small_disk: Callable[[Path], None]
) -> None:
    small_disk(tmp_path / "results")
    with life(tmp_path, "--rounds=4", "--launches=3", "-k", "decode or asked_for") as run:
        run.until("mtp-on, launch 1: ready after", r"tokens/s")
        fill(tmp_path / "results")
        run.ended(DISK_S)
        run.nothing_left()
    assert "results cannot be written any more" in run.out
    assert "No space left on device" in run.out
    assert "Traceback" not in run.out
    assert "= performance =" in run.out
    assert run.process.returncode == 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_told_to_stop_in_the_middle_of_a_round(tmp_path: Path, number: signal.Signals) -> None:
    with life(tmp_path, *LONG) as run:
        run.until("ready after")
        time.sleep(1.0)
        run.process.send_signal(number)
        run.ended(CI_S)
        run.nothing_left()
    assert f"ended by {number.name}" in run.out
    assert "Traceback" not in run.out
    assert run.process.returncode == 2
    assert "<testcase" in (tmp_path / "junit.xml").read_text()


def test_told_to_stop_while_a_server_starts(tmp_path: Path) -> None:
    with life(tmp_path, *LONG, "--flag=fault=hang-at-start") as run:
        deadline = time.monotonic() + 60.0
        while not servers_of(tmp_path):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        run.process.terminate()
        run.ended(CI_S)
        run.nothing_left()
    assert run.process.returncode == 2
    assert "Traceback" not in run.out


def test_told_to_stop_after_a_broken_promise_is_still_1(tmp_path: Path) -> None:
    with life(tmp_path, *LONG, "--flag=fault=mtp-auto-on") as run:
        run.until("ready after", r"\nF")
        time.sleep(1.0)
        run.process.terminate()
        run.ended(CI_S)
    assert run.process.returncode == 1


SEED = 11
DISTANCES = 20


def test_two_ctrl_c_at_any_distance(tmp_path: Path) -> None:
    """The first at a random moment of the run, the second up to three seconds later; four runs at a time."""
    chance = random.Random(SEED)
    moments = [(chance.uniform(0.0, 4.0), chance.uniform(0.0, 3.0)) for _ in range(DISTANCES)]

    def twice(number: int) -> tuple[float, int]:
        first_s, distance_s = moments[number]
        with life(tmp_path / str(number), *LONG) as run:
            run.until("collected")
            time.sleep(first_s)
            run.process.send_signal(signal.SIGINT)
            begun = time.monotonic()
            time.sleep(distance_s)
            with contextlib.suppress(ProcessLookupError):
                run.process.send_signal(signal.SIGINT)
            run.ended(CI_S)
            took_s = time.monotonic() - begun
            run.nothing_left(limit_s=max(0.0, CI_S + distance_s - took_s))
            return took_s - distance_s, run.process.returncode

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(twice, range(DISTANCES)))
    assert {code for _, code in ended} == {2}, json.dumps(list(zip(moments, ended, strict=True)))
