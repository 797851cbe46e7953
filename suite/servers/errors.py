"""What can go wrong with a server, each named for what a person would do next.

ServerError
├── Locked              another run holds the target or its GPUs
├── SupervisorFailed    the suite's own process on the host did not do its part
│   └── SupervisorLost      it was killed, or broke down
├── NotThisArm          the attached server is not the arm that was asked for
├── NotSGLang           something answers there, and it is not SGLang
├── UnitUnusable        a systemd unit cannot be read as an SGLang server
├── ServerDied          was ready, and is gone
└── LaunchFailed        did not become ready
    ├── PortTaken           somebody listens there already
    ├── CannotStart         no such interpreter, module, image, directory ...
    ├── ArgumentsDropped    the start script does not hand its arguments to the server
    ├── IncompatibleFlags   this SGLang does not know a flag, or not this value
    ├── OutOfMemory         GPU memory; the text says which way to turn --mem-fraction-static
    ├── KilledByKernel      the machine ran out of main memory
    ├── WeightsMissing      the checkpoint is not there or not whole
    ├── DraftWeightsMissing the checkpoint has no (usable) MTP or draft weights
    ├── DriverError         the GPU or its driver failed: restart it, this is no regression
    ├── KernelFault         the server's own kernels broke the GPU's rules: this build is broken
    ├── ChildDied           a scheduler or worker process of the server died
    ├── NotReadyInTime      hung, or slower than its deadline
    └── ExitedEarly         ended for a reason that no rule knows
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Evidence:
    """What every failure shows. Secrets are masked already."""

    command: Sequence[str] = ()
    host: str = "local"
    log_path: str | None = None
    last_lines: Sequence[str] = ()
    phases: Mapping[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """The evidence as lines, the command first."""
        parts = []
        if self.command:
            parts.append(f"command (on {self.host}): {' '.join(map(_quoted, self.command))}")
        if self.phases:
            parts.append("phases: " + ", ".join(f"{name} {took:.1f} s" for name, took in self.phases.items()))
        if self.last_lines:
            parts.append("the server's last lines:\n" + "\n".join(f"    {line}" for line in self.last_lines))
        if self.log_path:
            parts.append(f"whole log: {self.log_path}")
        return "\n".join(parts)


def _quoted(word: str) -> str:
    """As ``shlex.quote``, but leaving the mask ``***`` readable."""
    return word if word == "***" else shlex.quote(word)


class ServerError(Exception):
    """Infrastructure, not a measurement.

    ``summary`` is the first line: what happened. ``advice`` is what to do next.
    """

    def __init__(self, summary: str, advice: str = "", evidence: Evidence | None = None) -> None:
        self.summary = summary
        self.advice = advice
        self.evidence = evidence or Evidence()
        super().__init__("\n".join(part for part in (summary, advice, self.evidence.text()) if part))


class Locked(ServerError):
    """Another run holds the target or its GPUs."""


class SupervisorFailed(ServerError):
    """The suite's own process on the host did not do its part."""


class SupervisorLost(SupervisorFailed):
    """The suite's own process on the host is gone: killed, or broken down. It can be started again."""


class NotThisArm(ServerError):
    """The attached server is not the arm that was asked for."""


class NotSGLang(ServerError):
    """Something answers there, and it is not SGLang."""


class UnitUnusable(ServerError):
    """A systemd unit cannot be read as an SGLang server."""


class ServerDied(ServerError):
    """The server was ready, and is gone."""


class LaunchFailed(ServerError):
    """The server did not become ready."""


class PortTaken(LaunchFailed):
    """Somebody listens on the port already."""


class CannotStart(LaunchFailed):
    """No such interpreter, module, image or directory."""


class ArgumentsDropped(LaunchFailed):
    """What was started runs a server, and not with the flags that it was given."""


class IncompatibleFlags(LaunchFailed):
    """This SGLang does not know a flag, or not this value of it."""


class OutOfMemory(LaunchFailed):
    """GPU memory ran out, or was not enough for the pools."""


class KilledByKernel(LaunchFailed):
    """The machine ran out of main memory and the kernel killed the server."""


class WeightsMissing(LaunchFailed):
    """The checkpoint is not there, or not whole."""


class DraftWeightsMissing(LaunchFailed):
    """The checkpoint has no usable MTP or draft weights."""


class DriverError(LaunchFailed):
    """The GPU or its driver failed."""


class KernelFault(LaunchFailed):
    """A kernel of the server's made an illegal access or the like: the program's fault, not the GPU's."""


class ChildDied(LaunchFailed):
    """A scheduler or worker process of the server died."""


class NotReadyInTime(LaunchFailed):
    """The server hung, or was slower than its deadline."""


class ExitedEarly(LaunchFailed):
    """The server ended for a reason that no rule knows."""
