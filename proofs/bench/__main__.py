"""`python -m proofs.bench`: measures the clients in turn, prints the table and whether each promise held; exit 0 only if all did."""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np

from proofs.bench import memory, peer_install
from proofs.bench.clients import CLIENTS, PUBLIC, Job, Result
from proofs.bench.peer_tools import TOOLS
from proofs.bench.peers import Peers, chosen
from tests.paced.server import PacedServer, Truth, compiler

INTERVAL_S = 0.010
MANY = 1024
MANY_CHUNKS, MANY_REPEATS = 96, 3
"""At so many streams a run has fewer chunks a stream, and there are fewer runs."""
MANY_BUDGET_S = 540.0
"""Where the smaller numbers of streams took longer than this, the default leaves the great one out."""
SPARE_FILES = 100
"""Open files that a process needs besides its connections."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One run: CPU per chunk, and absolute errors.

    Of the times between chunks (p99), of the time from first to last chunk (p99 over streams), of TTFT (mean).
    """

    cpu_us: float
    gap_error_p99_ms: float
    span_error_p99_ms: float
    ttft_error_ms: float


FIGURES = ("cpu_us", "gap_error_p99_ms", "span_error_p99_ms", "ttft_error_ms")


class Worker:
    """A client in a process of its own, warm, taking jobs."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "proofs.bench.clients", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def play(self, job: Job) -> Result:
        """Run one job to its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump(job, self._process.stdin)
        self._process.stdin.flush()
        result: Result = pickle.load(self._process.stdout)
        if result.failed:
            raise RuntimeError(f"{len(result.failed)} streams failed, the first: {result.failed[0]}")
        return result

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def figures(result: Result, truth: dict[int, Truth]) -> Figures:
    """Compare what a client says with when the chunks really left."""
    gaps, spans, firsts, chunks = [], [], [], 0
    for seed, arrived in result.arrived_s.items():
        left = truth[seed].left_s
        if len(arrived) != len(left):
            raise RuntimeError(f"stream {seed}: {len(left)} chunks left, the client saw {len(arrived)}")
        chunks += len(arrived)
        gaps.append(np.abs(np.diff(arrived) - np.diff(left)))
        spans.append(abs((arrived[-1] - arrived[0]) - (left[-1] - left[0])))
        firsts.append(abs((arrived[0] - result.started_s[seed]) - (left[0] - truth[seed].arrived_s)))
    gap, span = (float(np.quantile(errors, 0.99)) * 1e3 for errors in (np.concatenate(gaps), spans))
    return Figures(result.cpu_s / chunks * 1e6, gap, span, float(np.mean(firsts)) * 1e3)


def measure(
    names: Sequence[str], streams: Sequence[int], repeats: int, chunks: int, peers: Peers
) -> dict[tuple[str, int], list[Figures]]:
    """All runs, interleaved: every client once at every size, then again, in reversed order each second time.

    The load tools take their turns after the clients, in as many of the repeats as they have runs.
    """
    seen: dict[tuple[str, int], list[Figures]] = {(name, n): [] for name in names for n in streams}
    workers = {name: Worker(name) for name in names}
    try:
        with PacedServer(INTERVAL_S, INTERVAL_S) as server:
            for name in names:  # imports and first connections are not what is measured
                workers[name].play(Job(server.url, 2, 20))
            server.take_log()
            for repeat in range(repeats):
                for count in streams:
                    for name in names if repeat % 2 == 0 else reversed(names):
                        _say(f"run {repeat + 1} of {repeats}: {count} streams, {name}")
                        result = workers[name].play(Job(server.url, count, chunks))
                        seen[name, count].append(figures(result, server.take_log()))
                    peers.take_turn(server, repeat, count, chunks, _say)
    finally:
        _say("")
        for worker in workers.values():
            worker.close()
    return seen


