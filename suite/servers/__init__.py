"""Bring an arm up and take it down, wholly: as a process, a container, a systemd unit, or by attaching to one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from suite import config
from suite.servers.attach import AttachLauncher
from suite.servers.errors import (
    ArgumentsDropped,
    CannotStart,
    ChildDied,
    DraftWeightsMissing,
    DriverError,
    ExitedEarly,
    IncompatibleFlags,
    KernelFault,
    KilledByKernel,
    LaunchFailed,
    Locked,
    NotReadyInTime,
    NotSGLang,
    NotThisArm,
    OutOfMemory,
    PortTaken,
    ServerDied,
    ServerError,
    SupervisorFailed,
    SupervisorLost,
    UnitUnusable,
)
from suite.servers.launcher import Launcher
from suite.servers.phases import PHASES
from suite.servers.server import Server
from suite.servers.supervisor_client import Tell, end_all_at_once


def launcher_for(
    suite: config.Suite,
    target: config.Target,
    log_dir: Path,
    say: Callable[[str], None] = lambda line: None,
    *,
    tell: Tell | None = None,
    wait_s: float = 0.0,
    locked: bool = True,
) -> Launcher | AttachLauncher:
    """What launches ``target``'s arms. ``wait_s`` is how long to wait for another run's lock.

    Not ``locked``, it takes no lock: another launcher of this run holds them.

    ``say`` takes what goes on, in passing; ``tell`` a kind and a sentence of what bears on how far a run may be
    trusted and must not be lost (without it, ``say`` takes the sentence).

    Raises :class:`~suite.config.ConfigError` for a time limit on a phase that there is not. Entering it raises :class:`Locked` when another run holds the target or its GPUs, and
    :class:`~suite.hosts.HostError` when a host cannot be worked with.
    """

    for phase in target.timeouts.phase_s:
        if phase not in PHASES:
            raise config.ConfigError(
                f"{suite.path}: [targets.{target.name}.timeouts.phase_s] unknown phase {phase!r}; "
                f"there are: {', '.join(PHASES)}"
            )
    told = tell or (lambda kind, text: say(text))
    if isinstance(target.launch, config.AttachLaunch):
        return AttachLauncher(suite, target, target.launch, log_dir, say, told, wait_s)
    return Launcher(suite, target, log_dir, say, told, wait_s, locked=locked)
