"""``python -m suite replay``: your own traffic against a server, at its pace or scaled, and the rate that keeps stated limits."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from suite import config, metrics
from suite.cli import shared
from suite.cli.load_arguments import above_0, key_of
from suite.load import Endpoint, LoadError, LoadShape, Round, Sampling, cache, play
from suite.servers import launcher_for
from suite.sglang import server as server_probe
from suite.terminal import table
from suite.terminal.figures import number
from suite.traffic import FORMATS, Limits, PaceResult, Replay, highest, kept_share, read, workload_of

ROWS = ("output_tokens_per_s", "ttft_s", "tpot_s", "e2e_s", "concurrency_achieved", "acceptance_length")


def add_parser(subparsers: shared.Subparsers) -> None:
    """Add ``replay`` to the suite's commands."""
    text = "replay your own traffic (conversations or a trace): goodput under latency limits, and the highest rate that keeps them"
    parser = subparsers.add_parser("replay", help=text, description=text)
    add = parser.add_argument
    add(
        "file",
        type=Path,
        metavar="FILE",
        help="a trace or conversations; see docs/traffic.md for the formats",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--server-url", metavar="URL", help="a running server")
    which.add_argument(
        "--target", metavar="NAME", help="launch this target (default: default_target of suite.toml)"
    )
    add("--arm", default="mtp-on", metavar="ARM", help="which arm of the target to launch (default: mtp-on)")
    add(
        "--api-key-env", metavar="NAME", help="with --server-url: environment variable that holds its API key"
    )
    add("--format", choices=tuple(FORMATS), help="format of the file (default: recognized by its first line)")
    add(
        "--pace",
        type=above_0,
        default=1.0,
        metavar="X",
        help="play X times as fast as recorded (default: 1)",
    )
    add(
        "--rate",
        type=above_0,
        metavar="PER_S",
        help="scale to this many requests per second; required if the file has no times",
    )
    add("--requests", type=int, metavar="N", help="the first N requests only")
    add("--seconds", type=above_0, metavar="S", help="the first S seconds of the trace only")
    add("--output-tokens", type=int, metavar="N", help="output tokens per answer, instead of the trace's")
    add("--ttft", type=above_0, metavar="S", help="limit on TTFT, in seconds")
    add("--tpot", type=above_0, metavar="S", help="limit on TPOT, in seconds")
    add("--e2e", type=above_0, metavar="S", help="limit on the whole request, in seconds")
    add(
        "--share",
        type=_share,
        default=0.95,
        metavar="X",
        help="share of requests that must keep the limits, 0 to 1 (default: 0.95)",
    )
    add(
        "--find-rate",
        action="store_true",
        help="find the highest rate that keeps the limits (about ten replays)",
    )
    add("--json", type=Path, metavar="FILE", help="write the figures to this file")
    shared.add_paths(parser, "--suite-config")
    parser.set_defaults(func=run)


def _share(text: str) -> float:
    value = float(text)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"expected a share such as 0.95, got {text!r}")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Replay, print, write. 1: a request failed; 8: the highest rate was asked for and not found."""
    limits = Limits(arguments.ttft, arguments.tpot, arguments.e2e, arguments.share)
    if arguments.find_rate and limits.slo == metrics.SLO():
        raise LoadError("--find-rate needs limits: --ttft 0.5 --tpot 0.05, for example")
    trace = read(arguments.file, arguments.format).first(arguments.requests, arguments.seconds)
    with _server(arguments) as (endpoint, context_length):
        replay = workload_of(
            trace,
            endpoint,
            rate_per_s=arguments.rate,
            output_tokens=arguments.output_tokens,
            context_length=context_length,
        )
        left = f", {replay.left_out} left out: longer than this server's context" if replay.left_out else ""
        print(f"{trace.name} ({trace.format}): {len(replay.times_s)} requests{left}")
        player = _Player(endpoint, replay, limits)
        first = player.play(replay.at(arguments.pace))
        found = player.search(first, arguments.pace) if arguments.find_rate else None
    _tell(first, limits, found)
    if arguments.json is not None:
        arguments.json.write_text(
            json.dumps(_document(first, limits, found), indent=1) + "\n", encoding="utf-8"
        )
    if first.faults:
        return 1
    return 8 if found is not None and found.value is None else 0


@contextmanager
def _server(arguments: argparse.Namespace) -> Iterator[tuple[Endpoint, int | None]]:
    """The server that runs, or one launched for this; with the tokens that its context holds."""
    if arguments.server_url is not None:
        endpoint = Endpoint(arguments.server_url, api_key=key_of(arguments.api_key_env))
        yield endpoint, _context_of(endpoint)
        return
    suite = config.load(arguments.suite_config)
    folder = Path("results") / "replay"
    target = suite.target(arguments.target).in_run(folder.resolve())
    with launcher_for(suite, target, log_dir=folder / "logs") as launcher:
        print(f"launching {arguments.arm}", flush=True)
        server = launcher.start(target.arm(arguments.arm))
        try:
            endpoint = Endpoint(server.base_url, api_key=server.api_key, admin_api_key=server.admin_api_key)
            yield endpoint, _context_of(endpoint)
        finally:
            server.stop()


def _context_of(endpoint: Endpoint) -> int | None:
    info = server_probe.read(endpoint.root_url, api_key=endpoint.api_key)
    print(f"{endpoint.root_url}: SGLang {info.version}, {info.speculation}")
    limit = info.resolved.get("context_length")
    return limit if isinstance(limit, int) else None


class _Player:
    """Plays one trace again and again, each time into an empty prefix cache, a line each."""

    def __init__(self, endpoint: Endpoint, replay: Replay, limits: Limits) -> None:
        self._endpoint = endpoint
        self._replay = replay
        self._limits = limits

    def play(self, shape: LoadShape) -> Round:
        """Once, as this shape says."""
        cache.flush(self._endpoint)
        round_ = play(
            self._endpoint,
            self._replay.workload,
            shape,
            sampling=Sampling(temperature=0.0, ignore_eos=True),
            timeout_s=3600.0,
            stall_s=300.0,
        )
        print(f"{shape}: {kept_share(round_, self._limits):.0%} kept {self._limits}", flush=True)
        return round_

    def search(self, first: Round, pace: float) -> metrics.Value:
        """The highest rate that keeps the limits."""
        rate = self._replay.rate_per_s

        def step(faster: float) -> PaceResult:
            return PaceResult(
                rate * pace * faster, kept_share(self.play(self._replay.at(pace * faster)), self._limits)
            )

        return highest(PaceResult(rate * pace, kept_share(first, self._limits)), step, self._limits.share)


def _tell(round_: Round, limits: Limits, found: metrics.Value | None) -> None:
    values = metrics.summarize(round_, limits.slo if limits.slo != metrics.SLO() else None)
    rows = []
    for name in ROWS:
        value = values[name]
        tails = [values.get(f"{name}.{tail}") for tail in ("p90", "p99")]
        tail_cells = ["" if tail is None else number(tail.value, tail.unit) for tail in tails]
        rows.append([metrics.METRICS[name].label, number(value.value, value.unit), *tail_cells])
    print("\n" + "\n".join(table.lines(("", "median", "p90", "p99"), rows, right=range(1, 4))))
    goodput = values["goodput_requests_per_s"]
    if goodput.value is not None:
        print(f"goodput: {goodput.value:.3g} requests/s ({goodput.detail['share']:.1%} kept {limits})")
    if found is not None:
        said = found.reason if found.value is None else f"{found.value:.3g} requests/s"
        print(f"highest rate that keeps them: {said}")
    for reason in metrics.validity(round_, cached_share_max=None):
        print(f"not to lean on: {reason.name}: {reason.evidence}", file=sys.stderr)


def _document(round_: Round, limits: Limits, found: metrics.Value | None) -> dict[str, Any]:
    values = metrics.summarize(round_, limits.slo)
    told = {name: {"value": v.value, "unit": v.unit, "reason": v.reason} for name, v in values.items()}
    if found is not None:
        told["highest_rate_per_s"] = {"value": found.value, "unit": found.unit, "reason": found.reason}
    return {
        "limits": str(limits),
        "share_kept": kept_share(round_, limits),
        "load": round_.load,
        "metrics": told,
    }
