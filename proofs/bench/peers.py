"""Load tools beside the clients: `sglang.bench_serving`, GuideLLM and AIPerf as they come, held to the same paced server.

    python -m proofs.bench.peers install [--peers NAME,...]

makes an environment for each below `.bench/`; `python -m proofs.bench` then compares those that are there.

A tool is a command that starts, imports, measures and reports. Its CPU per chunk is that of all its processes from when its
first request reached the server until it had seen the last chunk: neither imports nor reports count. What it says of each
request is read from its own export and compared with the server's log.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from proofs.bench import bounded, peer_install
from proofs.bench.peer_install import Installed
from proofs.bench.peer_tools import TOOLS, Reported, Task, prepare
from tests.paced.server import PacedServer, Truth

REPEATS: Mapping[int, int] = {64: 3, 256: 3}
"""Runs at a number of streams, where not one."""
ENOUGH_CHUNKS = 5_000
"""CPU over fewer chunks than these would be noise: it is read ten times a second, in steps of 10 ms a process."""
START_S = 45.0
SLOWNESS = 6.0
"""A run may take START_S and this many times as long as its streams; then it is killed."""
AFTERMATH_S = 0.5
"""Within this the server has noticed that a killed tool's connections are gone, and logs no more of them."""
BUDGET_S = 360.0
"""No further run starts once the tools' runs together took this long, so that a slow machine ends too."""


class Failed(Exception):
    """A run that says nothing; the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class PeerFigures:
    """One run; None where the tool's export, or so few chunks, cannot tell. Errors as in `bench.__main__.Figures`.

    `whole_cpu_s` and `whole_s`: what the command cost from start to exit. `at_once`: streams that really ran at a time.
    """

    cpu_us: float | None
    gap_error_p99_ms: float | None
    ttft_error_ms: float
    span_error_p99_ms: float
    whole_cpu_s: float
    whole_s: float
    at_once: int


@dataclass(slots=True)
class Row:
    """What is known of one tool at one number of streams."""

    runs: list[PeerFigures] = field(default_factory=list)
    failed: str = ""

    def median(self, what: str) -> float | None:
        """The median over runs of one figure, None where none of them has it."""
        values = self._values(what)
        return float(statistics.median(values)) if values else None

    def worst(self, what: str) -> float | None:
        """The greatest over runs of one figure."""
        return max(self._values(what), default=None)

    def _values(self, what: str) -> list[float]:
        return [value for run in self.runs if (value := getattr(run, what)) is not None]


# ------------------------------------------------------------------------------------------- what a run amounts to
def cpu_per_chunk_us(
    samples: Sequence[tuple[float, float]], reported: Mapping[int, Reported], truth: Mapping[int, Truth]
) -> float | None:
    """CPU from the first request's arrival until the tool had seen the last chunk, over all chunks.

    `samples` are (time, CPU so far), on the clock of the log. None where there are too few chunks to tell.
    """
    chunks = sum(len(stream.left_s) for stream in truth.values())
    if chunks < ENOUGH_CHUNKS:
        return None
    begin = min(stream.arrived_s for stream in truth.values())
    end = max(truth[stream].arrived_s + said.ttft_s + said.span_s for stream, said in reported.items())
    times, cpu = zip(*samples, strict=True)
    before, after = np.interp([begin, end], times, cpu)
    return float(after - before) / chunks * 1e6


def most_at_once(truth: Mapping[int, Truth]) -> int:
    """The greatest number of streams that ran at one moment, from the request's arrival to its last chunk."""
    events = [(stream.arrived_s, 1) for stream in truth.values()]
    events += [(float(stream.left_s[-1]), -1) for stream in truth.values()]
    steps = [step for _, step in sorted(events)]
    return int(np.cumsum(steps).max())


