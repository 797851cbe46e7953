"""Ids that a run prints, taken back as a selection: pasted, by ``--lf``, or as words of ``-k``.

A verdict is an item that pytest does not collect: it is made from the measurements that it judges. Whoever names one means
those measurements and their verdict.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePath
from typing import Any

import pytest

from suite.session.collection import is_scenario, verdict_name
from suite.session.plan import LaunchId

VERDICT = ("-verdict]", "[verdict]")


class Pasted:
    """What was named on the command line beside what pytest itself can find, and what failed before."""

    def __init__(self, config: pytest.Config) -> None:
        self._verdicts = {word for word in config.args if "::" in word and word.endswith(VERDICT)}
        self._others = [word for word in config.args if word not in self._verdicts]
        self._failed: frozenset[str] = frozenset()
        if self._verdicts:
            functions = [word[: word.rindex("[")] for word in config.args if word in self._verdicts]
            config.args[:] = list(dict.fromkeys([*self._others, *functions]))
        if "perf" in config.option.markexpr and config.getoption("lf", False):
            self._take_over_last_failed(config)

    def _take_over_last_failed(self, config: pytest.Config) -> None:
        """pytest would look for failed verdicts among what it collects, find none, and play everything."""
        known: dict[str, Any] = config.cache.get("cache/lastfailed", {}) if config.cache else {}
        plugin: Any = config.pluginmanager.get_plugin("lfplugin")
        if not known or plugin is None:
            return
        self._failed = frozenset(known)
        plugin.active = False
        for name in ("lfplugin-collwrapper", "lfplugin-collskip"):
            if config.pluginmanager.has_plugin(name):
                config.pluginmanager.unregister(name=name)

    def narrowed(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The items that were meant: all, where neither a verdict was named nor the last failures were asked for."""
        kept = list(items)
        if self._verdicts:
            kept = [item for item in kept if self._is_named(item)]
        if self._failed:
            failed = [item for item in kept if _behind(item, self._failed)]
            kept = failed or kept  # as pytest does where none of them is among what was selected
        if gone := [item for item in items if item not in kept]:
            gone[0].config.hook.pytest_deselected(items=gone)
        return kept

    def _is_named(self, item: pytest.Item) -> bool:
        if _covered(item, self._others):
            return True
        return any(_same_place(word, item) for word in self._verdicts)


def _same_place(verdict: str, item: pytest.Item) -> bool:
    """Does this verdict, as it was written, judge this item?"""
    path, _, name = verdict.partition("::")
    return name == verdict_name(item) and item.nodeid.partition("::")[0].endswith(PurePath(path).name)


def _covered(item: pytest.Item, words: Iterable[str]) -> bool:
    """Did one of these words select the item?"""
    for word in words:
        path, _, name = word.partition("::")
        inside = item.path.is_relative_to(item.config.invocation_params.dir.joinpath(path).resolve())
        own = item.nodeid.partition("::")[2]
        if inside and (not name or own == name or own.startswith(f"{name}[")):
            return True
    return False


def _behind(item: pytest.Item, failed: Collection[str]) -> bool:
    """Is an item among failed ones, or is it what a failed verdict, or the death of a server, was about?"""
    ids = {item.nodeid}
    if (verdict := verdict_name(item)) is not None:
        ids.add(f"{item.nodeid.partition('::')[0]}::{verdict}")
    if is_scenario(item):
        params = item.callspec.params  # type: ignore[attr-defined]
        ids.add(LaunchId(params["arm"], params["launch"]).life)
    return bool(ids & set(failed))


def verdicts_as_keywords(item: pytest.Item) -> None:
    """``-k`` with words of a verdict's id selects what it judges."""
    if is_scenario(item) and (name := verdict_name(item)) is not None:
        item.extra_keyword_matches.add(name)
