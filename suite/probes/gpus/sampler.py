"""Watches the GPUs of a host through a round: one nvidia-smi that loops, read by one thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from types import TracebackType

from suite.hosts import Host, HostError, Running
from suite.probes.gpus.query import FIELDS, Gpu, NoGpus, parse, query, read

Sample = tuple[Gpu, ...]
"""All cards at about one moment."""


class Sampler:
    """Samples every ``interval_s`` between :meth:`start` and :meth:`stop`, or within a ``with``.

    One nvidia-smi loops by itself: starting one for each sample would cost CPU time that the client needs.
    On a host without GPUs it samples nothing and ``outcome`` says why.
    """

    def __init__(self, host: Host, interval_s: float = 1.0, command: str = "nvidia-smi") -> None:
        self._host, self._interval_s, self._command = host, interval_s, command
        self._running: Running | None = None
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._samples: list[Sample] = []
        self._cards = 0
        self._fields: Mapping[str, str] = FIELDS
        self.outcome: NoGpus | None = None

    def start(self) -> Sampler:
        """Begin. Never raises for what nvidia-smi does: it must not end a measurement."""
        first = read(self._host, self._command)
        if isinstance(first, NoGpus):
            self.outcome = first
            return self
        self._cards, self._fields = len(first.gpus), first.fields
        self._samples = [first.gpus]
        self._stopping.clear()
        try:
            self._running = self._host.start(query(self._command, self._fields, self._interval_s))
        except HostError as error:
            self.outcome = NoGpus("failed", str(error))
            return self
        self._thread = threading.Thread(target=self._listen, name="gpu-sampler", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> list[Sample]:
        """End, and all samples in order; the last one is taken now, so that a short round has two."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=self._interval_s + 5.0)
            self._thread = None
        if self._running is not None:
            self._running.close(0.0)  # it never ends by itself
            self._running = None
            last = read(self._host, self._command)
            if isinstance(last, NoGpus):
                self.outcome = last
            else:
                self._samples.append(last.gpus)
        return list(self._samples)

    def _listen(self) -> None:
        """Collect lines until each card has spoken; a line that is no card is what nvidia-smi says of a lost one."""
        running, pending, deadline = self._running, list[Gpu](), time.monotonic() + 3600.0
        while running is not None and not self._stopping.is_set() and time.monotonic() < deadline:
            try:
                line = running.line(timeout_s=0.2)
            except (EOFError, HostError):
                return
            gpus, lost = parse((line or b"").decode("utf-8", "replace"), tuple(self._fields))
            if lost:
                self.outcome = NoGpus("lost", "; ".join(lost))
            pending += gpus
            if len(pending) >= self._cards:
                self._samples.append(tuple(pending))
                pending = []

    def __enter__(self) -> Sampler:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
