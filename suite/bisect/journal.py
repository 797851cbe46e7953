"""A search on disk: what is looked for among which builds, and every session that was measured, so that it can go on."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from suite.bisect.search import Step
from suite.gate.errors import GateError

FILE = "bisect.json"
FORMAT = 1
LARGEST_BYTES = 4 << 20


class Task(msgspec.Struct, frozen=True):
    """What is looked for: builds as they were written, good end first; which value, of which arm and question.

    metric: its name in the gate; question, arm: None for whichever lost most. options: what is handed to each session.
    swap: the builds between are the bad one with one package exchanged each, and no row.
    """

    target: str
    builds: list[str]
    metric: str
    question: str | None = None
    arm: str | None = None
    options: list[str] = []
    swap: bool = False


class Search(msgspec.Struct):
    """A task and what was answered so far. followed: question and arm whose loss is looked for, once the ends told."""

    task: Task
    steps: list[Step] = []
    followed: tuple[str, str] | None = None
    format: int = FORMAT


def load(folder: Path) -> Search:
    """The search of a folder.

    Raises GateError, in one sentence, if there is none or it cannot be read.
    """
    path = folder / FILE
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise GateError(f"{path} is not a stored search: larger than {LARGEST_BYTES >> 20} MiB")
        found = msgspec.json.decode(path.read_bytes(), type=Search)
    except OSError as error:
        raise GateError(f"{path}: {error.strerror}; --resume takes the folder of a search") from None
    except msgspec.MsgspecError as error:
        raise GateError(f"{path} is not a readable search: {error}") from None
    if found.format != FORMAT:
        raise GateError(f"{path} has format {found.format}, and this suite reads {FORMAT}")
    places = range(len(found.task.builds))
    if any(s.reference not in places or s.candidate not in places for s in found.steps):
        raise GateError(f"{path} names builds that are not in its list")
    return found


def save(folder: Path, search: Search) -> None:
    """Write the search as a whole: at any moment the file holds every step up to one of them."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (FILE + ".part")
    with part.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(search)))
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / FILE)
