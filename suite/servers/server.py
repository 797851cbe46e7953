"""A server that is up: where it answers, how it was started, what it printed, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from suite.redact import Secret
from suite.sglang.flags import Flags


@dataclass(frozen=True, slots=True)
class Ended:
    """How a server ended: ``how`` in words, ``stray`` the processes that had to be killed one by one."""

    seconds: float
    how: str
    stray: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Server:
    """One launch of one arm, ready to answer.

    ``base_url`` is on this machine, possibly the near end of a tunnel. ``command`` and ``env`` are for
    people: secrets are ``***``. ``flags`` is what was asked for, which the probes compare with what is true.
    ``ready_s`` and ``phases`` are seconds; both are empty for a server that somebody else started, and so are
    ``command``, ``pid`` and ``log_path``.
    """

    arm: str
    base_url: str
    host: str
    flags: Flags
    env: Mapping[str, str]
    command: tuple[str, ...] = ()
    api_key: Secret | None = None
    admin_api_key: Secret | None = None
    pid: int | None = None
    log_path: Path | None = None
    ready_s: float | None = None
    phases: Mapping[str, float] | None = None
    _tail: Callable[[int], list[str]] = lambda n: []
    _check: Callable[[], None] = lambda: None
    _stop: Callable[[], Ended] = lambda: Ended(0.0, "not ours to end")

    def log_tail(self, n: int = 20) -> list[str]:
        """The last ``n`` lines of its log, secrets masked."""
        return self._tail(n)

    def check(self) -> None:
        """Is it still there? Costs no request.

        Raises:
            ServerDied: it is not; the text says why as far as log, exit code and kernel tell.
            HostError: its host cannot be reached any more.
        """
        self._check()

    def stop(self) -> Ended:
        """End it wholly, and wait until its port and GPU memory are free. Again is harmless.

        Raises:
            ServerError: something of it could not be ended, or its port stayed taken.
            HostError: its host cannot be reached any more.
        """
        return self._stop()
