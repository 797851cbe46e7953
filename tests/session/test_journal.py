"""The journal: what was written whole stays, whatever happened to the rest of the file."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.gate import ForeignFile, FutureVersion, Launch, MissingFile, WriteFailed
from suite.session.entries import Begun, Note, RoundDone
from suite.session.journal import NAME, Journal, line_of, read
from tests.session.made import begun, whole

ROOT = Path(__file__).parents[2]
WHOLE = whole()
LINES = [line_of(entry) for entry in WHOLE]
BYTES = b"".join(LINES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("journals")


def stored(folder, data):
    path = folder / NAME
    path.write_bytes(data)
    return path


def whole_lines(data: bytes) -> int:
    return data.count(b"\n")


def test_what_is_appended_is_read_back(tmp_path):
    journal = Journal(tmp_path / "run" / NAME)
    journal.extend(WHOLE)
    found = read(journal.path)
    assert found.entries == WHOLE
    assert not found.damage


def test_each_entry_is_on_disk_before_the_next(tmp_path):
    journal = Journal(tmp_path / NAME)
    for count, entry in enumerate(WHOLE, 1):
        journal.append(entry)
        assert read(journal.path).entries == WHOLE[:count]


@given(cut=st.integers(0, len(BYTES)))
def test_any_truncation_loses_the_torn_line_alone_and_says_so(folder, cut):
    path = stored(folder, BYTES[:cut])
    found = read(path)
    assert found.entries == WHOLE[: whole_lines(BYTES[:cut])]
    torn = not (cut == 0 or BYTES[:cut].endswith(b"\n"))
    assert [bool("torn" in line) for line in found.damage] == [True] * torn


@settings(deadline=None)  # it waits for the disk
@given(cut=st.integers(0, len(BYTES)), tail=st.sampled_from([b"", b"\0" * 300, b"{", b'{"crc":"00000000"']))
def test_after_any_torn_write_the_next_try_appends_to_what_was_whole(folder, cut, tail):
    path = stored(folder, BYTES[:cut] + tail)
    journal = Journal(path)
    journal.append(Note("taken up again"))
    journal.close()
    found = read(path)
    assert found.entries == [*WHOLE[: whole_lines(BYTES[:cut])], Note("taken up again")]
    assert not found.damage


@given(place=st.integers(0, len(BYTES) - 1), bit=st.integers(0, 7))
def test_a_flipped_bit_is_named_by_its_line_and_spoils_no_other(folder, place, bit):
    data = bytearray(BYTES)
    data[place] ^= 1 << bit
    number = BYTES[:place].count(b"\n")
    found = read(stored(folder, bytes(data)))
    spoilt = {number, number + 1} if BYTES[place : place + 1] == b"\n" else {number}
    kept = [entry for i, entry in enumerate(WHOLE) if i not in spoilt]
    assert all(entry in found.entries for entry in kept)
    assert [entry for entry in found.entries if entry not in kept] == []
    assert found.damage


def test_the_damage_says_which_line(tmp_path):
    data = b"".join([*LINES[:4], LINES[4].replace(b"1", b"7", 1), *LINES[5:]])
    (told,) = read(stored(tmp_path, data)).damage
    assert "line 5" in told


def test_a_line_of_a_later_kind_is_named_and_left_out(tmp_path):
    import zlib

    text = b'{"what":"hologram","at":1}'
    line = b'{"crc":"%08x","entry":%s}\n' % (zlib.crc32(text), text)
    found = read(stored(tmp_path, LINES[0] + line + LINES[1]))
    assert found.entries == WHOLE[:2]
    assert "line 2" in found.damage[0]


def test_one_writer(tmp_path):
    first = Journal(tmp_path / NAME)
    first.append(WHOLE[0])
    with pytest.raises(WriteFailed, match="another run is writing it"):
        Journal(tmp_path / NAME)
    assert read(first.path).entries == WHOLE[:1]
    first.close()
    Journal(tmp_path / NAME).close()


def test_a_full_disk_keeps_what_came_before(tmp_path, monkeypatch):
    journal = Journal(tmp_path / NAME)
    journal.extend(WHOLE[:3])
    real = os.write

    def half(handle, data):
        if len(data) < 40:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data[: len(data) // 2])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(WriteFailed, match="No space left"):
        journal.extend([WHOLE[3]] * 20)
    monkeypatch.undo()
    kept = read(journal.path)
    assert kept.entries[:3] == WHOLE[:3]
    assert not kept.damage
    journal.append(WHOLE[4])
    assert read(journal.path).entries[-1] == WHOLE[4]


def test_a_half_line_that_cannot_be_cut_off_spoils_no_other(tmp_path, monkeypatch):
    journal = Journal(tmp_path / NAME)
    journal.append(WHOLE[0])
    real = os.write

    def half(handle, data):
        if len(data) < 40:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(handle, data[: len(data) // 2])

    def no(handle, length):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", half)
    monkeypatch.setattr(os, "ftruncate", no)
    with pytest.raises(WriteFailed):
        journal.append(WHOLE[1])
    monkeypatch.undo()
    journal.extend(WHOLE[2:4])
    found = read(journal.path)
    assert found.entries == [WHOLE[0], *WHOLE[2:4]]
    assert len(found.damage) == 1
    assert "line 2" in found.damage[0]


def test_every_entry_is_flushed_to_the_disk(tmp_path, monkeypatch):
    flushed: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (flushed.append(handle), real(handle))[1])
    journal = Journal(tmp_path / NAME)
    at_first = len(flushed)
    assert at_first, "the folder, so that the file's name is on disk too"
    for count, entry in enumerate(WHOLE[:5], 1):
        journal.append(entry)
        assert len(flushed) == at_first + count


def test_a_device_without_room_is_named():
    with pytest.raises(WriteFailed):
        Journal(Path("/dev/full") / NAME)


def test_a_folder_that_cannot_be_is_named(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(WriteFailed, match="cannot be opened"):
        Journal(tmp_path / "results" / "run" / NAME)


def test_the_lock_goes_with_its_writer(tmp_path):
    journal = Journal(tmp_path / NAME)
    journal.close()
    journal.close()
    with (tmp_path / NAME).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


HUNG_DISK = """
import os, signal, sys, threading, time
from pathlib import Path
from suite.session.journal import Journal
from tests.session.made import begun
journal = Journal(Path(sys.argv[1]))
writing = threading.Event()
os.fsync = lambda handle: (writing.set(), time.sleep(3600))
threading.Thread(target=lambda: (writing.wait(), os.kill(os.getpid(), signal.SIGINT)), daemon=True).start()
try:
    journal.append(begun())
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_process_that_was_interrupted_ends_although_the_disk_hangs(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", HUNG_DISK, str(tmp_path / NAME)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (ran.stdout, ran.returncode) == ("interrupted\n", 0), ran.stderr


def test_files_that_are_no_journal(tmp_path):
    with pytest.raises(MissingFile):
        read(tmp_path / NAME)
    with pytest.raises(ForeignFile):
        read(stored(tmp_path, b'{"format": "something else"}\n'))
    later = begun()
    later = Begun(later.format, 99, later.run_id, later.started_at, later.target, later.plan)
    with pytest.raises(FutureVersion, match="update the suite"):
        read(stored(tmp_path, line_of(later)))


@settings(max_examples=30)
@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_value_that_json_has_no_word_for_is_no_value(folder, value):
    entry = next(entry for entry in WHOLE if isinstance(entry, RoundDone))
    odd = msgspec.structs.replace(entry, sample=Launch({"tpot_s": [value]}))
    (back,) = read(stored(folder, line_of(odd))).entries
    assert back.sample.rounds == {"tpot_s": [value if math.isfinite(value) else None]}
