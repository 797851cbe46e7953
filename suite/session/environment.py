"""What stands around the servers of a run: its host and GPUs, and how the GPUs fared while a server was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from suite import xids
from suite.config import AttachLaunch, Suite, Target
from suite.gate import Invalid
from suite.gate.invalid import clocks, of_launch
from suite.hosts import Host, HostError, names, open_host
from suite.probes import at_hand, gpus
from suite.probes.gpus import place
from suite.servers import DriverError
from suite.session.outcomes import BrokenPromise
from suite.xids import Xid

SAMPLE_EVERY_S = 1.0
SIMULATION_VARIABLE = "SGLANG_SIMULATE_ACC_LEN"


@dataclass(slots=True)
class Watched:
    """What was seen of the GPUs while something was measured.

    ``xids`` are those since its server was launched; ``powers_w`` gives, so far, the power of the server's cards together by
    ``time.monotonic``.
    """

    samples: list[tuple[gpus.Gpu, ...]] = field(default_factory=list)
    processes: tuple[gpus.Process, ...] = ()
    xids: list[Xid] = field(default_factory=list)
    outcome: gpus.NoGpus | None = None
    powers_w: Callable[[], list[tuple[float, float]]] = list

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The samples as the gate's rules read them."""
        return [{**asdict(gpu), "gpu": gpu.index} for sample in self.samples for gpu in sample]

    def record(self) -> dict[str, Any]:
        """All as the gate's rules read it."""
        faults = [fault for sample in self.samples for fault in gpus.card_faults(sample)]
        lost = [self.outcome.message] if self.outcome is not None and self.outcome.why == "lost" else []
        lost += [str(fault) for fault in faults if fault.broken]
        return {
            "gpu_samples": self.rows,
            "gpu_processes": [asdict(process) for process in self.processes],
            "xids": [str(xid) for xid in self.xids if xid.meaning.whose != "program"],
            "lost": list(dict.fromkeys(lost)),
            "silent": list(dict.fromkeys(str(fault) for fault in faults if not fault.broken)),
        }

    @property
    def clocks(self) -> dict[str, float]:
        """The clock of the slowest busy card, for later runs to be compared with."""
        return clocks(self.rows)


@dataclass(slots=True)
class _Launch:
    """What was there before a launch, and which of the processes on the cards are its own."""

    log: list[str] = field(default_factory=list)
    before: frozenset[int] = frozenset()
    own: frozenset[int] = frozenset()
    cards: tuple[str, ...] = ()
    """PCI addresses of the cards that its processes compute on; empty where none was seen."""


