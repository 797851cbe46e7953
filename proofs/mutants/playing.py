"""Plays the tests against mutants: pytest collects once, and each mutant is a fork that ends at the first test that fails."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import FrameType
from typing import Any, TypeAlias

import pytest

from proofs.mutants.making import Mutant
from proofs.mutants.patching import Mutated, Original, forget, function_of

PATIENCE = 3
"""Times the CPU that the tests usually take, and some seconds: what a mutant may use before it counts as without end."""
BY_THE_CLOCK_S = 1800
"""What waits for nothing and uses no CPU ends after this."""
OPTIONS = (
    *("-x", "-s", "--noconftest", "-o", "addopts=", "-W", "ignore"),
    *("-p", "no:cacheprovider", "-p", "no:faulthandler", "-p", "no:terminal"),
)
Told: TypeAlias = Mapping[str, Any]


class End(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SLOW = "killed: without end"
    SURVIVED = "survived"


Tell: TypeAlias = Callable[[Mutant, End, str], None]


def play(tests: Sequence[str], mutants: Sequence[Mutant], jobs: int, tell: Tell) -> None:
    """Tell what becomes of each mutant, and which test killed it.

    Raises:
        RuntimeError: the tests do not pass on the code as it is.
    """
    from hypothesis import settings

    settings.register_profile("mutants", derandomize=True, deadline=None, database=None, max_examples=50)
    settings.load_profile("mutants")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    paths = sorted({mutant.path for mutant in mutants})
    forget()
    with tempfile.TemporaryDirectory() as folder, _Calls(paths) as calls:
        played = _Played(tests, mutants, jobs, tell, folder, calls.seen)
        status = pytest.main([*OPTIONS, f"--basetemp={folder}/parent", *tests], plugins=[played])
    if played.trouble or status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(played.trouble or f"the tests cannot be collected: {' '.join(tests)}")


class _Calls:
    """Which functions of some files are called while it is entered, as ``path:function``."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths = {os.path.abspath(path): path for path in paths}
        self.seen: set[str] = set()

    def __enter__(self) -> _Calls:
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _called(self, frame: FrameType, event: str, _: object) -> None:
        path = self._paths.get(frame.f_code.co_filename)
        if path is not None:
            self.seen.add(f"{path}:{function_of(frame.f_code)}")


@dataclass(slots=True)
class _Known:
    """Of each test: how long it takes, what it calls, and how many mutants it has killed."""

    seconds: dict[str, float] = field(default_factory=dict)
    calls: dict[str, set[str]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)
    cpu_s: float = 600.0

    def chosen(self, items: Sequence[pytest.Item], touched: set[str]) -> list[pytest.Item]:
        """The tests that call what is touched: first what has killed most, then the quickest."""
        able = [i for i in items if not touched or self.calls.get(i.nodeid, set()) & touched]
        return sorted(able, key=lambda i: (-self.kills[i.nodeid], self.seconds.get(i.nodeid, 0.0)))


@dataclass(frozen=True, slots=True)
class _Fork:
    """A fork at work, and where it will say what it found."""

    child: int
    answer: int
    mutant: Mutant | None = None

    def told(self) -> Told:
        """What it said before it ended; nothing where it was killed."""
        with os.fdopen(self.answer, "rb") as stream:
            return dict(json.loads(stream.read() or b"{}"))


class _Ordered:
    """Of tests collected anew: the ones that kill most first. Knows which one failed."""

    def __init__(self, known: _Known) -> None:
        self._known = known
        self.failed = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = self._known.chosen(items, set())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed = report.nodeid


