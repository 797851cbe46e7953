"""Plays the tests against a mutant: a fork of a process that has the libraries loaded, and none of the suite."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import os
import resource
import signal
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from types import ModuleType

import pytest

from proofs.mutants.making import Mutant

OWN = ("suite", "tests")


class End(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    SLOW = "killed: without end"
    SURVIVED = "survived"


class _Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant wherever its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = mutant.path.removesuffix(".py").replace("/", ".")

    def find_spec(
        self, name: str, path: object, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=self._mutant.path)

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self._mutant.source, self._mutant.path, "exec"), module.__dict__)


def load_libraries(tests: Sequence[str]) -> None:
    """Import what the tests import, and forget what is our own, so that a fork takes the mutant in its place."""
    from hypothesis import settings

    settings.register_profile("mutants", derandomize=True, deadline=None, database=None, max_examples=50)
    settings.load_profile("mutants")
    for test in tests:
        importlib.import_module(test.removesuffix(".py").replace("/", "."))
    for name in list(sys.modules):
        if name.partition(".")[0] in OWN:
            del sys.modules[name]


def begun(tests: Sequence[str], mutant: Mutant | None, cpu_s: float) -> int:
    """Start the tests in a fork that may use so many seconds of CPU; its process id."""
    child = os.fork()
    if child == 0:
        _in_fork(tests, mutant, cpu_s)
    return child


def _in_fork(tests: Sequence[str], mutant: Mutant | None, cpu_s: float) -> None:
    status = 70
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, int(cpu_s) + 5))
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        if mutant is not None:
            sys.meta_path.insert(0, _Mutated(mutant))
        options = [
            "-x",
            "-q",
            "--noconftest",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:faulthandler",
            "-W",
            "ignore",
        ]
        status = int(pytest.main([*options, "-o", "addopts=", *tests]))
    finally:
        os._exit(status)


def usual_s(tests: Sequence[str]) -> float:
    """Seconds of CPU that the tests take on the code as it is.

    Raises:
        RuntimeError: they do not pass on it.
    """
    _, ended, used = os.wait4(begun(tests, None, 600.0), 0)
    if ended != 0:
        raise RuntimeError(
            f"the tests do not pass on the code as it is (wait status {ended}): {' '.join(tests)}"
        )
    return used.ru_utime + used.ru_stime


def ends(tests: Sequence[str], mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, End]]:
    """What becomes of each mutant, as it is known; each gets ten times the CPU that its tests usually take."""
    limit_s = 10 * usual_s(tests) + 5
    waiting, running = list(reversed(mutants)), dict[int, Mutant]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            running[begun(tests, mutant, limit_s)] = mutant
        child, ended = os.wait()
        yield running.pop(child), _end(os.waitstatus_to_exitcode(ended))


def _end(status: int) -> End:
    if status == 0:
        return End.SURVIVED
    return End.SLOW if status in (-signal.SIGXCPU, -signal.SIGKILL) else End.KILLED
