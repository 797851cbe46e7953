"""The first signal is heeded wherever the run is, the second ends it; neither ever leaves it standing still."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from suite.session.disk import ResultsDisk

ROOT = Path(__file__).resolve().parents[2]

HEAD = """
import os, sys, threading, time
from suite.session import signals
signals.GRACE_S, signals.NOTICED_S, signals.AT_ONCE_S = 3.0, 0.5, 0.5
def say(text): print(text.strip(), flush=True)
watch = signals.Signals(lambda limit_s: print("killed all", limit_s, flush=True), say)
watch.install()
print("up", flush=True)
"""

WAITS = {
    "asleep": "time.sleep(60)",
    "waiting for a thread": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    "    threading.enumerate()[-1].join()",
    "waiting for an event": "threading.Event().wait()",
    "waiting for a process": "import subprocess; subprocess.run(['sleep', '30'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)",
    "in an event loop": "import asyncio; asyncio.run(asyncio.sleep(60))",
    "reading a pipe": "os.read(os.pipe()[0], 1)",
}


def started(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HEAD + code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(0.3)
    return process


def said(process: subprocess.Popen[str], limit_s: float = 20.0) -> str:
    try:
        out, _ = process.communicate(timeout=limit_s)
    finally:
        process.kill()
    return out


@pytest.mark.parametrize(
    ("wait", "number"),
    [*((wait, signal.SIGTERM) for wait in WAITS), ("asleep", signal.SIGINT), ("asleep", signal.SIGHUP)],
)
def test_the_first_ends_what_goes_on(wait: str, number: signal.Signals) -> None:
    process = started(
        f"try:\n    {WAITS[wait]}\nexcept KeyboardInterrupt as stop:\n    watch.ending()\n    print(stop)\nwatch.restore()"
    )
    process.send_signal(number)
    assert said(process).splitlines()[-1] == f"ended by {number.name}"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("wait", "second"), [*((wait, signal.SIGINT) for wait in WAITS), ("asleep", signal.SIGTERM)]
)
def test_the_second_ends_everything_at_once(wait: str, second: signal.Signals) -> None:
    process = started(
        f"try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    watch.ending()\n    print('ending', flush=True)\n    {WAITS[wait]}"
    )
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    time.sleep(0.2)
    process.send_signal(second)
    lines = said(process).splitlines()
    assert lines[0].startswith(f"{second.name} after ended by SIGINT: everything is ended at once")
    assert lines[1] == "killed all 0.5"
    assert process.returncode == 2


def test_one_that_gets_lost_is_repeated() -> None:
    """An exception in a destructor is printed and forgotten."""
    process = started(
        "class Lost:\n    def __del__(self): time.sleep(60)\n"
        "try:\n    Lost()\n    time.sleep(60)\nexcept KeyboardInterrupt as stop:\n    watch.ending(); print(stop)\nwatch.restore()"
    )
    process.send_signal(signal.SIGINT)
    assert said(process).splitlines()[-1] == "ended by SIGINT"
    assert process.returncode == 0


@pytest.mark.parametrize(
    "stuck", ["time.sleep(60)", "threading.Lock().__enter__(); threading.Event().wait()"]
)
def test_after_a_sigterm_the_end_comes_in_time_whatever_hangs(stuck: str) -> None:
    process = started(f"watch.ending()\n{stuck}")
    process.send_signal(signal.SIGTERM)
    assert "ended by SIGTERM: not ended 3 s later: everything is ended at once" in said(process)
    assert process.returncode == 2


def test_a_first_ctrl_c_at_the_end_disturbs_nobody() -> None:
    process = started("watch.ending()\ntime.sleep(2.0)\nprint('whole', watch.told)\nwatch.restore()")
    process.send_signal(signal.SIGINT)
    assert said(process).splitlines() == ["whole ended by SIGINT"]
    assert process.returncode == 0


def test_what_is_ignored_stays_ignored() -> None:
    process = subprocess.Popen(
        ["nohup", sys.executable, "-c", HEAD + "time.sleep(1.5)\nprint('whole')\nwatch.restore()"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGHUP)
    assert said(process) == "whole\n"


def test_another_thread_can_stop_the_run_with_a_reason() -> None:
    process = started(
        "threading.Timer(0.2, watch.stop, ['the disk is full']).start()\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt as stop:\n    watch.ending(); print(stop, watch.told)\nwatch.restore()"
    )
    assert said(process).splitlines() == ["the disk is full the disk is full"]


def test_what_was_there_is_put_back() -> None:
    process = started("watch.restore()\nprint('back', flush=True)\ntime.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "back\n"
    process.send_signal(signal.SIGTERM)
    said(process)
    assert process.returncode == -signal.SIGTERM


# ---------------------------------------------------------------- the results' disk


def fill(directory: Path) -> None:
    """As another program that writes there until there is no room."""
    with contextlib.suppress(OSError), (directory / "other").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def wait_until(condition: Callable[[], object], limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_disk_with_room_is_left_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.session.disk.EVERY_S", 0.05)
    told: list[str] = []
    disk = ResultsDisk(tmp_path, told.append)
    disk.watch()
    time.sleep(0.5)
    disk.close()
    wait_until(lambda: not any(thread.name == "results disk" for thread in threading.enumerate()))
    assert told == []
    assert disk.full is None
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_gone_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("suite.session.disk.EVERY_S", 0.05)
    told: list[str] = []
    results = tmp_path / "results"
    results.mkdir()
    disk = ResultsDisk(results, told.append)
    disk.watch()
    for path in results.iterdir():
        path.unlink()
    os.rmdir(results)
    wait_until(lambda: told)
    assert told == [f"results cannot be written any more: {results}: No such file or directory"]


def test_a_full_disk_is_told_once_and_gives_back_what_was_kept(
    tmp_path: Path, small_disk: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("suite.session.disk.EVERY_S", 0.05)
    told: list[str] = []
    results = tmp_path / "results"
    small_disk(results)
    disk = ResultsDisk(results, told.append)
    disk.watch()
    fill(results)
    wait_until(lambda: told)
    disk.failed("Input/output error")
    assert told == [f"results cannot be written any more: {results}: No space left on device"]
    (results / "run.json").write_bytes(bytes(200 * 1024))  # there is room for the last words
    disk.close()


def test_a_signal_to_one_that_is_all_but_gone_does_not_change_how_it_ended() -> None:
    process = started(
        "import atexit\natexit.register(time.sleep, 1.5)\n"
        "try:\n    time.sleep(60)\nexcept KeyboardInterrupt:\n    watch.ending()\nwatch.restore()\nprint('over', flush=True)\nsys.exit(9)"
    )
    process.send_signal(signal.SIGINT)
    assert process.stdout is not None
    assert process.stdout.readline() == "over\n"
    process.send_signal(signal.SIGINT)
    assert said(process) == ""
    assert process.returncode == 9
