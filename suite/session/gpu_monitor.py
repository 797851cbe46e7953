"""How the GPUs fared while a server was measured: sampled meanwhile, and the kernel's log read afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from suite import xids
from suite.gate import Invalid
from suite.gate.invalid import clocks, of_launch
from suite.hosts import HostError
from suite.probes import gpus
from suite.servers import DriverError
from suite.session.environment import HostEnvironment
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


class GpuMonitor:
    """Watches the GPUs of a run's servers; without cards that can be seen it sees nothing, and says nothing."""

    def __init__(self, around: HostEnvironment) -> None:
        self._around = around
        self._launch = _Launch()

    def before_launch(self) -> None:
        """Note what the kernel has said and who computes on the cards: both are not the server's that comes now."""
        if self._around.cards is None:
            return
        attached = self._around.target.launch.kind == "attach"  # its server is there already
        before = () if attached else self._computing()
        self._launch = _Launch(self._xid_lines(), frozenset(process.pid for process in before))

    def when_ready(self) -> None:
        """Note which processes on the cards the server brought."""
        if self._around.cards is None:
            return
        own = [process for process in self._computing() if process.pid not in self._launch.before]
        used = {process.uuid for process in own}
        self._launch.own = frozenset(process.pid for process in own)
        self._launch.cards = tuple(gpu.bus for gpu in self._around.cards.gpus if gpu.uuid in used)

    def own_cards(self) -> tuple[str, ...]:
        """PCI addresses of the cards that this run's server uses: by its processes, else by what it may see."""
        if self._launch.cards or self._around.cards is None:
            return self._launch.cards
        visible = self._around.target.env.get("CUDA_VISIBLE_DEVICES", "")
        named = {part.strip() for part in visible.split(",") if part.strip()}
        return tuple(
            gpu.bus
            for gpu in self._around.cards.gpus
            if not named or str(gpu.index) in named or gpu.uuid in named
        )

    @contextmanager
    def watching(self) -> Iterator[Watched]:
        """Sample the GPUs while the body runs."""
        watched = Watched()
        if self._around.cards is None:
            yield watched
            return
        sampler = gpus.Sampler(
            self._around.host, SAMPLE_EVERY_S, self._around.nvidia_smi, env=self._around.target.env
        )
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
        forced = {**(os.environ if self._around.target.host == "local" else {}), **env}
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

    def _xids(self) -> list[Xid]:
        """Those since the launch, of the server's cards, without what other programs did there."""
        fresh = xids.of_cards(xids.since(self._launch.log, self._xid_lines()), self.own_cards())
        return [xid for xid in fresh if xid.meaning.whose != "program" or self._may_be_own(xid)]

    def _may_be_own(self, xid: Xid) -> bool:
        own = self._launch.own
        return not own or xid.pid is None or xid.pid in own or xid.process.startswith("sglang")

    def _xid_lines(self) -> list[str]:
        try:
            log = gpus.kernel_log(
                self._around.host,
                self._around.command(self._around.target.kernel_log),
                env=self._around.target.env,
            )
        except HostError as error:
            log = None
            self._around.note(f"the kernel's log was not seen: {error}")
        if log is None:
            self._around.note("the kernel's log may not be read by this user: GPU errors (Xid) are not seen")
        return xids.lines(log or "")

    def _computing(self) -> tuple[gpus.Process, ...]:
        try:
            return gpus.processes(self._around.host, self._around.nvidia_smi, env=self._around.target.env)
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
            return int(self._around.host.read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[1])
        except (HostError, ValueError, IndexError):
            return 0
