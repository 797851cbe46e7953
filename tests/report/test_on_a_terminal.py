"""A run on a real pseudo-terminal, and the same through a pipe: what a person sees at 80 columns, what a log holds."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from pathlib import Path

import pytest

from tests.perf.running import ROOT, SMALL, command, config

COLUMNS = 80
ONE = ("-k", "mtp_is_off_unless or (decode and mtp-off)", "--concurrency=1")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(arguments: list[str], columns: int, **env: str) -> tuple[int, str]:
    """Exit status and everything that was written, on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "CI")}
    process = subprocess.Popen(
        arguments, cwd=ROOT, env={**kept, "TERM": "xterm", **env}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux's way to say that nobody writes any more
            break
        if not part:
            break
        said += part
    os.close(ours)
    return process.wait(timeout=60), said.decode()


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> str:
    tmp_path = tmp_path_factory.mktemp("terminal")
    status, said = on_a_terminal(command(tmp_path, config(tmp_path), *SMALL, *ONE), COLUMNS)
    assert status in (0, 8), said  # there is no baseline; a noisy machine may have spoilt a figure
    return said


def lines_of(said: str) -> list[str]:
    """What stays on the screen: remarks that were taken away again left out, colours too."""
    stays = re.sub(r"[^\n\r]*(\n[^\n\r]*)?\r(\x1b\[A)?\x1b\[J", "", said.replace("\r\n", "\n"))
    return [COLOUR.sub("", line.rpartition("\r")[2]).rstrip() for line in stays.splitlines()]


def test_what_goes_on_stands_above_how_far_it_is(seen: str) -> None:
    drawn = re.sub(r"\x1b\[[AJ]", "", seen)
    remarks = re.findall(r"([^\n\r]+)\r?\n([━─#-]{20} [^\n\r\x1b]+)", drawn)
    assert remarks
    assert any(
        re.search(r"launch 1 of 1, \d of \d+ rounds? done, about .+ left", ahead) for _, ahead in remarks
    )
    assert all(len(line) < COLUMNS for remark in remarks for line in remark)
    assert "\x1b[?25l" not in seen, "a hidden cursor stays hidden when a run is killed"


def test_the_end_fits_the_terminal_and_the_sentence_is_last(seen: str) -> None:
    lines = lines_of(seen)
    end = lines[next(place for place, line in enumerate(lines) if "= performance =" in line) :]
    assert [line for line in end if len(line) > COLUMNS and "/" not in line] == [], (
        "only a path may be longer"
    )
    last = " ".join(line.strip() for line in end[-4:] if line.strip())
    assert re.search(r"(NOT JUDGED|CANNOT TELL): .*=+ .*passed.* =+$", last), last


def test_items_say_nothing_but_figures(seen: str) -> None:
    lines = lines_of(seen)
    assert any(
        re.match(r"mtp-off, launch 1: decode_throughput\[c1\]: [\d.]+ tokens/s, TTFT", x) for x in lines
    )
    assert not any(
        re.match(r"^[.sFE]+( +\[ *\d+ ?%\])?$|scenarios/test_\w+\.py [.sFE]", line) for line in lines
    )


def test_through_a_pipe_it_is_plain(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path, config(tmp_path), *SMALL, *ONE),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 8), done.stdout
    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    *_, sentence, count = [line for line in done.stdout.splitlines() if line]
    assert sentence.startswith(("NOT JUDGED: ", "CANNOT TELL: "))
    assert "passed" in count
