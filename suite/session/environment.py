"""What stands around the servers of a run: its host and the GPUs there."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from suite.config import AttachLaunch, Suite, Target
from suite.hosts import Host, HostError, names, open_host
from suite.probes import at_hand, gpus
from suite.probes.gpus import place


class HostEnvironment:
    """Looks at the target's host beside the server; what cannot be seen is left out and noted, never guessed."""

    def __init__(self, suite: Suite, target: Target) -> None:
        self._suite = suite
        self.target = target
        self._host: Host | None = None
        self.notes: list[str] = []

    @property
    def _here(self) -> str | None:
        return str(self._suite.path.resolve().parent) if self.target.host == "local" else None

    @property
    def host(self) -> Host:
        """The host of the target's first node, opened when first needed."""
        if self._host is None:
            self._host = open_host(self._suite.host(self.target.host))
            self._host.__enter__()
        return self._host

    def command(self, command: str) -> str:
        """A command of ``suite.toml``; a relative path there is beside that file."""
        relative = self._here is not None and "/" in command and not command.startswith("/")
        return os.path.join(self._here or "", command) if relative else command

    @property
    def nvidia_smi(self) -> str:
        """The command that the cards are asked by."""
        return self.command(self.target.nvidia_smi)

    @cached_property
    def _visible(self) -> bool:
        """Is the server's host known? That of a running server, given by its URL alone, may be another."""
        launch = self.target.launch
        if not isinstance(launch, AttachLaunch) or self.target.host != "local":
            return True
        return at_hand.is_at_hand(self.host, launch.url)

    @cached_property
    def cards(self) -> gpus.Gpus | None:
        """The GPUs of the host, or ``None`` where there are none to be seen."""
        if not self._visible or self.target.gpus == 0:
            return None
        try:
            found = gpus.read(self.host, self.nvidia_smi, env=self.target.env)
        except HostError as error:
            self.note(f"GPUs not seen: {error}")
            return None
        if isinstance(found, gpus.NoGpus):
            self.note(f"GPUs not seen ({found.why}): {found.message}")
            return None
        return found

    def identity(self) -> dict[str, Any]:
        """The machine, as far as results depend on it: its cards, and which box it is where baselines are by host."""
        cards = self.cards.identity() if self.cards else {}
        if self.target.baselines == "kind":
            return cards
        own = place.identity(self.cards) if self.cards else {}
        return {**cards, "host": self.name, **own}

    @property
    def name(self) -> str:
        """What the server's host is called: by ``suite.toml``, else by itself or by the address of a running server."""
        if self.target.host != "local":
            return self.target.host
        launch = self.target.launch
        where = urlsplit(launch.url).hostname if isinstance(launch, AttachLaunch) else None
        return where if where and where not in names.LOOPBACK else names.here()

    @cached_property
    def box(self) -> dict[str, Any]:
        """What this box is, to be held beside others of its kind: cards, slots, links and limits."""
        if self.cards is None:
            return {"host": self.name}
        found = place.facts(self.host, self.cards, self.nvidia_smi, self.target.env)
        return {"host": self.name, **found}

    def subject(self) -> dict[str, Any]:
        """Driver and power limit."""
        return self.cards.subject() if self.cards else {}

    def close(self) -> None:
        """Let go of the host."""
        if self._host is not None:
            self._host.__exit__(None, None, None)
            self._host = None

    def note(self, sentence: str) -> None:
        """Say once what could not be seen."""
        if sentence not in self.notes:
            self.notes.append(sentence)
