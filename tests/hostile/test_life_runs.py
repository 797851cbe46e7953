"""``pytest -m perf`` on a full disk, told to stop, and told twice: it ends in time, says so, and leaves nothing."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.perf.running import config, servers_of, start

EndsAs = Callable[[str, str, str], None]
DOOR = "a run, while it goes on"

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
def life(directory: Path, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[Life]:
    directory.mkdir(parents=True, exist_ok=True)
    report = f"--junitxml={directory / 'junit.xml'}"
    process = start(directory, config(directory), report, *arguments, env=env)
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
    tmp_path: Path, small_disk: Callable[[Path], None], ends_as: EndsAs
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
    ends_as(
        DOOR,
        "a results disk that runs full",
        "the verdict on what was measured, the disk named, exit 9, within 15 s",
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP], ids=lambda n: n.name)
def test_told_to_stop_in_the_middle_of_a_round(
    tmp_path: Path, number: signal.Signals, ends_as: EndsAs
) -> None:
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
    assert [event["text"] for event in session(run)["events"]] == [f"ended by {number.name}"]
    ends_as(
        DOOR,
        f"{number.name} in the middle of a round",
        "JUnit, run.json, the verdict on what was measured, exit 2, within 10 s",
    )


def test_told_to_stop_while_a_server_starts(tmp_path: Path, ends_as: EndsAs) -> None:
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
    ends_as(DOOR, "SIGTERM while a server starts", "the same, no server left")


def test_told_to_stop_after_a_broken_promise_is_still_1(tmp_path: Path, ends_as: EndsAs) -> None:
    with life(tmp_path, *LONG, "--flag=fault=mtp-auto-on") as run:
        run.until("ready after", r"\nF")
        time.sleep(1.0)
        run.process.terminate()
        run.ended(CI_S)
    assert run.process.returncode == 1
    ends_as(DOOR, "SIGTERM after a promise was seen broken", "the same, exit 1")


def session(run: Life) -> dict[str, Any]:
    (path,) = run.directory.glob("results/*/run.json")
    stored: dict[str, Any] = json.loads(path.read_text())["session"]
    return stored


def measured(run: Life) -> dict[str, int]:
    """Launches with values, by arm."""
    return {series["arm"]: len(series["launches"]) for series in session(run)["series"]}


def test_one_death_of_a_server_costs_one_asking_and_is_the_arms(tmp_path: Path, ends_as: EndsAs) -> None:
    with life(tmp_path, "--rounds=8", "--launches=1", "-k", "decode or asked_for") as run:
        run.until("ready after")
        time.sleep(1.0)
        for server in servers_of(tmp_path):
            server.kill()
        run.ended(90.0)
        run.nothing_left()
    assert run.process.returncode == 1
    assert measured(run) == {"mtp-off": 1, "mtp-on": 1}
    (broken,) = [outcome for outcome in session(run)["outcomes"] if outcome["word"] == "broken"]
    assert (broken["kind"], broken["arm"], broken["name"]) == ("launch", "mtp-off", "ServerDied")
    assert re.search(r"signal 9 while serving \((while|after) .+, \d+ s after it was ready\)", broken["text"])
    assert "the server's last lines" in broken["text"]
    assert [event["kind"] for event in session(run)["events"] if event["kind"] == "death"] == ["death"]
    assert "NO-GO: mtp-off: the server on local died" in run.out
    assert 'name="lives[mtp-off-launch1]"' in (tmp_path / "junit.xml").read_text()
    assert len(re.findall(r"^FAILED servers::", run.out, re.MULTILINE)) == 2, (
        "when it happened, and in the summary"
    )
    ends_as(
        DOOR,
        "`kill -9` of the server",
        "launched and asked again; a broken promise of the arm, with the log's last lines, exit 1",
    )


def test_a_question_that_kills_every_server_is_asked_twice(tmp_path: Path, ends_as: EndsAs) -> None:
    with life(
        tmp_path, "--rounds=2", "--launches=1", "--flag=fault=crash-after=5", "-k", "decode and off"
    ) as run:
        run.ended(90.0)
        run.nothing_left()
    assert run.process.returncode == 1
    assert run.out.count("ready after") == 2
    ends_as(DOOR, "a question that kills every server", "asked twice, then failed; the others are asked")


def test_a_killed_supervisor_costs_nothing_but_a_line(tmp_path: Path, ends_as: EndsAs) -> None:
    with life(tmp_path, "--rounds=8", "--launches=1", "-k", "decode or asked_for") as run:
        run.until("ready after")
        time.sleep(1.0)
        (supervisor,) = [
            child
            for child in psutil.Process(run.process.pid).children()
            if "the suite went away" in " ".join(child.cmdline())
        ]
        supervisor.kill()
        run.ended(90.0)
        run.nothing_left()
    assert run.process.returncode == 0
    assert measured(run) == {"mtp-off": 1, "mtp-on": 1}
    told = [event["text"] for event in session(run)["events"] if event["kind"] == "supervisor"]
    assert len(told) == 1
    assert f"(process {supervisor.pid}) was killed by SIGKILL" in told[0]
    assert run.out.count(told[0]) == 2  # when it happened, and at the end
    ends_as(
        DOOR,
        "`kill -9` of the supervisor",
        "another one, the question asked again, an event of the run, exit 0",
    )


def test_what_a_dead_run_left_is_in_the_file_and_the_footer(tmp_path: Path, ends_as: EndsAs) -> None:
    where = {"SGLANG_PERF_GATE_DIR": str(tmp_path / "claims")}
    with life(tmp_path / "first", *LONG, env=where) as first:
        first.until("ready after")
        suite = psutil.Process(first.process.pid)
        supervisors = [
            child for child in suite.children() if "the suite went away" in " ".join(child.cmdline())
        ]
        suite.kill()
        for supervisor in supervisors:
            supervisor.kill()
        first.process.wait()
    with life(tmp_path / "second", "--rounds=2", "--launches=1", "-k", "decode and off", env=where) as second:
        second.ended(90.0)
    (told,) = [event["text"] for event in session(second)["events"] if event["kind"] == "leftover"]
    assert told.startswith("left over on local from a run of")
    assert second.out.count(told) == 2
    ends_as(
        DOOR,
        "what a run left that was killed with its supervisor",
        "ended by the next run, which says so in file and footer",
    )


def test_requests_that_fail_in_warm_up_are_told(tmp_path: Path, ends_as: EndsAs) -> None:
    with life(
        tmp_path,
        "--rounds=2",
        "--launches=1",
        "--flag=fault=truncated-stream",
        f"--alluredir={tmp_path / 'allure'}",
        "-k",
        "decode and off",
    ) as run:
        run.ended(90.0)
    told = [event["text"] for event in session(run)["events"] if event["kind"] == "faults"]
    assert re.match(
        r"mtp-off, launch 1: warm-up of code, 1 client: 1 of 1 requests failed, the first by", told[0]
    )
    assert told[0] in run.out
    pages = [json.loads(page.read_text()) for page in (tmp_path / "allure").glob("*-result.json")]
    (verdict,) = [page for page in pages if page["fullName"] == "verdict.here"]
    assert f"<li>{told[0]}</li>" in verdict["descriptionHtml"]
    ends_as(DOOR, "requests that fail in warm-up", "an event of the run: file and footer")


SEED = 11
DISTANCES = 20


def test_two_ctrl_c_at_any_distance(tmp_path: Path, ends_as: EndsAs) -> None:
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
    ends_as(DOOR, "two Ctrl-C at 20 distances", "gone within 10 s, nothing left, exit 2")
