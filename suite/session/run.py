"""One run of the suite on one target: the one server that is up, and what was launched."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from suite import redact
from suite.builds import Build
from suite.config import Sizes, Suite, Target
from suite.gate import Facts, WriteFailed
from suite.gate.records import differing, plain_facts
from suite.hosts import HostError
from suite.servers import (
    AttachLauncher,
    Launcher,
    LaunchFailed,
    NotThisArm,
    ServerError,
    SupervisorLost,
    launcher_for,
)
from suite.session import fold, journal
from suite.session.disk import ResultsDisk
from suite.session.entries import Entry, Failed, Launching, Note, Ready, RoundDone, ServerEnded
from suite.session.environment import HostEnvironment
from suite.session.gpu_monitor import GpuMonitor
from suite.session.journal import Journal
from suite.session.losses import Losses
from suite.session.outcomes import AnotherBuild, ArmUnavailable, family
from suite.session.outlook import Outlook
from suite.session.plan import LaunchId
from suite.session.running_arm import RunningArm
from suite.session.sides import BuildSide, sides_of, under_test
from suite.session.stopping import Stopping
from suite.session.stored_runs import own_directory
from suite.session.up import Up
from suite.sglang.errors import ProbeError
from suite.sglang.flags import FlagChangeValue
from suite.terminal.progress import RunProgress


class Run:
    """Holds at most one server at a time and shares it among all items that need the same launch.

    Args:
        suite: the whole configuration.
        target: where and what to measure; ``{run}`` in a value of its environment is this run's own directory.
        budget: the budget's name, and ``sizes`` its figures after all overrides.
        extra_flags: changes to the target's flags for this run alone (``--flag``).
        results: the directory under which this run gets one of its own.
        again: the directory of an earlier run that is taken up again, instead of a new one.
        on_full: called, in whatever thread finds out, when results cannot be written any more.
        part: added to the name of its directory, where it is a part of a whole.
        compared: the builds of a run that compares two, by the names of their slots.
        duet: have both of them up at once, of the same arm and launch.

    Raises:
        WriteFailed: the directory cannot be written, or another run is writing it.
    """

    def __init__(
        self,
        suite: Suite,
        target: Target,
        budget: str,
        sizes: Sizes,
        extra_flags: Mapping[str, FlagChangeValue],
        results: Path,
        progress: RunProgress,
        again: Path | None = None,
        on_full: Callable[[str], None] = lambda reason: None,
        part: str = "",
        compared: Mapping[str, Build] | None = None,
        duet: bool = False,
    ) -> None:
        self.suite = suite
        self.budget = budget
        self.sizes = sizes
        self.extra_flags = dict(extra_flags)
        self.progress = progress
        self.started = datetime.now(UTC)
        self.directory = again or own_directory(results, f"{self.started:%Y%m%d-%H%M%S}-{target.name}{part}")
        self.stopping = Stopping()
        self.journal = Journal(self.directory / journal.NAME)
        self.told = fold.told(self.journal.before.entries)
        self.entries: list[Entry] = []
        """What this try has noted."""
        self.launching_s = 0.0
        """Seconds that this try has spent on bringing servers up and down."""
        self.outlook: Outlook | None = None
        self._launching: tuple[LaunchId, float] | None = None
        """What is being launched, and since when."""
        self.unwritten: str | None = None
        """Why the journal ends before the run does."""
        flagged = target.model_copy(update={"flags": {**target.flags, **extra_flags}})
        self.sides = sides_of(suite, flagged, compared or {}, lambda: self.environment.host, self.directory)
        """The builds that are served, by the names of their slots."""
        self.target = under_test(self.sides).target
        self.environment = HostEnvironment(suite, self.target)
        self.gpu_monitor = GpuMonitor(self.environment)
        self._launchers = self._made_launchers(duet)
        self.disk = ResultsDisk(self.directory, on_full)
        self._untold: queue.SimpleQueue[Note] = queue.SimpleQueue()
        self.losses = Losses()
        self._open = ExitStack()
        self._entered: list[Launcher | AttachLauncher] = []
        self._up = Up(duet=duet)
        self._untold_errors: dict[LaunchId, Exception] = {}
        """Why a launch failed that in a duet the other build's item asked for: its own items tell it."""
        self._failed: dict[str, Exception] = {}
        self._lost: Exception | None = None
        """Why nothing at all can be launched, once that is known."""

    def _made_launchers(self, duet: bool) -> dict[str, Launcher | AttachLauncher]:
        """By build, one for all, or one each where two are up at once; the first to be entered takes the locks."""
        made: dict[str, Launcher | AttachLauncher] = {}
        for name, side in self.sides.items():
            if made and not duet:
                made[name] = next(iter(made.values()))
                continue
            # a port that is fixed is one server's; the other takes a free one
            target = side.target.model_copy(update={"port": None}) if made else self.target
            made[name] = launcher_for(
                self.suite,
                target,
                log_dir=self.directory / "logs",
                say=self.passing,
                tell=self.tell,
                locked=not made,
            )
            made[name].cards = self.gpu_monitor.own_cards
        return made

    @property
    def main(self) -> BuildSide:
        """The build that the run is about: the candidate of two."""
        return under_test(self.sides)

    @property
    def run_id(self) -> str:
        return self.directory.name

    def passing(self, text: str) -> None:
        """Say what goes on now, how far the run has come, and how long it will still take."""
        outlook = self.outlook
        if outlook is not None and self._launching is not None:
            launch_id, begun = self._launching
            text = f"{text}, {outlook.of_launch(launch_id.arm, time.monotonic() - begun)}"
        if outlook is None:
            self.progress.passing(text)
        else:
            self.progress.passing(text, str(outlook), outlook.share)

    def can_spare(self, seconds: float) -> bool:
        """Is there time for something beside what is planned?"""
        deadline, outlook = self.stopping.deadline, self.outlook
        return deadline is None or deadline.fits(seconds + (outlook.left_s if outlook is not None else 0.0))

    def note(self, entry: Entry) -> None:
        """Keep an entry, on disk when this returns; a disk that takes no more ends the run and loses nothing else."""
        fold.take(self.told, entry)
        self.entries.append(entry)
        if self.outlook is not None and isinstance(entry, RoundDone):
            self.outlook.round_played()
        if self.unwritten is not None:
            return
        try:
            self.journal.append(entry)
        except WriteFailed as error:
            self.unwritten = str(error)
            self.stopping.ask("results cannot be written any more")
            self.disk.failed(error.what)

    def served(self, launch_id: LaunchId) -> RunningArm:
        """The server of this launch, brought up if it is not, any other taken down first.

        Raises:
            LaunchFailed: it did not come up.
            HostError, ServerError: nothing can be launched there.
            ArmUnavailable: one of these was told at an earlier try in this run.
            ServerDied, SupervisorLost: it was up and is gone; the next call brings it up again.
        """
        if launch_id in self._up:
            try:
                self._up[launch_id].check("after")
            except Exception:
                self._stop([launch_id])
                raise
            return self._up[launch_id]
        began = time.monotonic()
        try:
            return self._another(launch_id)
        finally:
            self.launching_s += time.monotonic() - began

    def is_up(self, launch_id: LaunchId) -> bool:
        """Is the server of this launch up, so that it need not be launched?"""
        return launch_id in self._up

    def partner_of(self, running: RunningArm) -> RunningArm | None:
        """In a duet the other build's server of the same arm and launch, brought up if it can be.

        Raises:
            SupervisorLost: the suite's own process beside it is gone; asked again, it comes up.
        """
        if len(set(map(id, self._launchers.values()))) < 2 or not running.launch_id.number:
            return None
        build = next(name for name in self.sides if name != running.launch_id.build)
        other = LaunchId(running.launch_id.arm, running.launch_id.number, build)
        try:
            return self.served(other)
        except SupervisorLost:
            raise
        except (ServerError, HostError, ProbeError, ArmUnavailable) as error:
            self._untold_errors[other] = error
            return None

    def _another(self, launch_id: LaunchId) -> RunningArm:
        """Take down what is up, and launch this."""
        if (untold := self._untold_errors.pop(launch_id, None)) is not None:
            raise untold
        self._stop(self._up.in_the_way_of(launch_id))
        self.tell_waiting()
        if (why := self.losses.given_up(launch_id.who)) is not None:
            raise ArmUnavailable(f"{launch_id.who} is not launched again: {why}", why)
        if (earlier := self._failed.get(launch_id.who) or self._lost) is not None:
            raise _told_before(launch_id, earlier)
        number = max(self.told.launches, default=0) + 1
        begun = time.monotonic()
        self.note(
            Launching(number, launch_id.arm, launch_id.number, time.time(), self.target.host, launch_id.build)
        )
        try:
            running = self._start(launch_id, number)
        except NotThisArm as error:
            self.note(Failed(number, error.summary, time.monotonic() - begun))
            raise
        except (LaunchFailed, ProbeError) as error:
            self.note(Failed(number, _summary(error), time.monotonic() - begun))
            told = any(_summary(one) == _summary(error) for one in self._failed.values())
            self._failed[launch_id.who] = error
            if type(error) is LaunchFailed:
                self._lost = error  # a server that somebody else started is not there for any arm
            if told and family(error) == "infrastructure":
                raise _told_before(launch_id, error) from error
            raise
        except SupervisorLost as error:
            self.note(Failed(number, error.summary, time.monotonic() - begun))
            raise  # the next start brings another
        except (ServerError, HostError) as error:
            self.note(Failed(number, _summary(error), time.monotonic() - begun))
            self._lost = error
            raise
        self._up.add(running)
        return running

    def _start(self, launch_id: LaunchId, number: int) -> RunningArm:
        launcher = self._launchers[launch_id.build]
        if launcher not in self._entered:
            self.disk.watch()
            self._open.enter_context(launcher)
            self._entered.append(launcher)
        # logs are named by the number of their launch: those of earlier tries stay
        launcher.launches = number - 1
        side = self.sides[launch_id.build]
        arm = side.target.arm(launch_id.arm)
        begun = time.monotonic()
        self._launching = (launch_id, begun)
        if self.outlook is not None:
            self.outlook.launching(launch_id)
        self.passing(f"launching {launch_id}")
        if not self._up:
            self.gpu_monitor.before_launch()
        try:
            server = launcher.start(arm, side.target)
        finally:
            self._launching = None
        served = RunningArm(side.target, arm, launch_id, server, number, files=side.files)
        try:
            ready = time.monotonic() - begun
            self.gpu_monitor.when_ready()
            self.progress.say(f"{launch_id}: ready after {ready:.0f} s ({served.info.speculation})")
            build = {**self._installed(launch_id.build), "sglang": served.info.version}
            self.must_be_the_build(build, launch_id.build)
            box = plain_facts(self.environment.box)
            self.note(Ready(number, ready, dict(server.phases or {}), build, box))
        except BaseException:
            server.stop()
            raise
        return served

    def tell(self, kind: str, text: str) -> None:
        """Keep what bears on how far this run may be trusted: for the file, the footer and the report. From any thread."""
        self._untold.put(Note(redact.scrub(text), kind))
        if threading.current_thread() is threading.main_thread():
            self.tell_waiting()

    def tell_waiting(self) -> None:
        """Note what other threads have told meanwhile; only the main thread writes."""
        with contextlib.suppress(queue.Empty):
            while note := self._untold.get_nowait():
                self.note(note)
                self.progress.say(note.text)

    def _stop(self, launch_ids: Iterable[LaunchId]) -> None:
        with ExitStack() as stack:  # one that cannot be ended does not spare the others
            for launch_id in launch_ids:
                stack.callback(self._stop_one, launch_id)

    def _stop_one(self, launch_id: LaunchId) -> None:
        self.passing(f"ending {launch_id}")
        running = self._up.take(launch_id)
        began = time.monotonic()
        running.server.stop()
        self.note(ServerEnded(running.number, time.monotonic() - began))

    def forget(self, launch_id: LaunchId) -> None:
        """That this launch did not come up is told of it when it is measured."""
        self._failed.pop(launch_id.who, None)

    def drop_lost(self) -> None:
        """Let go of a server that is gone, so that the next one who asks gets another."""
        with contextlib.suppress(ServerError, HostError):
            self._stop(self._up)

    def abandon(self) -> None:
        """Have whatever is up ended within seconds and wait for nothing; :meth:`close` waits for it."""
        self._up.forget()
        for launcher in self._launchers.values():
            launcher.abandon()

    def close(self) -> None:
        """End whatever is up. Safe to call more than once."""
        try:
            self._stop(self._up)
        finally:
            try:
                self._open.close()
            finally:
                self.environment.close()
                self.disk.close()
                self.tell_waiting()

    def _installed(self, name: str) -> Facts:
        return plain_facts({**self.sides[name].build.subject({}), **self.environment.subject()})

    def must_be_the_builds(self) -> None:
        """Before anything is launched: all that the run began with is still there, as far as it can be seen."""
        for name in self.sides:
            self.must_be_the_build(None, name)

    def must_be_the_build(self, build: Facts | None, name: str = "") -> None:
        """All launches of one build are of that build, also when the run is taken up again another day.

        Args:
            build: as a server tells it; ``None``: what is seen before anything is launched.
            name: which of two builds.

        Raises:
            AnotherBuild: it is not the one that the run began with; the text says what differs.
        """
        ready = [told for n, told in sorted(self.told.ready.items()) if self.told.launches[n].build == name]
        before = next((told.build for told in ready), None)
        if before is None:
            return
        now = build if build is not None else {**before, **self._installed(name)}
        if changed := differing(before, now):
            told = "; ".join(f"{name}: {old} -> {new}" for name, (old, new) in changed.items())
            text = (
                f"this is not the {f'{name} ' if name else ''}build that run {self.run_id} began with: {told}. Its launches cannot be put "
                "together with others: put the build back, or begin a new run"
            )
            self.stopping.ask(text)
            raise AnotherBuild(text)


def _summary(error: Exception) -> str:
    return getattr(error, "summary", "") or str(error).split("\n", 1)[0]


def _told_before(launch_id: LaunchId, error: Exception) -> ArmUnavailable:
    summary = _summary(error)
    return ArmUnavailable(f"{launch_id.who} did not come up: {summary} (see its first failure)", summary)
