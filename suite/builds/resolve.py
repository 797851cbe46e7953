"""From a build's table to something that can be launched: environments are made, checkouts taken, nightlies looked up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from suite import config
from suite.builds import checkouts, environments, spec
from suite.builds.build import Build
from suite.builds.errors import BuildError
from suite.sglang.flags import FlagChangeValue

KNOWN_GOOD = "known-good"
Say: TypeAlias = Callable[[str], None]


def resolve(
    text: str,
    suite: config.Suite,
    target: config.Target,
    say: Say,
    known_good: Callable[[], config.BuildTable] | None = None,
) -> Build:
    """The build that ``text`` names, ready to be launched on ``target``; what is missing is installed, once.

    Args:
        text: see :data:`suite.builds.spec.FORMS`.
        say: takes what goes on, in sentences.
        known_good: gives the table of the last build that passed; needed where ``text`` may be ``known-good``.

    Raises:
        BuildError: there is no such build, or it cannot be had on this target.
    """
    directory = suite.path.resolve().parent
    if text == KNOWN_GOOD and KNOWN_GOOD not in target.builds:
        if known_good is None:
            raise BuildError(f"{KNOWN_GOOD} cannot be used here; name a build")
        table = known_good()
    else:
        table = spec.read(text, target, directory)
    if target.launch.kind == "attach":
        raise BuildError(f"target {target.name} measures a running server: no build of it can be launched")
    return _made(table, target, directory, say)


def _made(table: config.BuildTable, target: config.Target, directory: Path, say: Say) -> Build:
    if table.image is not None:
        return Build(table.name, _container(table.image, target), table.flags, table.env)
    version = table.version or (environments.nightly(table.nightly) if table.nightly else None)
    if version is not None and (as_version := _of_the_target(version, table, target, directory)):
        return as_version
    if table.python is None and version is None and table.checkout is None:
        _no_other_packages(table, target)
        return Build(table.name, None, table.flags, table.env)
    python, lock = _interpreter(table, version, target, directory, say)
    return Build(table.name, _process(python, target), table.flags, table.env, lock, version or "")


def _interpreter(
    table: config.BuildTable, version: str | None, target: config.Target, directory: Path, say: Say
) -> tuple[str, tuple[str, ...]]:
    """An interpreter that has the build, and what is installed beside it."""
    if table.python is not None:
        _no_other_packages(table, target)
        return _there(table.python, target, directory), ()
    if target.host != "local":
        raise BuildError(
            f"build {table.name}: environments are made on this machine only, and target {target.name} is on "
            f"{target.host}; install it there and name its interpreter, or name an image"
        )
    if version is not None:
        made = environments.whole(version, table.packages, say)
    else:
        assert table.checkout is not None
        tree = checkouts.taken(Path(table.checkout), table.commit or "HEAD", say)
        made = environments.whole_of(tree, table.packages, say)
    return made.python, made.lock


def _no_other_packages(table: config.BuildTable, target: config.Target) -> None:
    if table.packages:
        raise BuildError(
            f"build {table.name}: packages are exchanged only in an environment of this suite's making: give it a "
            f"version, nightly or checkout (on target {target.name} it runs in an environment made elsewhere)"
        )


def _there(python: str, target: config.Target, directory: Path) -> str:
    if target.host != "local":
        return python  # its host is asked before the first launch
    path = os.path.abspath(directory / os.path.expanduser(python))
    inside = os.path.join(path, "bin", "python")
    path = inside if os.path.exists(inside) else path
    if not os.access(path, os.X_OK) or os.path.isdir(path):
        raise BuildError(f"{python}: neither an interpreter that can be run here nor a virtual environment")
    return path


def _of_the_target(
    version: str, table: config.BuildTable, target: config.Target, directory: Path
) -> Build | None:
    """A version as the target has it: where its interpreter is, or what else makes it; ``None``: it has none."""
    known = target.versions
    if known is None or table.packages:
        return None
    filled = {name: _filled(value, version) for name, value in known.flags.items()}
    flags, env = {**filled, **table.flags}, {**known.env, **table.env}
    if known.image is not None:
        image = known.image.replace("{version}", version)
        return Build(table.name, _container(image, target), flags, env, version=version)
    if known.python is None:
        return Build(table.name, None, flags, env, version=version)
    python = known.python.replace("{version}", version)
    if target.host == "local" and not os.path.exists(directory / python):
        return None
    launch = _process(_there(python, target, directory), target)
    return Build(table.name, launch, flags, env, version=version)


def _filled(value: FlagChangeValue, version: str) -> FlagChangeValue:
    return value.replace("{version}", version) if isinstance(value, str) else value


def _process(python: str, target: config.Target) -> config.ProcessLaunch:
    launch = target.launch
    if isinstance(launch, config.ProcessLaunch):
        return launch.model_copy(update={"python": python})
    if isinstance(launch, config.SystemdLaunch):
        raise BuildError(
            f"target {target.name} runs a systemd unit, whose SGLang is the unit's own; compare builds on a target "
            'of the same host that launches a process (kind = "process")'
        )
    return config.ProcessLaunch(python=python)


def _container(image: str, target: config.Target) -> config.DockerLaunch:
    launch = target.launch
    if isinstance(launch, config.DockerLaunch):
        return launch.model_copy(update={"image": image})
    model = target.model
    mounts = [f"{model}:{model}:ro"] if os.path.isabs(model) else []
    return config.DockerLaunch(kind="docker", image=image, mounts=mounts)
