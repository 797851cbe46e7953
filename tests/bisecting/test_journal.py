"""A search on disk: whole at any moment, and read with care."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.bisect import journal
from suite.bisect.search import Step
from suite.gate.errors import GateError

TASK = journal.Task("simulator", ["a", "b", "c"], "output_tokens_per_s", arm="mtp-on")
STEPS = [Step(0, 2, "no-go", 0.04, 0.03, 0.05, "slower", "runs/1"), Step(0, 1, "cannot start", why="exit 2")]


def test_what_was_written_is_read(tmp_path: Path) -> None:
    search = journal.Search(TASK, STEPS, ("decode[1]", "mtp-on"))
    journal.save(tmp_path / "s", search)
    assert journal.load(tmp_path / "s") == search


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "not a readable search"),
        (b"[]", "not a readable search"),
        (b'{"task": {"target": "t", "builds": ["a"], "metric": "m"}, "format": 9}', "format 9"),
        (
            b'{"task": {"target": "t", "builds": ["a"], "metric": "m"}, '
            b'"steps": [{"reference": 0, "candidate": 7, "word": "go"}]}',
            "not in its list",
        ),
    ],
)
def test_what_is_no_search_is_refused_in_a_sentence(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / journal.FILE).write_bytes(content)
    with pytest.raises(GateError, match=said):
        journal.load(tmp_path)


def test_a_folder_without_a_search_says_what_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(GateError, match="takes the folder of a search"):
        journal.load(tmp_path)