class HostEnvironment:
    """Looks at the target's host beside the server; what cannot be seen is left out and noted, never guessed."""

    def __init__(self, suite: Suite, target: Target) -> None:
        self._suite = suite
        self._target = target
        self._host: Host | None = None
        self._launch = _Launch()
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

    def _command(self, command: str) -> str:
        relative = self._here is not None and "/" in command and not command.startswith("/")
        return os.path.join(self._here or "", command) if relative else command

    @property
    def _nvidia_smi(self) -> str:
        return self._command(self._target.nvidia_smi)

    @cached_property
    def _visible(self) -> bool:
        """Is the server's host known? That of a running server, given by its URL alone, may be another."""
        launch = self._target.launch
        if not isinstance(launch, AttachLaunch) or self._target.host != "local":
            return True
        return at_hand.is_at_hand(self.host, launch.url)

    @cached_property
    def cards(self) -> gpus.Gpus | None:
        """The GPUs of the host, or ``None`` where there are none to be seen."""
        if not self._visible or self._target.gpus == 0:
            return None
        try:
            found = gpus.read(self.host, self._nvidia_smi, env=self._target.env)
        except HostError as error:
            self._note(f"GPUs not seen: {error}")
            return None
        if isinstance(found, gpus.NoGpus):
            self._note(f"GPUs not seen ({found.why}): {found.message}")
            return None
        return found

    def identity(self) -> dict[str, Any]:
        """The machine, as far as results depend on it: its cards, and which box it is where baselines are by host."""
        cards = self.cards.identity() if self.cards else {}
        if self._target.baselines == "kind":
            return cards
        own = place.identity(self.cards) if self.cards else {}
        return {**cards, "host": self.name, **own}

    @property
    def name(self) -> str:
        """What the server's host is called: by ``suite.toml``, else by itself or by the address of a running server."""
        if self._target.host != "local":
            return self._target.host
        launch = self._target.launch
        where = urlsplit(launch.url).hostname if isinstance(launch, AttachLaunch) else None
        return where if where and where not in names.LOOPBACK else names.here()

    @cached_property
    def box(self) -> dict[str, Any]:
        """What this box is, to be held beside others of its kind: cards, slots, links and limits."""
        if self.cards is None:
            return {"host": self.name}
        found = place.facts(self.host, self.cards, self._nvidia_smi, self._target.env)
        return {"host": self.name, **found}

    def subject(self) -> dict[str, Any]:
        """Driver and power limit."""
        return self.cards.subject() if self.cards else {}

    def before_launch(self) -> None:
        """Note what the kernel has said and who computes on the cards: both are not the server's that comes now."""
        if self.cards is None:
            return
        attached = self._target.launch.kind == "attach"  # its server is there already
        before = () if attached else self._computing()
        self._launch = _Launch(self._xid_lines(), frozenset(process.pid for process in before))

    def when_ready(self) -> None:
        """Note which processes on the cards the server brought."""
        if self.cards is None:
            return
        own = [process for process in self._computing() if process.pid not in self._launch.before]
        used = {process.uuid for process in own}
        self._launch.own = frozenset(process.pid for process in own)
        self._launch.cards = tuple(gpu.bus for gpu in self.cards.gpus if gpu.uuid in used)

    def own_cards(self) -> tuple[str, ...]:
        """PCI addresses of the cards that this run's server uses: by its processes, else by what it may see."""
        if self._launch.cards or self.cards is None:
            return self._launch.cards
        visible = self._target.env.get("CUDA_VISIBLE_DEVICES", "")
        named = {part.strip() for part in visible.split(",") if part.strip()}
        return tuple(
            gpu.bus for gpu in self.cards.gpus if not named or str(gpu.index) in named or gpu.uuid in named
        )

    @contextmanager
    def watching(self) -> Iterator[Watched]:
        """Sample the GPUs while the body runs."""
        watched = Watched()
        if self.cards is None:
            yield watched
            return
        sampler = gpus.Sampler(self.host, SAMPLE_EVERY_S, self._nvidia_smi, env=self._target.env)
        own = frozenset(self.own_cards())
        watched.powers_w = lambda: sampler.powers_w(own)
        sampler.start()
        try:
            yield watched
        finally:
            watched.samples = sampler.stop()
            watched.outcome = sampler.outcome
            watched.processes = tuple(sampler.processes.values())
            watched.xids = self._xids()

    def invalid(self, watched: Watched, env: Mapping[str, str]) -> list[Invalid]:
        """Why what was measured meanwhile is not to be judged: slowed cards, a lost one, company, forced acceptance.

        Args:
            watched: what :meth:`watching` saw.
            env: the variables that the arm sets for the server.
        """
        forced = {**(os.environ if self._target.host == "local" else {}), **env}
        return of_launch(
            {
                **watched.record(),
                "own_pids": [p.pid for p in watched.processes if self._is_own(p.pid)],
                "environment": forced,
                "simulation_intended": SIMULATION_VARIABLE in env,
            }
        )

    def must_have_stayed_sound(self, watched: Watched) -> None:
        """Assert that no card failed, and that no kernel of this build broke a card's rules, since the launch.

        Raises:
            DriverError: a card is gone, asks for a reset, or had an Xid of the machine's: infrastructure.
            BrokenPromise: a kernel of the server's failed on a card.
        """
        record, worst = watched.record(), xids.worst(watched.xids)
        if failed := [*record["xids"], *record["lost"]]:
            unknown = worst is not None and worst.meaning.whose == "unknown" and not record["lost"]
            raise DriverError(
                f"a GPU failed while it was measured: {failed[0]}",
                "Whose it is this suite does not know: look its number up in NVIDIA's catalogue of Xids, then run again."
                if unknown
                else "This is the machine, not SGLang: reset the card or reboot, then run again.",
            )
        if worst is not None:
            raise BrokenPromise(
                f"this build's kernels failed on a GPU: {worst}. The server goes on, but what it computes is "
                "not to be trusted"
            )

    def close(self) -> None:
        """Let go of the host."""
        if self._host is not None:
            self._host.__exit__(None, None, None)
            self._host = None

    def _xids(self) -> list[Xid]:
        """Those since the launch, of the server's cards, without what other programs did there."""
        fresh = xids.of_cards(xids.since(self._launch.log, self._xid_lines()), self.own_cards())
        return [xid for xid in fresh if xid.meaning.whose != "program" or self._may_be_own(xid)]

    def _may_be_own(self, xid: Xid) -> bool:
        own = self._launch.own
        return not own or xid.pid is None or xid.pid in own or xid.process.startswith("sglang")

    def _xid_lines(self) -> list[str]:
        try:
            log = gpus.kernel_log(self.host, self._command(self._target.kernel_log), env=self._target.env)
        except HostError as error:
            log = None
            self._note(f"the kernel's log was not seen: {error}")
        if log is None:
            self._note("the kernel's log may not be read by this user: GPU errors (Xid) are not seen")
        return xids.lines(log or "")

    def _computing(self) -> tuple[gpus.Process, ...]:
        try:
            return gpus.processes(self.host, self._nvidia_smi, env=self._target.env)
        except HostError:
            return ()

    def _is_own(self, pid: int) -> bool:
        """Is a process one of the server's, or a child of one? Of a server that nobody saw arrive, all are."""
        own = self._launch.own
        if pid in self._launch.before:
            return False
        seen: set[int] = set()
        while pid > 1 and pid not in seen:
            if pid in own:
                return True
            seen.add(pid)
            pid = self._parent(pid)
        return not own and not self._launch.before

    def _parent(self, pid: int) -> int:
        try:
            return int(self.host.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        except (HostError, ValueError, IndexError):
            return 0

    def _note(self, sentence: str) -> None:
        if sentence not in self.notes:
            self.notes.append(sentence)