def compare(
    reported: Mapping[int, Reported], truth: Mapping[int, Truth], streams: int, chunks: int
) -> tuple[float | None, float, float]:
    """Errors in ms against the log: p99 of times between chunks, mean of TTFT, p99 of first to last chunk.

    Raises Failed when not every stream of every chunk is in both.
    """
    if set(truth) != set(range(streams)):
        raise Failed(f"{len(truth)} of {streams} streams reached the server")
    if set(reported) != set(truth):
        raise Failed(f"{len(set(reported) & set(truth))} of {streams} streams are in its export")
    gaps: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    firsts, spans = [], []
    for stream, said in reported.items():
        left = truth[stream].left_s
        if len(left) != chunks:
            raise Failed(f"stream {stream}: {len(left)} chunks left, not {chunks}")
        firsts.append(abs(said.ttft_s - (left[0] - truth[stream].arrived_s)))
        spans.append(abs(said.span_s - (left[-1] - left[0])))
        if said.gaps_s is not None:
            if len(said.gaps_s) != chunks - 1:
                raise Failed(f"stream {stream}: {chunks} chunks left, it saw {len(said.gaps_s) + 1}")
            gaps.append(np.abs(np.asarray(said.gaps_s) - np.diff(left)))
    gap = float(np.quantile(np.concatenate(gaps), 0.99)) * 1e3 if gaps else None
    return gap, float(np.mean(firsts)) * 1e3, float(np.quantile(spans, 0.99)) * 1e3


# ------------------------------------------------------------------------------------------------------- running
@dataclass(frozen=True, slots=True)
class Played:
    """One run: samples of (time, CPU so far), what the tool said, and what the server logged; its whole cost."""

    samples: Sequence[tuple[float, float]]
    reported: Mapping[int, Reported]
    truth: Mapping[int, Truth]
    cpu_s: float
    wall_s: float


def play(peer: Installed, server: PacedServer, streams: int, chunks: int, interval_s: float) -> Played:
    """Run a tool once. Raises Failed when it gives up, breaks, or its export cannot be read; the log is taken anyway."""
    try:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as name:
            task = Task(server.url, streams, chunks, Path(name))
            prepare(peer.tool, task)
            limit_s = START_S + SLOWNESS * chunks * interval_s
            ended, reported = _run_and_read(peer, task, limit_s)
        return Played(ended.samples, reported, server.take_log(), ended.cpu_s, time.monotonic() - began)
    except Failed:
        time.sleep(AFTERMATH_S)
        server.take_log()
        raise


def _run_and_read(
    peer: Installed, task: Task, limit_s: float
) -> tuple[bounded.Ended, Mapping[int, Reported]]:
    command = [str(peer.python), "-m", peer.tool.module, *peer.tool.arguments(task)]
    log = task.directory / "output.txt"
    try:
        ended = bounded.run(command, peer.environment(task.directory), task.directory, log, limit_s)
    except bounded.GaveUp as error:
        raise Failed(str(error)) from error
    if ended.status:
        raise Failed(f"exit {ended.status}: {peer_install.last_words(ended.output)}")
    try:
        return ended, peer.tool.read(task)
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise Failed(f"its export cannot be read ({type(error).__name__}: {error})") from error


