"""What a run leaves when it is over: its files, its tables, the page for CI, and its Allure results. The same for a merged run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from suite.questions import crossover
from suite.questions.tables import Tables
from suite.report import allure_run, ci_summary, pictures, told
from suite.session.run_store import EndedRun, RunStore


def leave(
    store: RunStore,
    ended: EndedRun,
    tables: Tables,
    alluredir: Path | None,
    explain: Callable[[], str] = lambda: "",
) -> None:
    """Write everything; what could not be written is told in the store's ``problems``, and the rest still is.

    Args:
        tables: what scenarios left in them.
        alluredir: where the run's Allure results are, if there are any.
        explain: tells more for the page, once what was measured is stored.
    """
    crossover.tell(ended.session, tables)
    if tables.rows:
        store.attempt("the tables", lambda: tables.save(ended.folder / "tables.json"))
    store.keep(ended)
    more: list[str] = []
    store.attempt("the profiles", lambda: more.append(explain()))
    store.attempt("the summary", lambda: _summary(store, ended, "".join(more)))
    if alluredir is not None:
        store.attempt("the Allure report", lambda: _allure(store, ended, alluredir))


def _summary(store: RunStore, ended: EndedRun, more: str) -> None:
    page = ci_summary.text(ended.session, ended.judgement, store.way_back())
    ci_summary.write(ended.folder, page + more)


def _allure(store: RunStore, ended: EndedRun, directory: Path) -> None:
    allure_run.write(directory, told.read(ended.folder), store.way_back())
    if not pictures.can_draw():
        store.notes.append(f"the Allure results have no pictures: {pictures.MISSING}")
