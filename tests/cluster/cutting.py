"""A journal of a whole run, and the same run as shards would have left it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from suite.gate import Asked, Facts, Outcome
from suite.session import journal
from suite.session.entries import Begun, Closed, Entry, Item, Planned, Shard
from suite.session.fold import told
from tests.session.made import QUESTIONS, begun, launched, whole

CUT = [["mtp-off", "mtp-on"], ["mtp-depth-1", "mtp-depth-2"], ["mtp-headless"]]
BUILD: Facts = {"commit": "5e2cda61"}


def journal_of_all() -> list[Entry]:
    """Off and on, launched twice and judged; two arms of a table; one of which a promise was broken."""
    arms = [*CUT[1], *CUT[2]]
    rest = [entry for number, arm in enumerate(arms, 5) for entry in launched(number, arm, 1)]
    refused = Outcome("refused", "spellings", "mtp-headless", 1, "broken", "it started", short="it started")
    entries = [*whole()[1:], *rest, Item("test_refused[mtp-headless-launch1]", 1, refused, 1.0), Closed(9.0)]
    items = [entry.item for entry in entries if isinstance(entry, Item)]
    first = begun()
    asked = [Asked(question, arm, ["output_tokens_per_s"]) for arm in arms for question in QUESTIONS]
    return [msgspec.structs.replace(first, items=items, host="a", asked=[*first.asked, *asked]), *entries]


def shards_of(
    entries: Sequence[Entry], cut: Sequence[Sequence[str]] = CUT, **changed: object
) -> list[list[Entry]]:
    """The journals of its shards, launches counted anew in each, as if each had been measured by itself."""
    one = entries[0]
    assert isinstance(one, Begun)
    arm_of = {number: launch.arm for number, launch in told(entries).launches.items()}
    planned = [
        Planned(e.item, e.outcome.item, e.outcome.kind, e.outcome.arm, e.number)
        for e in entries
        if isinstance(e, Item)
    ]
    judges = [f"test_{asked.question.rstrip(']')}-{asked.arm}-verdict]" for asked in one.asked]
    made: list[list[Entry]] = []
    for number, arms in enumerate(cut, 1):
        arms_of = [list(arms) for arms in cut]
        shard = Shard(number, arms_of, planned, one.asked, one.ratios, judges, whole=True, build=BUILD)
        known: dict[int, int] = {}
        own: list[Entry] = []
        for entry in entries[1:]:
            launch = getattr(entry, "launch", None)
            if isinstance(launch, int) and arm_of[launch] in arms:
                own.append(msgspec.structs.replace(entry, launch=known.setdefault(launch, len(known) + 1)))
            elif launch is None and (_arm(entry) in arms or isinstance(entry, Closed)):
                own.append(entry)
        first = msgspec.structs.replace(
            one,
            run_id=f"{one.run_id}-shard{number}",
            started_at=f"2026-12-01T07:0{number - 1}:00+00:00",
            host=f"node{number}",
            options={"shard": f"{number}/{len(cut)}", "budget": "gate"},
            asked=[asked for asked in one.asked if asked.arm in arms],
            items=[item.item for item in planned if item.arm in arms],
            shard=shard,
            **changed,
        )
        made.append([first, *own])
    return made


def _arm(entry: Entry) -> str | None:
    return entry.outcome.arm if isinstance(entry, Item) else getattr(entry, "arm", None)


def write(root: Path, journals: Sequence[Sequence[Entry]]) -> list[Path]:
    """A folder of a run for each journal."""
    folders = []
    for number, entries in enumerate(journals, 1):
        folder = root / f"run-shard{number}of{len(journals)}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / journal.NAME).write_bytes(b"".join(map(journal.line_of, entries)))
        folders.append(folder)
    return folders
