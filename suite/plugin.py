"""The pytest plugin: hooks and fixtures that wire the rooms together and decide nothing themselves."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import pytest
from _pytest.runner import runtestprotocol

from suite import redact
from suite.config import ConfigError
from suite.gate import GateError, Judgement, Outcome, Session, WriteFailed
from suite.gate.floor import noise_floor
from suite.gate.status import BROKEN, INFRASTRUCTURE
from suite.hosts import HostError
from suite.load import LoadError
from suite.options import add_options
from suite.questions import crossover
from suite.questions.memory import Memory
from suite.report import allure_files, ci_summary, failures, junit, planned, summary
from suite.report.clean import Cleaner, clean
from suite.servers import ServerDied, ServerError, SupervisorLost, end_all_at_once
from suite.session.beforehand import objections
from suite.session.collection import (
    Arranged,
    arrange,
    asked_of,
    is_scenario,
    kind_of,
    parametrize,
    question_of,
    ratios_of,
    slot_of,
    verdict_of,
    within_budget,
)
from suite.session.entries import FORMAT, VERSION, Begun, Closed, Entry, Item, Resumed
from suite.session.files import Files
from suite.session.judging import Judge, wanted_again
from suite.session.minutes import Deadline, TimeIsUp, fitted, reserve_s
from suite.session.outcomes import AnotherBuild, as_told, outcome_of
from suite.session.outlook import Outlook
from suite.session.plan import alternate
from suite.session.playing import Playing, outcome_key
from suite.session.price import Price, price
from suite.session.recording import Played
from suite.session.resuming import Resumption, arms_of, options_of, resumption
from suite.session.run import Run
from suite.session.served import Served
from suite.session.settings import Settings
from suite.session.signals import Signals
from suite.session.stored import Stored
from suite.session.times import Expected, known, path_of
from suite.sglang.errors import ProbeError
from suite.terminal.progress import Progress

MARKERS = (
    "perf: a scenario against a server (select with -m perf)",
    "activation: is speculation off unless asked for, and on when asked for",
    "spellings: the same for every other way of asking",
    "decode: output tokens/s and time per output token",
    "prefill: time to first token by context, and reuse of shared prefixes",
    "acceptance: acceptance length by kind of content, temperature and context",
    "speedup: what MTP gains over the same server without it",
    "depth: how many tokens to draft (a table to tune by)",
    "lossless: does MTP change greedy answers",
    "canary: are answers right at all",
    "backends: which kernels start, answer rightly, and how fast (a table)",
    "steadiness: does a server hold out and give back what it used",
    "startup: time to ready by phase, memory, KV capacity",
    "steptime: time of a step with acceptance held still",
    "log: does the log of a server that answers well show trouble",
    "configuration: what is resolved and installed, against the baseline's",
    "arms(*names): the arms of suite.toml that a scenario is put to; * stands for any text",
    "sized(**values): values for a sized argument instead of the budget's",
    "once: one launch an arm is enough: nothing here is averaged",
    "judges(*metrics): the metrics that are judged against the baseline when all launches are done",
    "ratio(metric, numerator, denominator): judge the ratio of two arms of this run",
    "claims(metric, floor, otherwise, where): a floor, a key of the target, that holds whatever the baseline says",
)

pytest_plugins = ["suite.fixtures"]

plugin_key = pytest.StashKey["PerfPlugin"]()
served_key = pytest.StashKey[Served]()
played_in = pytest.StashKey[Played]()
lost_key = pytest.StashKey[ServerDied | SupervisorLost]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    if getattr(config.option, "numprocesses", None) and "perf" in config.option.markexpr:
        raise pytest.UsageError(
            "-n does not go with -m perf: one server is measured at a time, and two would disturb each other"
        )
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    plugin = PerfPlugin(config)
    if resumed := config.getoption("--resume"):
        plugin.resume(resumed)
    config.stash[plugin_key] = plugin
    config.pluginmanager.register(plugin, "sglang-perf-gate")
    redact.learn_from(os.environ)
    config.pluginmanager.register(Cleaner(), "sglang-perf-gate-clean")
    config.pluginmanager.register(OthersReports(plugin), "sglang-perf-gate-reports")


class PerfPlugin:
    """One pytest session: the arranged items, the run with its server, what was recorded and how it was judged."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.arranged = Arranged([], [], [])
        self.progress = Progress(config)
        self.others_failed = False
        """Whether an item failed that is no scenario."""
        self.memory = Memory()
        self.resumption: Resumption | None = None
        self.deadline: Deadline | None = None
        self.left_out: list[str] = []
        """What ``--minutes`` left no time for, by name."""
        self._run: Run | None = None
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
        if self._run is None:
            chosen = self.settings
            self._run = Run(
                chosen.suite,
                chosen.target,
                chosen.budget,
                chosen.sizes,
                chosen.extra_flags,
                chosen.results,
                self.progress,
                again=self.resumption.folder if self.resumption else None,
                on_full=self.signals.stop,
            )
            self._run.note(self._first_entry(self._run))
        return self._run

    def _first_entry(self, run: Run) -> Entry:
        """The plan of a new run, or that an earlier one is taken up again."""
        if self.resumption is not None:
            return Resumed(time.time(), socket.gethostname())
        arms = list(dict.fromkeys(slot.arm for slot in self.arranged.slots))
        return Begun(
            format=FORMAT,
            version=VERSION,
            run_id=run.run_id,
            started_at=run.started.isoformat(timespec="seconds"),
            target=run.target.name,
            plan=self.settings.plan,
            host=socket.gethostname(),
            options=options_of(self.config),
            arms=arms_of(self.settings.target, arms, self.settings.extra_flags),
            items=[item.nodeid for item in self.arranged.scenarios],
            left_out=self.left_out,
            asked=asked_of(self.arranged.verdicts),
            ratios=ratios_of(self.arranged.verdicts),
        )

    @cached_property
    def expected(self) -> Expected:
        """How long things take on this target, as far as former runs tell."""
        chosen = self.settings
        return Expected(known(path_of(chosen.results, chosen.target.name)), chosen.target, chosen.sizes)

    @cached_property
    def files(self) -> Files:
        return Files(lambda: self.run.runtime)

    def facts(self, served: Served) -> dict[str, Any]:
        """The subject of what is measured on a server: all that an upgrade may change."""
        return self.stored.subject(self.run, served)

    @cached_property
    def stored(self) -> Stored:
        return Stored(self.settings)

    @cached_property
    def judge(self) -> Judge:
        return Judge(self._session, self.stored.judge)

    def _session(self) -> Session:
        return self.run.told.session()

    @property
    def _measured(self) -> bool:
        """Was anything measured at all, in this try or an earlier one?"""
        return self._run is not None and bool(self._run.told.asked)

    # ------------------------------------------------------------------ collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        try:
            if (begun := self.resumption and self.resumption.begun) and begun.left_out:
                self.settings.cut_as(begun.plan)
            _ = self.settings
            _ = self.stored  # the gate's settings are checked before anything is launched
        except (ConfigError, GateError) as error:
            raise pytest.UsageError(*clean(str(error)).splitlines()) from None

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if metafunc.definition.get_closest_marker("arms") is not None:
            parametrize(metafunc, self.settings.target, self.settings.sizes)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if not any(item.get_closest_marker("arms") for item in items):
            return
        kept, left_out = within_budget(items, self.settings.sizes)
        if left_out:
            told = ", ".join(f"{count} {kind}" for kind, count in left_out.items())
            self.progress.say(f"budget {self.settings.budget} leaves out scenarios: {told} (see --budget)")
        if self.resumption is not None:
            planned = set(self.resumption.begun.items)
            kept = [item for item in kept if item.nodeid in planned or not is_scenario(item)]
        self._arrange(kept)
        if self.resumption is not None:
            self._must_be_the_same_run()
        if self.settings.minutes is not None:
            self._fit(kept)
        items[:] = self.arranged.items

    def _arrange(self, items: Sequence[pytest.Item]) -> None:
        self.arranged = arrange(items, self.settings.target, self.settings.sizes, self._decide)

    def _fit(self, kept: list[pytest.Item]) -> None:
        """Cut the plan until it fits into ``--minutes``; a run that is taken up again keeps its plan."""
        chosen, expected = self.settings, self.expected
        assert chosen.minutes is not None
        self.deadline = Deadline(chosen.minutes, reserve_s(chosen.minutes, expected.end_s))
        if self.resumption is not None:
            return
        try:
            cut = fitted(
                self.arranged.scenarios,
                chosen.sizes,
                self.deadline.left_s,
                lambda items, sizes: price(items, chosen.target, sizes, expected),
            )
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
        if cut.left_out:
            self.left_out = cut.left_out
            self.progress.say(f"--minutes {chosen.minutes:g} leaves out: {', '.join(cut.left_out)}")
            chosen.cut(cut.sizes)
            inside = set(cut.items)
            self._arrange([item for item in kept if item in inside or not is_scenario(item)])

    def _must_be_the_same_run(self) -> None:
        assert self.resumption is not None
        chosen, begun = self.settings, self.resumption.begun
        known = [arm for arm in begun.arms if arm in chosen.target.arms]
        arms = arms_of(chosen.target, known, chosen.extra_flags)
        there = [item.nodeid for item in self.arranged.scenarios]
        try:
            self.resumption.must_be(chosen.target.name, chosen.plan, arms, there)
        except ConfigError as error:
            raise pytest.UsageError(*str(error).splitlines()) from None

    def _decide(self, item: pytest.Item) -> None:
        series = item.stash[verdict_of]
        verdicts = self.judge.verdicts(series)
        item.user_properties += junit.properties(verdicts)
        allure_files.attach_verdicts(verdicts)
        self.judge.decide(series)

    # ------------------------------------------------------------------ running

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if not self.arranged.items or session.testsfailed or self.config.option.collectonly:
            return None  # nothing of ours, or something that pytest's own loop has a word for
        if self.config.getoption("--plan"):
            self.progress.print(planned.of_plan(self.settings, self.arranged, self.expected))
            return True
        self._begin()
        done = self.resumption.done if self.resumption else ()
        self.run.outlook = Outlook(self._price(self.arranged.items), self.expected)
        playing = Playing(lambda: self.run, self.memory, self._price(self.arranged.scenarios), done)
        self.signals.install()
        try:
            self._measure(session, playing)
        except TimeIsUp as overrun:
            self._broken_off(session, str(overrun))
        except KeyboardInterrupt as interrupt:
            self._stopped(session, playing, str(interrupt) or "interrupted")
        playing.play(session, self.arranged.verdicts)
        return True

    def _price(self, items: Sequence[pytest.Item]) -> Price:
        return price(items, self.settings.target, self.settings.sizes, self.expected)

    def _broken_off(self, session: pytest.Session, reason: str) -> None:
        """``--minutes`` are all but over, and something was still going on: the server goes down, the rest is judged."""
        run = self.run
        run.abandon()
        session._setupstate.teardown_exact(None)
        run.tell("stopped", reason)
        run.stopping.ask(reason)
        run.told.ended = reason
        self.judge.look()

    def _stopped(self, session: pytest.Session, playing: Playing, reason: str) -> NoReturn:
        """Told to stop: the server goes down while what was measured is judged and reported, as far as it goes."""
        self.signals.ending()
        run = self.run
        run.abandon()
        session._setupstate.teardown_exact(None)
        if run.disk.full is None:
            run.tell("stopped", reason)
        else:
            run.note(
                Item("results", 0, Outcome("results", "disk", "", 0, "infrastructure", reason), time.time())
            )
        run.stopping.ask(reason)
        run.told.ended = run.stopping.reason or ""
        self.judge.look()
        playing.play(session, self.arranged.verdicts)
        raise session.Interrupted(reason)

    def _begin(self) -> None:
        """Make the run's directory, or open the one that is taken up again, before anything is launched."""
        try:
            run = self.run
            if self.deadline is not None:
                run.stopping.deadline = self.deadline
                self.deadline.watch()
            if self.resumption is not None:
                done, rest = len(self.resumption.done), len(self.arranged.slots)
                self.progress.say(f"going on with {run.run_id}: {done} of {rest} launches are complete")
                for line in self.resumption.damage:
                    self.progress.say(line)
                run.must_be_the_build()
            self._must_be_recordable(run)
        except WriteFailed as error:
            pytest.exit(str(error), returncode=INFRASTRUCTURE)
        except AnotherBuild as error:
            raise pytest.UsageError(str(error)) from None

    def _must_be_recordable(self, run: Run) -> None:
        """Raise UsageError for a run that is to be recorded and could not be, before it costs anything."""
        if not self.settings.record:
            return
        asked = asked_of(self.arranged.items)
        against = objections(self.stored.store, run.target, asked, run.surroundings.identity())
        if against:
            raise pytest.UsageError(*against)

    def _measure(self, session: pytest.Session, playing: Playing) -> None:
        """Play everything that measures; launches that only an undecided look asks for, look by look."""
        limit: int | None = self.settings.sizes.launches
        measuring = [item for item in self.arranged.items if verdict_of not in item.stash]
        while measuring:
            playing.play(session, measuring)
            if not self._measured or self.run.stopping.reason is not None:
                break
            judgement = self.judge.look(self.run.told.session(up_to=limit))
            measuring, limit = self._more(judgement), judgement.next_launches
        if self.deadline is not None:
            self.deadline.measured()
        self.run.told.ended = self.run.stopping.reason or ""
        self.judge.look()

    def _more(self, judgement: Judgement) -> list[pytest.Item]:
        """The held-back items that the next look needs, in launch order."""
        if judgement.undecided and judgement.next_launches:
            self.progress.say(f"{len(judgement.undecided)} series undecided: launching their arms again")
        limit = judgement.next_launches or 0
        due = [item for item in self.arranged.later if item.stash[slot_of].launch <= limit]
        wanted = wanted_again(due, judgement.extend)
        self.arranged.later = [item for item in self.arranged.later if item not in wanted]
        if wanted and not self.run.can_spare(self._price(wanted).seconds):
            self.progress.say(f"{self.settings.minutes:g} minutes leave no time to launch them again")
            return []
        if self.run.outlook is not None:
            self.run.outlook.add(self._price(wanted))
        order = {slot: place for place, slot in enumerate(alternate(item.stash[slot_of] for item in wanted))}
        return sorted(wanted, key=lambda item: order[item.stash[slot_of]])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """As pytest plays an item; one whose server was lost is asked again, and only then reported."""
        if slot_of not in item.stash or self._run is None:
            return None
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        if (lost := item.stash.get(lost_key, None)) is not None and self._again(item, lost):
            del item.stash[lost_key]
            self.memory.mark()
            reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _again(self, item: pytest.Item, lost: ServerDied | SupervisorLost) -> bool:
        """Is an item to be asked again whose server was lost? The loss is told as the arm's, not as the item's."""
        slot = item.stash[slot_of]
        self.run.drop_lost()
        if isinstance(lost, SupervisorLost):
            self.run.tell("supervisor", f"{lost.summary}; {item.name} is asked again")
            return self.run.losses.supervisor_lost(slot.arm, item.nodeid)
        if not self.run.losses.died(slot.arm, item.nodeid, lost.summary):
            return False
        what = f"server of {slot}"
        self.run.tell("death", f"{slot}: {lost.summary}; it is launched again, and asked {item.name} again")
        self.run.note(
            Item(what, slot.launch, outcome_of(what, "launch", slot.arm, slot.launch, lost), time.time())
        )
        for report in failures.of_arm(f"servers::lives[{slot.arm}-launch{slot.launch}]", lost):
            item.ihook.pytest_runtest_logreport(report=report)
        return True

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        if slot_of in item.stash or verdict_of in item.stash:
            allure_files.label(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, None, None]:
        try:
            yield
        except (LoadError, ProbeError):
            # whoever could not reach the server says so; that the server died is the cause
            if (served := item.stash.get(served_key, None)) is not None:
                served.must_live()
            raise
        finally:
            self._attach(item)

    def _attach(self, item: pytest.Item) -> None:
        """The server's life and the samples, whether the item ended well or not."""
        served = item.stash.get(served_key, None)
        if served is None:
            return
        allure_files.attach_server(served)
        if (played := item.stash.get(played_in, None)) is not None:
            allure_files.attach_played(played)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.excinfo is not None and isinstance(call.excinfo.value, ServerDied | SupervisorLost):
            item.stash[lost_key] = call.excinfo.value
        self._note(item, call, report)
        failures.shorten(item, call, report)
        return report

    def _note(self, item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
        """Keep how a scenario's item ended; verdicts speak for themselves."""
        if verdict_of in item.stash:
            return
        if question_of not in item.stash:
            self.others_failed |= report.failed
        elif report.when == "call" or not report.passed:
            error = call.excinfo.value if call.excinfo is not None else None
            slot = item.stash[slot_of]
            item.stash[outcome_key] = outcome_of(
                item.stash[question_of], kind_of(item) or "", slot.arm, slot.launch, as_told(report, error)
            )

    # ------------------------------------------------------------------ ending

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        self.signals.ending()
        if self._run is None:
            return
        run = self._run
        try:
            run.close()
        except (ServerError, HostError) as error:
            self.stored.problems.append(str(error))
            self.stored.unwritten = True
        finally:
            run.note(Closed(time.time(), run.stopping.reason or ""))
            self.judge.look()
            if self._measured:
                crossover.tell(self.judge.judged, self.memory.tables)
            if self.memory.tables.rows:
                tables = run.directory / "tables.json"
                self.stored.attempt("the tables", lambda: self.memory.tables.save(tables))
            self.stored.keep(run, self.judge)
            self.stored.attempt("the summary", lambda: self._write_summary(run))
            self.stored.attempt("the Allure report", lambda: self._write_allure(run))
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = self._status(run)
        elif exitstatus == pytest.ExitCode.INTERRUPTED:
            session.exitstatus = self._status_when_stopped(run)
        if self.deadline is not None:
            self.deadline.status = int(session.exitstatus)

    def _status(self, run: Run) -> int:
        """The judgement's, unless something beside the scenarios failed."""
        if self.others_failed:
            return BROKEN
        status = self.judge.judgement().status
        return INFRASTRUCTURE if self._unwritten(run) and status != BROKEN else status

    def _status_when_stopped(self, run: Run) -> int:
        """pytest's own 2, unless it is certain by now that the run could not have ended well."""
        proven = {"regression", "broken promise", "broken"}
        words: set[str] = {verdict.word for verdict in self.judge.judgement().verdicts.values()}
        words |= {outcome.word for outcome in self.judge.judged.outcomes}
        if self.others_failed or words & proven:
            return BROKEN
        return INFRASTRUCTURE if self._unwritten(run) else pytest.ExitCode.INTERRUPTED

    def _unwritten(self, run: Run) -> bool:
        return self.stored.unwritten or run.unwritten is not None or run.disk.full is not None

    def _write_summary(self, run: Run) -> None:
        page = ci_summary.text(self.judge.judged, self.judge.judgement(), self.stored.way_back())
        ci_summary.write(run.directory, page)

    def _write_allure(self, run: Run) -> None:
        directory = self.config.getoption("allure_report_dir", default=None)
        if directory:
            judgement = self.judge.judgement()
            allure_files.write_run(
                Path(directory), run, judgement, {**run.build.subject({}), **run.surroundings.subject()}
            )

    def pytest_unconfigure(self) -> None:
        self.signals.restore()
        if self.deadline is not None:
            self.deadline.over()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        self.progress.done()
        for line in self.memory.tables.lines():
            terminalreporter.write_line(line)
        if self._run is None:
            return
        terminalreporter.section("performance")
        for line in summary.of_run(self._run, self.judge, self.stored.notes):
            terminalreporter.write_line(line)
        for line in [*filter(None, [self._run.unwritten]), *self.stored.problems]:
            terminalreporter.write_line(line, red=True)
        if self.config.getoption("--aa"):
            terminalreporter.section("noise floor")
            for line in summary.of_noise(noise_floor(self._session(), self.stored.rules)):
                terminalreporter.write_line(line)


class OthersReports:
    """Reports that others write at the end (JUnit): one that finds no room must not take the rest down with it."""

    def __init__(self, plugin: PerfPlugin) -> None:
        self._plugin = plugin

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        try:
            yield
        except OSError as error:
            self._plugin.stored.problems.append(f"a report was not written: {error}")
            if session.exitstatus != BROKEN:
                session.exitstatus = INFRASTRUCTURE
