"""The files of a merged run: journal, verdicts, tables, summary, Allure, and its one line in the history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from suite.cluster import allure
from suite.cluster.merge import ShardRun, Whole
from suite.gate import BaselineStore, GateError, Judgement, Rules, Session, judge, known_good, save_run
from suite.gate.files import write_together
from suite.gate.history import History
from suite.gate.recordable import recordable, refused
from suite.questions import crossover
from suite.questions.memory import Memory
from suite.report import ci_summary
from suite.report.told import read as told_of
from suite.session import journal
from suite.session.entries import Begun, Item
from suite.session.fold import JournalIndex, told
from suite.session.times import learn
from suite.session.times import path_of as times_of


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged run, judged. notes: what happened to its files; problems: what could not be written or recorded."""

    folder: Path
    session: Session
    judgement: Judgement
    memory: Memory
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def judged(whole: Whole, results: Path, store: BaselineStore, rules: Rules) -> Merged:
    """Judge all shards as one family, and restore what their scenarios left in tables."""
    found = told(whole.entries)
    session = found.session()
    judgement = judge(session, store.sessions_for(session), rules)
    memory = _memory(found)
    crossover.tell(session, memory.tables)
    return Merged(results / whole.run_id, session, judgement, memory)


def _memory(found: JournalIndex) -> Memory:
    memory = Memory()
    for item in found.begun.items if found.begun else []:
        stored = found.items.get(item)
        if isinstance(stored, Item):
            memory.restore(stored)
    return memory


def write(
    merged: Merged,
    whole: Whole,
    shards: Sequence[ShardRun],
    store: BaselineStore,
    alluredir: Path | None = None,
) -> None:
    """Write everything that a run leaves.

    History, times, baselines and the known good build only once every shard is there and finished: a part of a run is
    no point in a history.

    Raises:
        WriteFailed, OSError: the run itself could not be written.
    """
    folder, results = merged.folder, merged.folder.parent
    lines = b"".join(journal.line_of(entry) for entry in whole.entries)
    write_together({folder / journal.NAME: lines})
    save_run(folder, merged.session, merged.judgement)
    if merged.memory.tables.rows:
        merged.memory.tables.save(folder / "tables.json")
    ci_summary.write(
        folder, ci_summary.text(merged.session, merged.judgement, _way_back(results, merged.session))
    )
    if alluredir is not None:
        folders = [shard.folder for shard in shards]
        items = allure.write(alluredir, folders, told_of(folder), _way_back(results, merged.session))
        merged.notes.append(f"Allure results of {items} items in {alluredir}")
    merged.notes.append(f"results in {folder}")
    if whole.complete:
        History(results / "history", merged.session.target).append(merged.session)
        learn(times_of(results, merged.session.target), whole.entries)
        _record(merged, store)
        _keep_known_good(merged, whole, shards)
    else:
        merged.notes.append(
            "not all shards are there and finished: nothing was added to history or baselines"
        )


def _way_back(results: Path, session: Session) -> str:
    try:
        known = known_good.load(results, session.target)
    except GateError:
        return ""
    return known_good.name_of(known)


def _record(merged: Merged, store: BaselineStore) -> None:
    if not merged.session.plan.recording:
        return
    for arm, why in refused(merged.session, merged.judgement).items():
        merged.problems.append(f"nothing of {arm} was recorded: {why}")
    fit = recordable(merged.session, merged.judgement)
    if fit.series:
        store.record(fit)
        merged.notes.append(f"recorded as a baseline session in {store.folder}")


def _keep_known_good(merged: Merged, whole: Whole, shards: Sequence[ShardRun]) -> None:
    begun = whole.entries[0]
    if not isinstance(begun, Begun) or not known_good.qualifies(merged.judgement):
        return
    if begun.options.get("keyword") or begun.options.get("markexpr", "") not in ("", "perf"):
        return
    shard = shards[0].shard
    build = {name: str(value) for name, value in shard.build.items()}
    known = known_good.of_run(merged.session, merged.judgement, build, shard.lock, shard.place)
    known_good.save(merged.folder.parent, known)
    merged.notes.append(f"known good: {known_good.name_of(known)} (python -m suite known-good)")
