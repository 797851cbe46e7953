"""A merged run judged and left: its journal is written here, and all else as any run leaves it (suite/report/leaving.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from suite.cluster import allure
from suite.cluster.merge import ShardRun, Whole
from suite.gate import known_good
from suite.gate.files import write_together
from suite.questions.memory import Memory
from suite.report import junit
from suite.report.leaving import leave
from suite.session import journal
from suite.session.entries import Item
from suite.session.fold import JournalIndex, told
from suite.session.run_store import EndedRun, RunStore
from suite.session.told_again import ToldItem, items_of, verdicts_of
from suite.session.verdict_items import Judge

APART = "not all shards are there, finished and undamaged: nothing was added to history or baselines"


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged run, judged. items: how each ended, those that judge last."""

    ended: EndedRun
    memory: Memory
    items: list[ToldItem]


def judged(whole: Whole, shards: Sequence[ShardRun], results: Path, store: RunStore) -> Merged:
    """Judge all shards as one family, and restore what their scenarios left in tables.

    History, times, baselines and the known good build get something only once every shard is there, whole and finished: a part
    of a run is no point in a history.
    """
    found = told(whole.entries)
    judge = Judge(found.session, store.judge)
    session, judgement, one = judge.judged, judge.judgement(), shards[0]
    build = {name: str(value) for name, value in one.shard.build.items()}
    ended = EndedRun(
        results / whole.run_id,
        session,
        judgement,
        whole.entries,
        len(found.launches),
        built=lambda: known_good.of_run(session, judgement, build, one.shard.lock, one.shard.place),
        whole=one.shard.whole,
        promote=bool(one.begun.options.get("promote_on_pass")),
        apart="" if whole.complete else APART,
    )
    items = [*items_of(found), *verdicts_of(one.shard.judges, one.shard.asked, judge)]
    return Merged(ended, _memory(found), items)


def _memory(found: JournalIndex) -> Memory:
    memory = Memory()
    for name in found.begun.items if found.begun else []:
        stored = found.item(name)
        if isinstance(stored, Item):
            memory.restore(stored)
    return memory


def write(
    merged: Merged,
    whole: Whole,
    shards: Sequence[ShardRun],
    store: RunStore,
    alluredir: Path | None = None,
    junitxml: Path | None = None,
) -> None:
    """Write everything that a run leaves; what could not be written is told in the store's ``problems``.

    Raises:
        WriteFailed: the journal could not be written.
    """
    lines = b"".join(journal.line_of(entry) for entry in whole.entries)
    write_together({merged.ended.folder / journal.NAME: lines})
    if alluredir is not None:
        store.attempt("the Allure results", lambda: _copy(merged, shards, store, alluredir))
    leave(store, merged.ended, merged.memory.tables, alluredir)
    if junitxml is not None:
        judgement = merged.ended.judgement
        store.attempt("the JUnit file", lambda: junit.write(junitxml, merged.items, judgement))


def _copy(merged: Merged, shards: Sequence[ShardRun], store: RunStore, alluredir: Path) -> None:
    folders = [shard.folder for shard in shards]
    count = allure.copy(alluredir, folders, merged.ended.folder.name, merged.items)
    store.notes.append(
        f"Allure results of {count} items in {alluredir}"
        if count
        else f"{alluredir} has the verdict alone: no shard was measured with --alluredir {folders[0].parent / allure.NAME}"
    )
