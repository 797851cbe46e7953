"""`python -m bench`: measures the clients in turn, prints the table and whether each promise held; exit 0 only if all did."""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from bench import memory
from bench.clients import CLIENTS, PUBLIC, Job, Result
from tests.paced.server import PacedServer, Truth, compiler

INTERVAL_S = 0.010


@dataclass(frozen=True, slots=True)
class Figures:
    """One run: CPU per chunk, error of the time between chunks (p99 of absolute values), mean absolute TTFT error."""

    cpu_us: float
    gap_error_p99_ms: float
    ttft_error_ms: float


class Worker:
    """A client in a process of its own, warm, taking jobs."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.clients", name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
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
    gaps, firsts, chunks = [], [], 0
    for seed, arrived in result.arrived_s.items():
        left = truth[seed].left_s
        if len(arrived) != len(left):
            raise RuntimeError(f"stream {seed}: {len(left)} chunks left, the client saw {len(arrived)}")
        chunks += len(arrived)
        gaps.append(np.abs(np.diff(arrived) - np.diff(left)))
        firsts.append(abs((arrived[0] - result.started_s[seed]) - (left[0] - truth[seed].arrived_s)))
    p99 = float(np.quantile(np.concatenate(gaps), 0.99))
    return Figures(result.cpu_s / chunks * 1e6, p99 * 1e3, float(np.mean(firsts)) * 1e3)


def measure(
    names: Sequence[str], streams: Sequence[int], repeats: int, chunks: int
) -> dict[tuple[str, int], list[Figures]]:
    """All runs, interleaved: every client once at every size, then again, in reversed order each second time."""
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
    finally:
        _say("")
        for worker in workers.values():
            worker.close()
    return seen


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
    text = (
        f"a million chunks: peak memory grows by at most 64 bytes a chunk (16 are the timeline): {growth:.0f}"
    )
    return growth <= 64, text


def print_table(
    seen: dict[tuple[str, int], list[Figures]], names: Sequence[str], streams: Sequence[int]
) -> None:
    """Ratios to the plain loop first, then the figures themselves, medians and worst runs."""
    base = "plain aiohttp loop"
    print(
        f"{'streams':>7}  {'client':<24}{'CPU/loop':>9}{'CPU us':>9}{'p99 gap error ms':>20}{'TTFT error ms':>15}"
    )
    for count in streams:
        for name in names:
            runs = seen[name, count]
            cpu = median(runs, "cpu_us")
            worst = max(run.gap_error_p99_ms for run in runs)
            error = f"{median(runs, 'gap_error_p99_ms'):.3f} (max {worst:.2f})"
            ratio = cpu / median(seen[base, count], "cpu_us")
            print(
                f"{count:>7}  {name:<24}{ratio:>9.2f}{cpu:>9.2f}{error:>20}{median(runs, 'ttft_error_ms'):>15.3f}"
            )


def print_setting(repeats: int, chunks: int) -> None:
    """The machine, the versions, and what else was asked for but is not here."""
    parts = [f"{name} {version(name)}" for name in ("openai", "httpx2", "aiohttp", "httptools", "msgspec")]
    print(
        f"{_cpu_name()}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"
    )
    print(", ".join(parts))
    print(
        f"streams of {chunks} chunks, one each {INTERVAL_S * 1e3:.0f} ms, all started at once; medians of {repeats} runs"
    )
    for package, name in (("sglang", "sglang.bench_serving"), ("guidellm", "GuideLLM"), ("aiperf", "AIPerf")):
        try:
            print(
                f"{name}: {package} {version(package)} is installed here, but not compared by this benchmark"
            )
        except PackageNotFoundError:
            print(f"{name}: not compared ({package} is not installed here)")


def main(argv: Sequence[str] | None = None) -> int:
    """The benchmark; see the module."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--streams", type=lambda t: [int(n) for n in t.split(",")], default=[1, 64, 256])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--chunks", type=int, default=384, help="a stream")
    parser.add_argument("--all", action="store_true", help="also our client over the public transport")
    args = parser.parse_args(argv)
    if compiler() is None:
        print("the benchmark needs a C compiler for the paced server", file=sys.stderr)
        return 2
    names = [name for name in CLIENTS if args.all or name != PUBLIC]
    print_setting(args.repeats, args.chunks)
    seen = measure(names, args.streams, args.repeats, args.chunks)
    print()
    print_table(seen, names, args.streams)
    print()
    held = [*promises(seen, args.streams), memory_promise()]
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
