"""Watches the GPUs of a host through a round: one nvidia-smi that loops, read by one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType

from suite.hosts import Host, HostError, Running
from suite.probes.gpus.query import FIELDS, Gpu, NoGpus, Process, parse, processes, query, read

PROCESSES_EVERY_S = 10.0

Sample = tuple[Gpu, ...]
"""All cards at about one moment."""


class Sampler:
    """Samples every ``interval_s`` between :meth:`start` and :meth:`stop`, or within a ``with``.

    One nvidia-smi loops by itself: starting one for each sample would cost CPU time that the client needs. Who else
    computes on the cards is asked at both ends, and every ten seconds between them.
    One that cannot loop is asked again and again. On a host without GPUs nothing is sampled and ``outcome``
    says why; it also says so when a card was lost in the middle.
    """

    def __init__(
        self,
        host: Host,
        interval_s: float = 1.0,
        command: str = "nvidia-smi",
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._host, self._interval_s, self._command, self._env = host, interval_s, command, env
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._samples: list[Sample] = []
        self._at_s: list[float] = []
        self._cards = 0
        self._fields: Mapping[str, str] = FIELDS
        self.outcome: NoGpus | None = None
        self.processes: dict[int, Process] = {}
        """Everyone who was seen to compute on the cards, by process number."""

    def start(self) -> Sampler:
        """Begin. Never raises for what nvidia-smi does: it must not end a measurement."""
        self._samples, self._at_s, self._cards, self.outcome, self.processes = [], [], 0, None, {}
        self._stopping.clear()
        if self._look():
            self._thread = threading.Thread(target=self._watch, name="gpu-sampler", daemon=True)
            self._thread.start()
        return self

    def stop(self) -> list[Sample]:
        """End, and all samples in order; the last is taken now, so that the shortest round has two."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=self._interval_s + 15.0)
            self._thread = None
            self._look()
        return list(self._samples)

    def _look(self) -> bool:
        """One sample by one call; ``False`` when there is none to be had."""
        found = read(self._host, self._command, env=self._env)
        if isinstance(found, NoGpus):
            self.outcome = found
            return False
        if found.lost:
            self.outcome = NoGpus("lost", "; ".join(found.lost))
        self._cards, self._fields = len(found.gpus), found.fields
        self._take(found.gpus)
        self._meet(found.processes)
        return True

    def _take(self, sample: Sample) -> None:
        self._at_s.append(time.monotonic())
        self._samples.append(sample)

    def powers_w(self, buses: Collection[str] = ()) -> list[tuple[float, float]]:
        """The power of all cards together (of those at these PCI addresses, if any are given), by ``time.monotonic``.

        A sample in which one of them did not tell is left out: a sum without it would be too small.
        """
        told = []
        for at_s, sample in zip(list(self._at_s), list(self._samples), strict=False):
            powers = [gpu.power_w for gpu in sample if not buses or gpu.bus in buses]
            known = [power for power in powers if power is not None]
            if known and len(known) == len(powers):
                told.append((at_s, sum(known)))
        return told

    def _meet(self, found: Iterable[Process]) -> None:
        self.processes.update({process.pid: process for process in found})

    def _watch(self) -> None:
        try:
            running = self._host.start(query(self._command, self._fields, self._interval_s), env=self._env)
        except HostError as error:
            self.outcome = NoGpus("failed", str(error))
            return
        try:
            self._listen(running)
        finally:
            running.close(0.0)  # it never ends by itself
        while not self._stopping.wait(self._interval_s):  # it did end: this one does not loop
            self._look()

    def _listen(self, running: Running) -> None:
        """Collect lines until each card has spoken; a line that is no card is what is said of a lost one."""
        pending: list[Gpu] = []
        asked = time.monotonic()
        while not self._stopping.is_set():
            if time.monotonic() - asked > PROCESSES_EVERY_S:
                self._meet(processes(self._host, self._command, env=self._env))
                asked = time.monotonic()
            try:
                line = running.line(timeout_s=0.2)
            except (EOFError, HostError):
                return
            gpus, lost = parse((line or b"").decode("utf-8", "replace"), tuple(self._fields))
            if lost:
                self.outcome = NoGpus("lost", "; ".join(lost))
            pending += gpus
            if len(pending) >= self._cards:
                self._take(tuple(pending))
                pending = []

    def __enter__(self) -> Sampler:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