class _Played:
    """The plugin that plays mutants where pytest would run its tests."""

    def __init__(
        self,
        tests: Sequence[str],
        mutants: Sequence[Mutant],
        jobs: int,
        tell: Tell,
        folder: str,
        imported: set[str],
    ) -> None:
        self._tests, self._mutants, self._jobs, self._tell = tests, mutants, jobs, tell
        self._folder, self._imported = folder, imported
        self._known = _Known()
        self._originals: dict[str, Original] = {}
        self._failed = ""
        self.trouble = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        sys.settrace(None)
        if session.testsfailed:
            raise session.Interrupted("the tests cannot be collected")
        self._originals = {path: Original(path) for path in {m.path for m in self._mutants}}
        if self._usual(session):
            self._all(session)
        return True

    def _usual(self, session: pytest.Session) -> bool:
        """Learn what each test takes and calls on the code as it is; whether all of them pass."""
        fork = self._begun(lambda: self._looked_at(session))
        told = fork.told()
        _, ended, used = os.wait4(fork.child, 0)
        if ended != 0 or told.get("failed"):
            self.trouble = f"a test fails on the code as it is: {told.get('failed') or self._tests}"
            return False
        self._known.seconds = dict(told["seconds"])
        self._known.calls = {name: set(calls) for name, calls in told["calls"].items()}
        self._known.cpu_s = PATIENCE * (used.ru_utime + used.ru_stime) + 5
        return True

    def _looked_at(self, session: pytest.Session) -> Told:
        seconds, calls = {}, {}
        for item in session.items:
            begun = time.process_time()
            with _Calls(list(self._originals)) as seen:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            seconds[item.nodeid], calls[item.nodeid] = time.process_time() - begun, sorted(seen.seen)
        return {"failed": self._failed, "seconds": seconds, "calls": calls}

    def _all(self, session: pytest.Session) -> None:
        waiting, running = list(reversed(self._mutants)), dict[int, _Fork]()
        while waiting or running:
            while waiting and len(running) < self._jobs:
                fork = self._fork_of(waiting.pop(), session)
                running[fork.child] = fork
            child, ended = os.wait()
            fork = running.pop(child)
            failed = str(fork.told().get("failed", ""))
            self._known.kills[failed] += 1
            assert fork.mutant is not None
            self._tell(fork.mutant, _end(os.waitstatus_to_exitcode(ended)), failed)

    def _fork_of(self, mutant: Mutant, session: pytest.Session) -> _Fork:
        return self._begun(lambda: {"failed": self._killer(mutant, session)}, mutant)

    def _killer(self, mutant: Mutant, session: pytest.Session) -> str:
        """The test that kills it; none if it survives."""
        original = self._originals[mutant.path]
        touched = {f"{mutant.path}:{name}" for name in original.touched(mutant)}
        imported = f"{mutant.path}:<module>" in touched or bool(touched & self._imported)
        if original.put(mutant):
            items = self._known.chosen(session.items, set() if imported else touched)
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if self._failed:
                    return self._failed
            if not imported:
                return ""
        return self._killer_of_new(mutant)

    def _killer_of_new(self, mutant: Mutant) -> str:
        """The same with everything imported again, for what has its effect on import."""
        forget()
        sys.meta_path.insert(0, Mutated(mutant))
        ordered = _Ordered(self._known)
        folder = f"--basetemp={self._folder}/{os.getpid()}"
        status = pytest.main([*OPTIONS, folder, *self._tests], plugins=[ordered])
        return "" if status == pytest.ExitCode.OK else ordered.failed or "import"

    def _begun(self, work: Callable[[], Told], mutant: Mutant | None = None) -> _Fork:
        """A fork that may use so many seconds of CPU; by the clock a busy machine may take long over them."""
        sys.stdout.flush()
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            cpu_s = int(self._known.cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s + 1, cpu_s + 5))
            signal.alarm(BY_THE_CLOCK_S)
            _in_fork(work, writing)
        os.close(writing)
        return _Fork(child, reading, mutant)


def _in_fork(work: Callable[[], Told], answer: int) -> None:
    """Do the work and say what it found; status 0 if no test failed."""
    status = 70
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        told = work()
        os.write(answer, json.dumps(told).encode())
        status = 1 if told["failed"] else 0
    finally:
        os._exit(status)


def _end(status: int) -> End:
    if status == 0:
        return End.SURVIVED
    return End.SLOW if status in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGALRM) else End.KILLED
