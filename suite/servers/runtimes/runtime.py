"""How a target's own SGLang is asked without launching a server: its host, interpreter, flags and variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from suite import config
from suite.hosts import Host
from suite.servers.runtimes.base import LaunchRequest
from suite.servers.runtimes.systemd import SystemdWay
from suite.sglang import command
from suite.sglang.flags import Flags


@dataclass(frozen=True, slots=True)
class Runtime:
    """How to ask a target's own SGLang without launching a server.

    ``interpreter`` leads to it, behind the words of ``leading`` (``uv run``); ``None`` where nothing does. ``base`` and ``variables`` are flags and environment that
    a target has besides its own (a systemd unit's). Doctor, witnesses and the names of builds all ask this way.
    """

    target: config.Target
    host: Host
    interpreter: str | None = None
    module: str = "sglang.launch_server"
    cwd: str | None = None
    base: Flags = field(default_factory=Flags)
    variables: Mapping[str, str] = field(default_factory=dict)
    leading: tuple[str, ...] = ()

    @property
    def attached(self) -> bool:
        """Is the server somebody else's? Then nothing is launched, and its host may not be known."""
        return isinstance(self.target.launch, config.AttachLaunch)

    @property
    def simulated(self) -> bool:
        """Is the server this suite's simulator?"""
        return self.module == "simulator"

    def env(self, arm: config.Arm | None = None) -> dict[str, str]:
        """The variables that a server of ``arm`` (of any) is started with."""
        return {**self.variables, **self.target.arm_env(arm or config.Arm())}

    def flags(self, arm: config.Arm) -> Flags:
        """What SGLang would be asked in ``arm``."""
        return self.base.merge(self.target.arm_flags(arm))

    def python(self, env: Mapping[str, str]) -> list[str] | None:
        """The words that lead to an interpreter that sees ``env``; into the image, where it is one."""
        launch = self.target.launch
        if isinstance(launch, config.DockerLaunch):
            return in_container(launch, env)
        return [*self.leading, self.interpreter] if self.interpreter else None

    def path(self, text: str) -> str:
        """A file of ``suite.toml`` as the host needs it: relative to the server's working directory."""
        return str(PurePosixPath(self.cwd or ".") / text)

    def command(self, text: str) -> str:
        """A command of ``suite.toml`` as the host needs it: a bare name is looked for along PATH."""
        return self.path(text) if "/" in text else text


def runtime_of(suite: config.Suite, target: config.Target, host: Host) -> Runtime:
    """How the SGLang of ``target`` is asked.

    Raises:
        UnitUnusable: its systemd unit cannot be read, or does not run SGLang in plain sight.
    """
    launch, directory = target.launch, suite.path.resolve().parent
    here = str(directory) if host.is_local else None
    if isinstance(launch, config.ProcessLaunch):
        cwd = str(directory / (launch.cwd or ".")) if host.is_local else launch.cwd
        *leading, python = _python_of(launch) or (None,)
        module = "simulator" if launch.is_simulator else launch.module
        return Runtime(target, host, python, module, cwd, leading=tuple(leading))
    if isinstance(launch, config.DockerLaunch):
        return Runtime(target, host, launch.python, launch.module)
    if isinstance(launch, config.SystemdLaunch):
        return _of_unit(SystemdWay(launch, target, host), target, host)
    return Runtime(target, host, cwd=here)


def _python_of(launch: config.ProcessLaunch) -> tuple[str, ...] | None:
    """The words that lead to the interpreter of a process: as the table says, or as its command shows."""
    if launch.interpreter is not None:
        return (launch.interpreter,)
    try:
        return command.find([*launch.words, "--model-path", "none"]).python
    except command.NotUnderstood:
        return None


def _of_unit(way: SystemdWay, target: config.Target, host: Host) -> Runtime:
    """The interpreter and the variables of a unit, read off the command that would run a copy of it."""
    plan = way.plan(LaunchRequest(Flags(), {}, "doctor", target.name, ""))
    words = plan.stages[-1]
    given = [word.removeprefix("--setenv=").partition("=") for word in words if word.startswith("--setenv=")]
    variables = {name: value for name, equals, value in given if equals} | dict(plan.env)
    python = way.command.python
    return Runtime(
        target=target,
        host=host,
        interpreter=python[-1] if python else None,
        leading=python[:-1] if python else (),
        variables=variables,
        base=way.base,
    )


def in_container(launch: config.DockerLaunch, env: Mapping[str, str]) -> list[str]:
    """The words that run an image's Python on a script from standard input, without GPUs and without network.

    The engine takes the values of ``env`` from its own environment: on its command line all could read them.
    """
    words = [launch.engine, "run", "--rm", "--interactive", "--network", "none"]
    words += [word for mount in launch.mounts for word in ("--volume", mount)]
    words += _mounted(launch.options)
    words += [word for name in env for word in ("--env", name)]
    return [*words, "--entrypoint", launch.python, launch.image]


_MOUNTING = frozenset({"-v", "--volume", "--mount", "-e", "--env", "--env-file"})


def _mounted(options: Sequence[str]) -> list[str]:
    """Of an engine's options those that change which files and variables are inside: a file mounted over is another build."""
    words: list[str] = []
    for place, option in enumerate(options):
        if option in _MOUNTING:
            words += options[place : place + 2]
        elif option.partition("=")[0] in _MOUNTING and "=" in option:
            words.append(option)
    return words
