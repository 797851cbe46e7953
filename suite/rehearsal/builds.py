"""Which SGLang is rehearsed: a release, an interpreter of this machine, or the target's own on its host."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from suite import config
from suite.builds import environments
from suite.builds.spec import is_release
from suite.hosts import LocalHost, open_host
from suite.rehearsal.errors import RehearsalError
from suite.servers.runtimes import Runtime, runtime_of


@dataclass(frozen=True, slots=True)
class RehearsedBuild:
    """An SGLang and the way to ask it. ``ours``: its environment is this suite's own, and may keep bytecode."""

    name: str
    runtime: Runtime
    ours: bool = False


@contextmanager
def opened(
    suite: config.Suite, target: config.Target, named: Sequence[str], say: environments.Say
) -> Iterator[list[RehearsedBuild]]:
    """The builds that a command line names, in its order; the target's own where it names none.

    Raises:
        BuildError: a release cannot be installed.
        RehearsalError: there is no such interpreter, or the target has no SGLang of its own.
        HostError: the target's host cannot be reached.
        ServerError: its unit or image cannot be looked into.
    """
    with ExitStack() as stack:
        if named:
            yield [_named(suite, target, text, say) for text in named]
            return
        host = stack.enter_context(open_host(suite.host(target.host)))
        runtime = runtime_of(suite, target, host)
        if runtime.attached or runtime.simulated or runtime.python({}) is None:
            raise RehearsalError(
                f"target {target.name} launches no SGLang of its own that could be rehearsed; "
                "name one: --build 0.5.23, or --build PYTHON"
            )
        yield [RehearsedBuild(f"the one of {host.name}", runtime)]


def _named(suite: config.Suite, target: config.Target, text: str, say: environments.Say) -> RehearsedBuild:
    if is_release(text):
        return RehearsedBuild(
            text.removeprefix("sglang=="),
            _here(suite, target, environments.interpreter(text, say)),
            ours=True,
        )
    python = shutil.which(os.path.expanduser(text))
    if python is None:
        raise RehearsalError(
            f"--build {text}: neither a release of SGLang (0.5.23) nor an interpreter that can be run here"
        )
    return RehearsedBuild(text, _here(suite, target, os.path.abspath(python)))


def _here(suite: config.Suite, target: config.Target, python: str) -> Runtime:
    """An interpreter of this machine asked with the target's flags and variables."""
    launch = config.ProcessLaunch(python=python)
    local = target.model_copy(update={"launch": launch, "host": "local", "nodes": []})
    return Runtime(local, LocalHost(), python, launch.module, str(suite.path.resolve().parent))