def measure_all(
    names: Sequence[str], streams: Sequence[int], args: argparse.Namespace, peers: Peers
) -> dict[tuple[str, int], list[Figures]]:
    """The moderate numbers of streams first; then the great ones, in fewer and shorter runs, where there is time."""
    started = time.monotonic()
    moderate, great = [n for n in streams if n < MANY], [n for n in streams if n >= MANY]
    seen = measure(names, moderate, args.repeats, args.chunks, peers) if moderate else {}
    took_s = time.monotonic() - started
    if great and args.streams is None and took_s > MANY_BUDGET_S:
        print(
            f"{MANY} streams: left out, the others took {took_s:.0f} s here (ask for it with --streams {MANY})"
        )
    elif great:
        repeats, chunks = min(args.repeats, MANY_REPEATS), min(args.chunks, MANY_CHUNKS)
        print(f"from {MANY} streams on: streams of {chunks} chunks, medians of {repeats} runs")
        try:
            seen |= measure(names, great, repeats, chunks, peers)
        except RuntimeError as error:
            print(f"{', '.join(map(str, great))} streams: left out: {error}")
    return seen


def open_files(wanted: int) -> int:
    """How many files this process, and those it starts, may open: the soft limit is raised to what is wanted if it can be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft


def median(runs: Sequence[Figures], what: str) -> float:
    """The median over runs of one figure."""
    return float(statistics.median(getattr(run, what) for run in runs))


def promises(seen: dict[tuple[str, int], list[Figures]], streams: Sequence[int]) -> list[tuple[bool, str]]:
    """Each promise about the client, whether it held, with the numbers."""

    def of(name: str, count: int, what: str) -> float:
        return median(seen[name, count], what)

    found = []
    for count in (n for n in streams if n in (64, 256)):
        cpu = of("ours", count, "cpu_us")
        for other, limit, words in (
            ("typed AsyncOpenAI", 1 / 15, "1/15"),
            ("plain aiohttp loop", 0.8, "0.8"),
        ):
            ratio = cpu / of(other, count, "cpu_us")
            text = f"{count} streams: CPU per chunk at most {words} of the {other}: {ratio:.3f} (1/{1 / ratio:.1f})"
            found.append((ratio <= limit, text))
        limit_ms = 0.3 if count == 64 else 1.0
        error = of("ours", count, "gap_error_p99_ms")
        found.append(
            (
                error <= limit_ms,
                f"{count} streams: p99 inter-token error at most {limit_ms} ms: {error:.3f} ms",
            )
        )
        mine, theirs = of("ours", count, "ttft_error_ms"), of("plain aiohttp loop", count, "ttft_error_ms")
        text = (
            f"{count} streams: mean TTFT error below the aiohttp loop's: {mine:.3f} against {theirs:.3f} ms"
        )
        found.append((mine < theirs, text))
    return found


def memory_promise() -> tuple[bool, str]:
    """Over a million chunks the peak of memory grows by little more than the timeline itself."""
    _say("memory over a million chunks")
    growth = memory.growth_per_chunk()
    _say("")
    text = f"a million chunks: peak memory grows by at most 64 bytes per chunk (16 are the timeline): {growth:.0f}"
    return growth <= 64, text


def print_table(
    seen: dict[tuple[str, int], list[Figures]], names: Sequence[str], streams: Sequence[int], peers: Peers
) -> None:
    """Ratios to the plain loop first, then the figures themselves: medians, and the worst run's error."""
    base = "plain aiohttp loop"
    print(
        f"{'':>7}  {'':<22}{'CPU a chunk':>17}   {'error against the log, ms':<}\n"
        f"{'streams':>7}  {'client':<22}{'/ loop':>8}{'us':>9}   {'p99 between chunks':<22}{'p99 first to last':>18}{'mean TTFT':>12}"
    )
    for count in streams:
        loop_us = median(seen[base, count], "cpu_us")
        for name in names:
            runs = seen[name, count]
            worst = max(run.gap_error_p99_ms for run in runs)
            print(_line(count, name, loop_us, [median(runs, what) for what in FIGURES], worst))
        for name, row in peers.at(count):
            if row.runs:
                found = [row.median(what) for what in FIGURES]
                print(_line(count, name, loop_us, found, row.worst("gap_error_p99_ms")))
            if row.failed:
                print(f"{count:>7}  {name:<22}{row.failed}")