class Peers:
    """The tools that are compared, and what was found out about them so far."""

    def __init__(self, installed: Mapping[str, Installed], interval_s: float) -> None:
        self._installed = installed
        self._interval_s = interval_s
        self._spent_s = 0.0
        self._rows: dict[tuple[str, int], Row] = {}

    def take_turn(
        self, server: PacedServer, repeat: int, streams: int, chunks: int, say: Callable[[str], None]
    ) -> None:
        """One run of each tool, where this repeat has one."""
        if repeat >= REPEATS.get(streams, 1):
            return
        for name, peer in self._installed.items():
            row = self._rows.setdefault((name, streams), Row())
            if row.failed:
                continue
            if self._failed_with_fewer(name, streams):
                row.failed = "not run: it failed with fewer streams"
                continue
            if self._spent_s > BUDGET_S:
                row.failed = "" if row.runs else f"not run: the load tools' {BUDGET_S:.0f} s were used up"
                continue
            say(f"run {repeat + 1}: {streams} streams, {peer.tool.name}")
            began = time.monotonic()
            try:
                row.runs.append(self._run(peer, server, streams, chunks))
            except Failed as error:
                row.failed = str(error)
            self._spent_s += time.monotonic() - began

    def _failed_with_fewer(self, name: str, streams: int) -> bool:
        return any(row.failed and of == name and n < streams for (of, n), row in self._rows.items())

    def _run(self, peer: Installed, server: PacedServer, streams: int, chunks: int) -> PeerFigures:
        played = play(peer, server, streams, chunks, self._interval_s)
        gap, first, span = compare(played.reported, played.truth, streams, chunks)
        cpu = cpu_per_chunk_us(played.samples, played.reported, played.truth)
        return PeerFigures(cpu, gap, first, span, played.cpu_s, played.wall_s, most_at_once(played.truth))

    def at(self, streams: int) -> list[tuple[str, Row]]:
        """The rows at one number of streams: the tool's name in the table, and what is known."""
        found = [(name, self._rows.get((name, streams))) for name in self._installed]
        return [(TOOLS[name].name, row) for name, row in found if row is not None]

    def notes(self) -> list[str]:
        """What must be known to read the rows."""
        ran = {of: row for of, row in self._rows.items() if row.runs}
        if not ran:
            return []
        sizes = sorted({streams for _, streams in ran})
        most = {size: max(len(row.runs) for (_, n), row in ran.items() if n == size) for size in sizes}
        usual = max(sizes, key=lambda size: (most[size], size))
        whole = ", ".join(
            f"{TOOLS[name].name} {row.median('whole_s'):.0f} s ({row.median('whole_cpu_s'):.0f} s of CPU)"
            for (name, streams), row in ran.items()
            if streams == usual
        )
        lines = [
            f"load tools: medians of {', '.join(f'{most[size]} at {size}' for size in sizes)} streams.",
            "  Their CPU is that of all their processes, from their first request until they have seen the last chunk; what",
            "  they do after that, such as reports, is not in it, while in the clients' it is.",
            f"  From start to exit at {usual} streams: {whole}.",
        ]
        averages = {
            TOOLS[name].name for (name, _), row in ran.items() if row.median("gap_error_p99_ms") is None
        }
        lines += [
            f"  {name} exports when a request's first and last chunk came, not those between."
            for name in averages
        ]
        for (name, streams), row in ran.items():
            at_once = row.median("at_once")
            if at_once is not None and at_once < streams:
                lines.append(
                    f"  {TOOLS[name].name} had at most {at_once:.0f} of {streams} streams running at once."
                )
        return lines


def chosen(text: str) -> list[str]:
    """The names in `--peers`: all, none, or some, comma-separated. Raises argparse's error for others."""
    if text in ("all", "none"):
        return list(TOOLS) if text == "all" else []
    names = [name.strip() for name in text.split(",") if name.strip()]
    if unknown := sorted(set(names) - set(TOOLS)):
        raise argparse.ArgumentTypeError(
            f"no peer called {', '.join(unknown)}; there are {', '.join(TOOLS)}, and all or none"
        )
    return names


def main(argv: Sequence[str] | None = None) -> int:
    """The installation; 0 when all that was asked for is there."""
    parser = argparse.ArgumentParser(
        prog="python -m proofs.bench.peers", description="Install the load tools to compare with."
    )
    parser.add_argument("action", choices=["install"])
    parser.add_argument(
        "--peers", type=chosen, default=list(TOOLS), metavar="NAME,...", help=f"of {', '.join(TOOLS)}"
    )
    parser.add_argument("--any-torch", action="store_true", help="also where pip takes a CUDA build of torch")
    args, _ = parser.parse_known_args(argv)  # tox hands the benchmark's own arguments to both commands
    return 1 if peer_install.install(args.peers, args.any_torch).missing else 0


if __name__ == "__main__":
    sys.exit(main())
