"""What stands around the servers of a run: its host and GPUs, and how the GPUs fared while a server was measured."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from suite.config import Suite, Target
from suite.gate import Invalid
from suite.gate.invalid import of_launch
from suite.hosts import Host, HostError, open_host
from suite.probes import gpus

SAMPLE_EVERY_S = 1.0
SIMULATION_VARIABLE = "SGLANG_SIMULATE_ACC_LEN"


@dataclass(slots=True)
class Watched:
    """What was seen of the GPUs while something was measured."""

    samples: list[tuple[gpus.Gpu, ...]] = field(default_factory=list)
    outcome: gpus.NoGpus | None = None

    def record(self) -> dict[str, Any]:
        """As the gate's rules read it."""
        rows = [{**asdict(gpu), "gpu": gpu.index} for sample in self.samples for gpu in sample]
        lost = [self.outcome.message] if self.outcome is not None and self.outcome.why == "lost" else []
        return {"gpu_samples": rows, "lost": lost}


class Surroundings:
    """Looks at the target's host beside the server; what cannot be seen is left out and noted, never guessed."""

    def __init__(self, suite: Suite, target: Target) -> None:
        self._suite = suite
        self._target = target
        self._host: Host | None = None
        self.notes: list[str] = []

    @property
    def _here(self) -> str | None:
        return str(self._suite.path.resolve().parent) if self._target.host == "local" else None

    @property
    def host(self) -> Host:
        """The host of the target's first node, opened when first needed."""
        if self._host is None:
            self._host = open_host(self._suite.host(self._target.host))
            self._host.__enter__()
        return self._host

    @property
    def _nvidia_smi(self) -> str:
        command = self._target.nvidia_smi
        relative = self._here is not None and "/" in command and not command.startswith("/")
        return os.path.join(self._here or "", command) if relative else command

    @property
    def _visible(self) -> bool:
        """Is the server's host known? That of a running server, given by its URL alone, is not."""
        return self._target.launch.kind != "attach" or self._target.host != "local"

    @cached_property
    def cards(self) -> gpus.Gpus | None:
        """The GPUs of the host, or ``None`` where there are none to be seen."""
        if not self._visible or self._target.gpus == 0:
            return None
        try:
            found = gpus.read(self.host, self._nvidia_smi, env=self._target.env)
        except HostError as error:
            self.notes.append(f"GPUs not seen: {error}")
            return None
        if isinstance(found, gpus.NoGpus):
            self.notes.append(f"GPUs not seen ({found.why}): {found.message}")
            return None
        return found

    def identity(self) -> dict[str, Any]:
        """The machine, as far as results depend on it: its cards."""
        return self.cards.identity() if self.cards else {}

    def subject(self) -> dict[str, Any]:
        """Driver and power limit."""
        return self.cards.subject() if self.cards else {}

    @contextmanager
    def watching(self) -> Iterator[Watched]:
        """Sample the GPUs while the body runs."""
        watched = Watched()
        if self.cards is None:
            yield watched
            return
        sampler = gpus.Sampler(self.host, SAMPLE_EVERY_S, self._nvidia_smi, env=self._target.env)
        sampler.start()
        try:
            yield watched
        finally:
            watched.samples = sampler.stop()
            watched.outcome = sampler.outcome

    def invalid(self, watched: Watched, env: dict[str, str]) -> list[Invalid]:
        """Why what was measured meanwhile is not to be judged: slowed cards, a lost one, forced acceptance.

        Args:
            watched: what :meth:`watching` saw.
            env: the variables that the arm sets for the server.
        """
        forced = {**(os.environ if self._target.host == "local" else {}), **env}
        return of_launch(
            {
                **watched.record(),
                "environment": forced,
                "simulation_intended": SIMULATION_VARIABLE in env,
            }
        )

    def close(self) -> None:
        """Let go of the host."""
        if self._host is not None:
            self._host.__exit__(None, None, None)
            self._host = None
