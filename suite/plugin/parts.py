"""What one pytest session of the suite is made of: settings, run, store, judge, each made when it is first needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import pytest

from suite.builds import Build
from suite.cluster.shards import with_build
from suite.config import ConfigError
from suite.gate import GateError, Rules, Session, known_good
from suite.hosts import names
from suite.questions.memory import Memory
from suite.servers import ServerDied, SupervisorLost, end_all_at_once
from suite.session import first_starts
from suite.session.collection import Arranged, asked_of, ratios_of
from suite.session.entries import FORMAT, VERSION, Begun, Entry, Resumed, Shard
from suite.session.minutes import Deadline
from suite.session.plan import BUILDS, LaunchId
from suite.session.price import Price, price
from suite.session.recording import WorkloadResult
from suite.session.resuming import Resumption, arms_of, options_of, resumption
from suite.session.run import Run
from suite.session.run_store import EndedRun, RunStore
from suite.session.running_arm import RunningArm
from suite.session.settings import Settings
from suite.session.signals import Signals
from suite.session.times import Expected, known, path_of
from suite.session.verdict_items import Judge
from suite.terminal.progress import RunProgress

parts_key = pytest.StashKey["Parts"]()
served_key = pytest.StashKey[RunningArm]()
"""The server that an item asked."""
played_in = pytest.StashKey[WorkloadResult]()
"""What an item measured."""
lost_key = pytest.StashKey[ServerDied | SupervisorLost]()
"""How an item's server was lost."""


class Parts:
    """The arranged items, the run with its server, what was recorded and how it was judged."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.arranged = Arranged([], [], [])
        self.progress = RunProgress(config)
        self.others_failed = False
        """Whether an item failed that is no scenario."""
        self.memory = Memory()
        self.resumption: Resumption | None = None
        self.deadline: Deadline | None = None
        self.left_out: list[str] = []
        """What ``--minutes`` left no time for, by name."""
        self.shard: Shard | None = None
        """Which part of the plan this run measures, where it is not the whole."""
        self.begun: Run | None = None
        """The run, once something was launched or is about to be."""
        self.signals = Signals(end_all_at_once, self.progress.last_words)

    def resume(self, run: str) -> None:
        """Take up an earlier run, with the options that it began with.

        Raises:
            pytest.UsageError: it cannot be, and why.
        """
        try:
            self.resumption = resumption(run, self.config.rootpath / self.config.getoption("--results"))
            self.resumption.restore(self.config)
        except (ConfigError, GateError) as error:
            raise pytest.UsageError(*str(error).splitlines()) from None

    @cached_property
    def settings(self) -> Settings:
        return Settings(self.config)

    @property
    def run(self) -> Run:
        """The run, begun when the first server is needed."""
        if self.begun is None:
            chosen = self.settings
            self.begun = Run(
                chosen.suite,
                chosen.target,
                chosen.budget,
                chosen.sizes,
                chosen.extra_flags,
                chosen.results,
                self.progress,
                again=self.resumption.folder if self.resumption else None,
                on_full=self.signals.stop,
                part=f"-shard{self.shard.number}of{self.shard.of}" if self.shard else "",
                compared=self.compared,
                duet=self.settings.duet,
            )
            self.begun.note(self._first_entry(self.begun))
        return self.begun

    def _first_entry(self, run: Run) -> Entry:
        """The plan of a new run, or that an earlier one is taken up again."""
        if self.resumption is not None:
            return Resumed(time.time(), names.here())
        arms = list(dict.fromkeys(launch_id.arm for launch_id in self.arranged.launch_ids))
        shard = None
        if self.shard is not None:
            shard = with_build(self.shard, run.main.build, self.settings.whole)
        if shard is not None:
            arms = [arm for its in shard.arms for arm in its if arm in run.target.arms]
        return Begun(
            format=FORMAT,
            version=VERSION,
            run_id=run.run_id,
            started_at=run.started.isoformat(timespec="seconds"),
            target=run.target.name,
            plan=self.settings.plan,
            host=names.here(),
            options=options_of(self.config),
            arms=self.arms_of(arms),
            items=[item.nodeid for item in self.arranged.scenarios],
            left_out=self.left_out,
            asked=asked_of(self.arranged.verdicts),
            ratios=ratios_of(self.arranged.verdicts),
            shard=shard,
            builds={name: build.name for name, build in self.compared.items()},
        )

    @cached_property
    def compared(self) -> dict[str, Build]:
        """The two builds of a run that compares them, ready to be launched: installed where they are to be.

        Raises:
            BuildError, GateError: one of them cannot be had.
        """
        comparing = self.settings.comparing
        return comparing.resolved(self.progress.say) if comparing is not None else {}

    def arms_of(self, arms: Sequence[str]) -> dict[str, str]:
        """What each arm is, as a line; of two builds each, by whose it is."""
        chosen = self.settings
        if not self.compared:
            return arms_of(chosen.target, arms, chosen.extra_flags)
        lines: dict[str, str] = {}
        for name, build in self.compared.items():
            of_build = arms_of(build.on(chosen.target), arms, chosen.extra_flags)
            lines |= {LaunchId(arm, 1, name).who: line for arm, line in of_build.items()}
        return lines

    @cached_property
    def expected(self) -> Expected:
        """How long things take on this target, as far as former runs tell."""
        chosen = self.settings
        times = known(path_of(chosen.results, chosen.target.name))
        return Expected(times, chosen.target, chosen.sizes, duet=chosen.duet)

    def facts(self, served: RunningArm) -> dict[str, Any]:
        """The subject of what is measured on a server: all that an upgrade may change."""
        return self.stored.subject(self.run, served)

    @property
    def first_starts(self) -> list[LaunchId]:
        """The launches that warm two builds before they are measured."""
        arms = list(dict.fromkeys(launch_id.arm for launch_id in self.arranged.launch_ids))
        return first_starts.wanted(BUILDS, arms) if self.settings.comparing is not None else []

    @cached_property
    def stored(self) -> RunStore:
        chosen = self.settings
        return RunStore(chosen.target.name, Rules.of_target(chosen.target), chosen.results, chosen.baselines)

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.session, self.stored.judge)

    def session(self) -> Session:
        """What was measured so far."""
        return self.run.told.session()

    def ended(self, run: Run) -> EndedRun:
        """The run as it is left, judged."""
        session, judgement, built = self.judge.judged, self.judge.judgement(), run.main.build
        begun = run.told.begun
        shard = begun.shard if begun is not None else None
        of_builds = [note for side in run.sides.values() for note in side.build.notes]
        return EndedRun(
            run.directory,
            session,
            judgement,
            run.entries,
            len(run.told.launches),
            built=lambda: known_good.of_run(session, judgement, built.subject({}), built.lock, built.place),
            whole=self.settings.whole,
            promote=self.settings.promote_on_pass,
            notes=[*of_builds, *run.environment.notes],
            apart=f"{shard}, judged alone; the verdict is that of python -m suite merge" if shard else "",
        )

    @property
    def measured(self) -> bool:
        """Was anything measured at all, in this try or an earlier one?"""
        return self.begun is not None and bool(self.begun.told.asked)

    def price_of(self, items: Sequence[pytest.Item]) -> Price:
        """What these items are expected to cost."""
        return price(items, self.settings.target, self.settings.sizes, self.expected)
