"""One run of the suite on one target: the one server that is up, and what was launched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from suite.config import Sizes, Suite, Target
from suite.hosts import HostError
from suite.servers import LaunchFailed, NotThisArm, ServerError, launcher_for
from suite.servers.runtimes import Runtime, runtime_of
from suite.session.build import Build
from suite.session.outcomes import ArmUnavailable, family
from suite.session.plan import Slot
from suite.session.served import Served
from suite.session.surroundings import Surroundings
from suite.sglang.errors import ProbeError
from suite.sglang.flags import FlagChangeValue
from suite.terminal.progress import Progress


class Run:
    """Holds at most one server at a time and shares it among all items that need the same launch.

    Args:
        suite: the whole configuration.
        target: where and what to measure; ``{run}`` in a value of its environment is this run's own directory.
        budget: the budget's name, and ``sizes`` its figures after all overrides.
        extra_flags: changes to the target's flags for this run alone (``--flag``).
        results: the directory under which this run gets one of its own.
    """

    def __init__(
        self,
        suite: Suite,
        target: Target,
        budget: str,
        sizes: Sizes,
        extra_flags: Mapping[str, FlagChangeValue],
        results: Path,
        progress: Progress,
    ) -> None:
        self.suite = suite
        self.budget = budget
        self.sizes = sizes
        self.extra_flags = dict(extra_flags)
        self.progress = progress
        self.started = datetime.now(UTC)
        self.directory = _own_directory(results, f"{self.started:%Y%m%d-%H%M%S}-{target.name}")
        env = {name: value.replace("{run}", str(self.directory)) for name, value in target.env.items()}
        self.target = target.model_copy(update={"flags": {**target.flags, **extra_flags}, "env": env})
        self.launches: list[Slot] = []
        self._launcher = launcher_for(
            suite, self.target, log_dir=self.directory / "logs", say=progress.passing
        )
        self.surroundings = Surroundings(suite, self.target)
        self.build = Build(lambda: self.runtime, self.directory)
        self._open = ExitStack()
        self._entered = False
        self._served: Served | None = None
        self._failed: dict[str, Exception] = {}
        self._lost: Exception | None = None
        """Why nothing at all can be launched, once that is known."""

    @cached_property
    def runtime(self) -> Runtime:
        """How the target's own SGLang is asked.

        Raises:
            HostError: its host cannot be reached.
            ServerError: its systemd unit cannot be read.
        """
        return runtime_of(self.suite, self.target, self.surroundings.host)

    @property
    def run_id(self) -> str:
        return self.directory.name

    def served(self, slot: Slot) -> Served:
        """The server of this launch, brought up if it is not, any other taken down first.

        Raises:
            LaunchFailed: it did not come up.
            HostError, ServerError: nothing can be launched there.
            ArmUnavailable: one of these was told at an earlier try in this run.
            ServerDied: it was up and is gone; the next call brings it up again.
        """
        if self._served is not None and self._served.slot == slot:
            try:
                self._served.server.check()
            except Exception:
                self._stop()
                raise
            return self._served
        self._stop()
        if (earlier := self._failed.get(slot.arm) or self._lost) is not None:
            raise _told_before(slot, earlier)
        try:
            self._served = self._start(slot)
        except NotThisArm:
            raise
        except (LaunchFailed, ProbeError) as error:
            self.launches.append(slot)
            told = any(_summary(one) == _summary(error) for one in self._failed.values())
            self._failed[slot.arm] = error
            if type(error) is LaunchFailed:
                self._lost = error  # a server that somebody else started is not there for any arm
            if told and family(error) == "infrastructure":
                raise _told_before(slot, error) from error
            raise
        except (ServerError, HostError) as error:
            self._lost = error
            raise
        return self._served

    def _start(self, slot: Slot) -> Served:
        if not self._entered:
            self._open.enter_context(self._launcher)
            self._entered = True
        arm = self.target.arm(slot.arm)
        self.progress.passing(f"launching {slot}")
        begun = time.monotonic()
        server = self._launcher.start(arm)
        self.launches.append(slot)
        served = Served(self.target, arm, slot, server)
        try:
            ready = time.monotonic() - begun
            self.progress.say(f"{slot}: ready after {ready:.0f} s ({served.info.speculation})")
        except BaseException:
            server.stop()
            raise
        return served

    def _stop(self) -> None:
        if self._served is not None:
            self.progress.passing(f"ending {self._served.slot}")
            served, self._served = self._served, None
            served.server.stop()

    def close(self) -> None:
        """End whatever is up. Safe to call more than once."""
        try:
            self._stop()
        finally:
            self._open.close()
            self.surroundings.close()


def _summary(error: Exception) -> str:
    return getattr(error, "summary", "") or str(error).split("\n", 1)[0]


def _told_before(slot: Slot, error: Exception) -> ArmUnavailable:
    summary = _summary(error)
    return ArmUnavailable(
        f"{slot.arm} did not come up: {summary} (told in full where it was first met)", summary
    )


def _own_directory(results: Path, name: str) -> Path:
    """A new directory for one run; a number is added when two runs start in the same second."""
    for number in range(1000):
        path = results / (name if number == 0 else f"{name}-{number}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{results / name}: a thousand runs of this second are there already")