def _line(
    count: int, name: str, loop_us: float, figures: Sequence[float | None], worst_gap_ms: float | None
) -> str:
    """One row; `figures` are FIGURES, None where there is none."""

    def cell(value: float | None, digits: int) -> str:
        return "-" if value is None else f"{value:.{digits}f}"

    cpu_us, gap_ms, span_ms, ttft_ms = figures
    ratio = None if cpu_us is None else cpu_us / loop_us
    worst = "" if worst_gap_ms is None else f" (max {worst_gap_ms:.2f})"
    return (
        f"{count:>7}  {name:<22}{cell(ratio, 2):>8}{cell(cpu_us, 2):>9}   {cell(gap_ms, 3) + worst:<22}"
        f"{cell(span_ms, 3):>18}{cell(ttft_ms, 3):>12}"
    )


def print_setting(repeats: int, chunks: int, found: peer_install.Found) -> None:
    """The machine, the versions, and what else was asked for but is not here."""
    parts = [f"{name} {version(name)}" for name in ("openai", "httpx2", "aiohttp", "httptools", "msgspec")]
    print(
        f"{_cpu_name()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    )
    print(", ".join(parts))
    for name, tool in TOOLS.items():
        if name in found.installed:
            print(f"{tool.name}: {found.installed[name].words}")
        else:
            print(f"{tool.name}: not compared, {found.missing.get(name, 'not asked for (--peers)')}")
    print(
        f"streams of {chunks} chunks, one each {INTERVAL_S * 1e3:.0f} ms, all started at once; medians of {repeats} runs"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """The benchmark; see the module."""
    parser = argparse.ArgumentParser(prog="python -m proofs.bench", description=__doc__)
    parser.add_argument(
        "--streams",
        type=lambda t: [int(n) for n in t.split(",")],
        help=f"default 1,64,256, and {MANY} where the machine allows it",
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--chunks", type=int, default=384, help=f"a stream; from {MANY} streams on at most {MANY_CHUNKS}"
    )
    parser.add_argument("--all", action="store_true", help="also our client over the public transport")
    parser.add_argument(
        "--peers",
        type=chosen,
        default=list(TOOLS),
        metavar="NAME,...",
        help=f"load tools to compare with: {', '.join(TOOLS)}, all (the default: those that are installed) or none",
    )
    args = parser.parse_args(argv)
    if compiler() is None:
        print("the benchmark needs a C compiler for the paced server", file=sys.stderr)
        return 2
    streams = args.streams or [1, 64, 256, MANY]
    needed = max(streams) + SPARE_FILES
    if (files := open_files(needed)) < needed:
        reason = f"{max(streams)} streams need {needed} open files, and {files} are allowed here (ulimit -Hn)"
        if args.streams:
            print(reason, file=sys.stderr)
            return 2
        streams.remove(MANY)
        print(f"{reason}: left out")
    names = [name for name in CLIENTS if args.all or name != PUBLIC]
    found = peer_install.find(args.peers)
    peers = Peers(found.installed, INTERVAL_S)
    print_setting(args.repeats, args.chunks, found)
    seen = measure_all(names, streams, args, peers)
    sizes = sorted({count for _, count in seen})
    print()
    print_table(seen, names, sizes, peers)
    print()
    notes = peers.notes()
    if sizes and sizes[-1] > 1000:
        notes.insert(
            0,
            "typed AsyncOpenAI: by default it opens at most 1000 connections; further requests wait for one",
        )
    for line in [*notes, ""] if notes else []:
        print(line)
    held = [*promises(seen, streams), memory_promise()]
    for ok, text in held:
        print(f"{'held  ' if ok else 'BROKEN'}  {text}")
    return 0 if all(ok for ok, _ in held) else 1


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            names: Any = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
        return str(names[0])
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def _say(text: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
