"""From collected functions to the plan of a run: sizes, order, what the budget and ``--minutes`` leave out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from suite.builds import BuildError
from suite.cluster.options import shard_wanted
from suite.cluster.shards import part_of
from suite.config import ConfigError
from suite.gate import GateError
from suite.plugin.parts import Parts
from suite.plugin.pasted import Pasted, verdicts_as_keywords
from suite.report import junit
from suite.report.clean import clean
from suite.session import first_starts
from suite.session.collection import arrange, is_scenario, parametrize, verdict_of, within_budget
from suite.session.minutes import Deadline, fitted, reserve_s
from suite.session.plan import BUILDS
from suite.session.price import price


class Collecting:
    """Hooks of pytest's collection."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._pasted = Pasted(parts.config)

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        verdicts_as_keywords(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        parts = self._parts
        try:
            if (begun := parts.resumption and parts.resumption.begun) and begun.left_out:
                parts.settings.cut_as(begun.plan)
            _ = parts.settings
            shard_wanted(parts.config)
            _ = parts.stored  # the gate's settings are checked before anything is launched
        except (ConfigError, GateError, BuildError) as error:
            raise pytest.UsageError(*clean(str(error)).splitlines()) from None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if metafunc.definition.get_closest_marker("arms") is not None:
            chosen = self._parts.settings
            builds = BUILDS if chosen.comparing else ()
            runs = chosen.attached
            parametrize(metafunc, chosen.target, chosen.sizes, builds, runs.arms_for if runs else None)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        parts = self._parts
        if not items and parts.config.args_source is pytest.Config.ArgsSource.INVOCATION_DIR:
            parts.progress.say(f"no scenarios in this folder; run pytest in {parts.config.rootpath}")
        if not any(item.get_closest_marker("arms") for item in items):
            return
        if (runs := parts.settings.attached) is not None:
            items[:], said = runs.askable(items, parts.settings.sizes.scenarios)
            parts.progress.say(said)
        kept, left_out = within_budget(items, parts.settings.sizes)
        if left_out:
            told = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
            parts.progress.say(f"budget {parts.settings.budget} leaves out scenarios: {told} (see --budget)")
        if parts.resumption is not None:
            planned = set(parts.resumption.begun.items)
            kept = [item for item in kept if item.nodeid in planned or not is_scenario(item)]
        kept = self._pasted.narrowed(kept)
        self._arrange(kept)
        if parts.resumption is not None:
            self._must_be_the_same_run()
        else:
            self._take_part(kept)
        if parts.settings.minutes is not None:
            self._fit(kept)
        items[:] = parts.arranged.items

    def _arrange(self, items: Sequence[pytest.Item]) -> None:
        parts = self._parts
        parts.arranged = arrange(items, parts.settings.target, parts.settings.sizes, self._decide)

    def _take_part(self, kept: Sequence[pytest.Item]) -> None:
        """Keep the items of ``--shard``, where it is given; a run that is taken up again has no others."""
        parts = self._parts
        try:
            if (wanted := shard_wanted(parts.config)) is not None:
                chosen = parts.settings
                parts.shard, own = part_of(wanted, parts.arranged, kept, chosen.target, chosen.sizes)
                self._arrange(own)
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None

    def _fit(self, kept: list[pytest.Item]) -> None:
        """Cut the plan until it fits into ``--minutes``; a run that is taken up again keeps its plan."""
        parts = self._parts
        chosen, expected = parts.settings, parts.expected
        assert chosen.minutes is not None
        parts.deadline = Deadline(chosen.minutes, reserve_s(chosen.minutes, expected.end_s))
        if parts.resumption is not None:
            return
        try:
            cut = fitted(
                parts.arranged.scenarios,
                chosen.sizes,
                parts.deadline.left_s - first_starts.seconds(parts.first_starts, expected),
                lambda items, sizes: price(items, chosen.target, sizes, expected),
                chosen.fewest_launches,
            )
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
        if cut.left_out:
            parts.left_out = cut.left_out
            parts.progress.say(f"--minutes {chosen.minutes:g} leaves out: {', '.join(cut.left_out)}")
            chosen.cut(cut.sizes)
            inside = set(cut.items)
            self._arrange([item for item in kept if item in inside or not is_scenario(item)])

    def _must_be_the_same_run(self) -> None:
        parts = self._parts
        assert parts.resumption is not None
        chosen, begun = parts.settings, parts.resumption.begun
        known = [
            arm for arm in chosen.target.arms if arm in {name.partition(" of ")[0] for name in begun.arms}
        ]
        arms = parts.arms_of(known)
        there = [item.nodeid for item in parts.arranged.scenarios]
        try:
            parts.resumption.must_be(chosen.target.name, chosen.plan, arms, there)
        except ConfigError as error:
            raise pytest.UsageError(*str(error).splitlines()) from None

    def _decide(self, item: pytest.Item) -> None:
        series = item.stash[verdict_of]
        verdicts = self._parts.judge.verdicts(series)
        item.user_properties += junit.properties(verdicts)
        self._parts.judge.decide(series)
