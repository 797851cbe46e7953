"""`python -m suite load`: play a workload against any OpenAI-compatible server; a live line, then a table and JSON."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from suite import metrics
from suite.foreign import json_of, one_line
from suite.load import (
    ClosedLoop,
    Endpoint,
    LoadError,
    LoadShape,
    OpenLoop,
    Progress,
    Round,
    Sampling,
    WarmUp,
    Workload,
    contexts,
    play,
    workloads,
)

_WORKLOAD_HELP = f"{', '.join(workloads.KINDS)}; several joined by +; random:TOKENS; long:TOKENS; or a path to a .jsonl file"
_RATE_OVER_S = 1.0
_ROWS = (
    "output_tokens_per_s",
    "total_tokens_per_s",
    "requests_per_s",
    "goodput_requests_per_s",
    "concurrency_achieved",
    "ttft_s",
    "tpot_s",
    "itl_s",
    "token_gap_s",
    "e2e_s",
    "acceptance_length",
    "tokens_per_chunk",
    "step_s",
    "cached_prompt_tokens",
)


def add_parser(subparsers: Any) -> None:
    """Add the `load` subcommand; its function is left in `func`."""
    parser = subparsers.add_parser(
        "load", help="play a workload against a server and measure", description=__doc__
    )
    add = parser.add_argument
    add("--server-url", required=True, help="for example http://127.0.0.1:30000")
    add("--model", help="default: the first the server lists")
    add("--api", choices=("chat", "completions"), default="chat")
    add("--api-key-env", metavar="NAME", help="environment variable that holds the server's API key")
    add("--transport", choices=("auto", "stamping", "public"), default="auto", help="how bytes arrive")
    add("--workload", default="code", help=_WORKLOAD_HELP)
    add("--concurrency", type=_at_least_1, help="closed loop with this many clients (default 1)")
    add("--rate", type=_above_0, metavar="PER_S", help="open loop at this many requests per second")
    add("--arrivals", choices=("poisson", "constant", "burst"), default="poisson")
    add("--burst", type=_at_least_1, default=8, help="requests in a burst, with --arrivals burst")
    add(
        "--ramp",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds over which clients join, or the rate rises",
    )
    add(
        "--sweep",
        type=_numbers,
        metavar="1,2,4",
        help="a round at each concurrency, or each rate with --rate",
    )
    add("--requests", type=_at_least_1, help="requests per round (default: four per client)")
    add("--duration", type=_above_0, metavar="S", help="start requests for this long instead")
    add("--warm-up", default="1", metavar="N|steady", help="requests before the measurement (default 1)")
    add("--max-tokens", type=_at_least_1, default=256)
    add("--temperature", type=float, default=0.0)
    add("--seed", type=int)
    add(
        "--ignore-eos",
        action="store_true",
        help="never stop early (inflates acceptance: see docs/metrics.md)",
    )
    add("--no-thinking", action="store_true", help="chat_template_kwargs enable_thinking=false")
    add("--extra-body", type=_json_object, default={}, metavar="JSON", help="further fields of every request")
    add("--prompt-chars-max", type=_at_least_1, help="cut prompts to this many characters")
    add("--unique-prefix", action="store_true", help="make every prompt start differently")
    add("--flush-cache", action="store_true", help="empty SGLang's prefix cache before each round")
    add("--timeout", type=_above_0, metavar="S", help="for a whole answer")
    add("--stall", type=_above_0, default=60.0, metavar="S", help="without a byte (default 60)")
    add(
        "--slo",
        type=_slo,
        metavar="ttft=0.5,tpot=0.05",
        help="limits in seconds for goodput: ttft, tpot, itl, e2e",
    )
    add("--workers", default="1", metavar="N|auto", help="client processes")
    add("--json", type=Path, metavar="FILE", help="write everything measured here")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Play, print, write. Exit status 0: all good; 1: requests failed; 8: the measurement is not to be trusted."""
    endpoint = Endpoint(args.server_url, args.model, key_of(args.api_key_env), args.api, args.transport)
    workload = _workload(args, endpoint)
    print(
        f"{workload.name}: {len(workload.prompts)} prompts, hash {workload.content_hash}, to {endpoint.root_url}"
    )
    rounds = []
    for load in _loads(args):
        live = _LiveLine(sys.stderr, str(load))
        try:
            round_ = _play(args, endpoint, workload, load, live)
        finally:
            live.clear()
        rounds.append(round_)
        if args.sweep is None:
            _print_round(round_, args.slo)
    if args.sweep is not None:
        _print_sweep(rounds, args.slo)
    _print_problems(rounds)
    if args.json is not None:
        _write_whole(args.json, json.dumps(document(endpoint, rounds, args.slo), indent=1))
        print(f"written: {args.json}")
    if any(r.faults for r in rounds):
        return 1
    return 8 if any(_invalid(r) for r in rounds) else 0


def document(endpoint: Endpoint, rounds: Sequence[Round], slo: metrics.SLO | None) -> dict[str, Any]:
    """All that was measured, as JSON-able data: metrics, faults, client health, and every request's timeline."""
    return {
        "format": 1,
        "server": {"url": endpoint.root_url, "model": endpoint.model, "api": endpoint.api},
        "client": {
            "machine": platform.node(),
            "python": platform.python_version(),
            "openai": version("openai"),
            "transport": "stamping" if endpoint.uses_stamping else "public",
        },
        "rounds": [_round_document(r, slo) for r in rounds],
    }


def _round_document(round_: Round, slo: metrics.SLO | None) -> dict[str, Any]:
    kinds = sorted({r.kind for r in round_.requests})
    return {
        "load": round_.load,
        "workload": round_.workload,
        "workload_hash": round_.workload_hash,
        "started_unix_s": round_.started_unix_s,
        "duration_s": round_.duration_s,
        "metrics": {name: asdict(value) for name, value in metrics.summarize(round_, slo).items()},
        "acceptance_by_kind": {kind: asdict(metrics.acceptance(round_, kind)) for kind in kinds},
        "invalid": [asdict(reason) for reason in _invalid(round_)],
        "client": asdict(round_.client),
        "requests": [
            {
                "index": r.index,
                "prompt": r.prompt,
                "kind": r.kind,
                "intended_s": r.intended_s,
                "started_s": r.started_s,
                "ended_s": r.ended_s,
                "prompt_tokens": r.prompt_tokens,
                "cached_tokens": r.cached_tokens,
                "completion_tokens": r.completion_tokens,
                "finish_reasons": r.finish_reasons,
                "fault": asdict(r.fault) if r.fault else None,
                "spec": asdict(r.spec) if r.spec else None,
                "t_s": [round(t, 6) for t in r.timeline.t_s.tolist()],
                "tokens": r.timeline.tokens.tolist(),
            }
            for r in round_.requests
        ],
    }


# what to play


def _play(
    args: argparse.Namespace, endpoint: Endpoint, workload: Workload, load: LoadShape, live: _LiveLine
) -> Round:
    sampling = Sampling(
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        seed=args.seed,
        seed_per_request=args.seed is not None,
        ignore_eos=args.ignore_eos,
        chat_template_kwargs={"enable_thinking": False} if args.no_thinking else None,
        extra_body=args.extra_body,
    )
    return play(
        endpoint,
        workload,
        load,
        sampling=sampling,
        timeout_s=args.timeout,
        stall_s=args.stall,
        warm_up=_warm_up(args.warm_up),
        flush_cache=args.flush_cache,
        unique_prefix=args.unique_prefix,
        workers="auto" if args.workers == "auto" else _whole(args.workers, "--workers"),
        progress=live.show,
    )


def key_of(name: str | None) -> str | None:
    """The API key that the variable ``name`` holds; ``None`` without a name. Raises LoadError where it holds none."""
    if name is not None and not os.environ.get(name):
        raise LoadError(f"--api-key-env {name}: there is no such environment variable, or it is empty")
    return os.environ[name] if name is not None else None


def _workload(args: argparse.Namespace, endpoint: Endpoint) -> Workload:
    shape, _, size = args.workload.partition(":")
    if shape == "random" and size:
        workload = workloads.random_tokens(_whole(size, "--workload random"))
    elif shape == "long" and size:
        workload = contexts.of_tokens(endpoint, _whole(size, "--workload long"))
    else:
        workload = workloads.load(args.workload)
    return workload.sized(prompt_chars_max=args.prompt_chars_max)


def _loads(args: argparse.Namespace) -> list[LoadShape]:
    if args.rate is not None and args.concurrency is not None:
        raise LoadError("give --concurrency (closed loop) or --rate (open loop), not both")
    if args.rate is not None:
        requests = None if args.duration else args.requests or 32
        shape = OpenLoop(
            args.rate, requests, args.duration, args.arrivals, args.burst, args.ramp, seed=args.seed or 0
        )
        return [replace(shape, rate_per_s=rate) for rate in args.sweep or [args.rate]]
    counts = [int(n) for n in args.sweep or [args.concurrency or 1]]
    if min(counts) < 1:
        raise LoadError("--sweep over concurrency needs whole numbers from 1 on")
    return [
        ClosedLoop(n, args.requests or (None if args.duration else 4 * n), args.duration, args.ramp)
        for n in counts
    ]


def _warm_up(text: str) -> WarmUp:
    return WarmUp(until_steady=True) if text == "steady" else WarmUp(_whole(text, "--warm-up"))


# what to show


class _LiveLine:
    """One line on a terminal that says how far a round is; on anything else, nothing."""

    def __init__(self, stream: TextIO, load: str) -> None:
        self._stream, self._load = stream, load
        self._seen: deque[tuple[float, int]] = deque()  # seconds, tokens

    def show(self, now: Progress) -> None:
        """Redraw. The rate is that of the last second."""
        if not self._stream.isatty():
            return
        rate = self._rate(now)
        total = f"/{now.total}" if now.total is not None else ""
        failed = f", {now.failed} FAILED" if now.failed else ""
        text = f"{self._load}: {now.phase} {now.elapsed_s:.0f} s, {now.done}{total} done, {now.in_flight} in flight"
        self._stream.write(f"\r\x1b[K{text}{rate}{failed}")
        self._stream.flush()

    def _rate(self, now: Progress) -> str:
        if self._seen and now.elapsed_s < self._seen[-1][0]:
            self._seen.clear()  # another phase
        self._seen.append((now.elapsed_s, now.tokens))
        while len(self._seen) > 1 and now.elapsed_s - self._seen[1][0] >= _RATE_OVER_S:
            self._seen.popleft()
        seconds, tokens = now.elapsed_s - self._seen[0][0], now.tokens - self._seen[0][1]
        return f", {tokens / seconds:.0f} tokens/s" if seconds > _RATE_OVER_S / 10 and tokens >= 0 else ""

    def clear(self) -> None:
        """Leave the line empty for what comes next."""
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _print_round(round_: Round, slo: metrics.SLO | None) -> None:
    values = metrics.summarize(round_, slo)
    good = len(round_.ok)
    print(f"{round_.load}: {good} of {len(round_.requests)} requests good, {round_.duration_s:.2f} s\n")
    print(f"{'metric':<24}{'unit':<13}{'value':>11}{'mean':>11}{'p90':>11}{'p99':>11}")
    for name in _ROWS:
        value = values[name]
        if value.value is None:
            print(f"{name:<24}{value.unit:<13}{'-':>11}  {value.reason}")
            continue
        rest = "".join(_cell(values.get(f"{name}.{tail}")) for tail in ("mean", "p90", "p99"))
        print(f"{name:<24}{value.unit:<13}{_cell(value)}{rest}".rstrip())
    told = metrics.acceptance(round_)
    if told.length is not None:
        shares = "  ".join(f"{i + 1}: {share:.3f}" for i, share in enumerate(told.per_position))
        print(f"{'accepted by position':<37}  {shares}")
    print(_health_line(round_))


def _print_sweep(rounds: Sequence[Round], slo: metrics.SLO | None) -> None:
    columns = {
        "out tok/s": "output_tokens_per_s",
        "req/s": "requests_per_s",
        "ttft s": "ttft_s",
        "ttft p99": "ttft_s.p99",
        "tpot s": "tpot_s",
        "itl p99": "itl_s.p99",
        "accept": "acceptance_length",
        "in flight": "concurrency_achieved",
        "goodput/s": "goodput_requests_per_s",
    }
    print(f"\n{'load':<38}{'good':>9}" + "".join(f"{title:>11}" for title in columns))
    for round_ in rounds:
        values = metrics.summarize(round_, slo)
        good = f"{len(round_.ok)}/{len(round_.requests)}"
        print(f"{round_.load:<38}{good:>9}" + "".join(_cell(values[name]) for name in columns.values()))


def _print_problems(rounds: Sequence[Round]) -> None:
    for round_ in rounds:
        for reason in _invalid(round_):
            print(f"INVALID ({round_.load}) {reason}")


def _health_line(round_: Round) -> str:
    client = round_.client
    return (
        f"\nclient: event loop late by {client.loop_lag_p99_s * 1e3:.1f} ms (p99), {client.cpu_share:.0%} of a core,"
        f" {client.chunks_per_s:.0f} chunks/s, {client.processes} process{'es' if client.processes > 1 else ''}"
    )


def _invalid(round_: Round) -> list[metrics.Invalid]:
    return metrics.validity(round_, cached_share_max=None)


def _cell(value: metrics.Value | None) -> str:
    if value is None or value.value is None:
        return f"{'-' if value is not None else '':>11}"
    number = value.value
    return f"{number:>11.1f}" if abs(number) >= 100 else f"{number:>11.4g}"


def _write_whole(path: Path, text: str) -> None:
    """The file appears whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


# words on the command line


def _typed(convert: Callable[[str], Any], good: Callable[[Any], bool], wanted: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not good(value):
            raise argparse.ArgumentTypeError(f"expected {wanted}, got {one_line(text, 80)!r}")
        return value

    return parse


_at_least_1 = _typed(int, lambda n: n >= 1, "a whole number from 1 on")
_above_0 = _typed(float, lambda n: 0 < n < math.inf, "a number above 0")
_json_object = _typed(json_of, lambda v: isinstance(v, dict), "a JSON object")
_numbers = _typed(
    lambda text: [float(part) for part in text.split(",")],
    lambda ns: min(ns) > 0 and max(ns) < math.inf,
    "numbers above 0 with commas between",
)


def _slo(text: str) -> metrics.SLO:
    limits = {}
    for part in text.split(","):
        name, _, limit = part.partition("=")
        if name not in ("ttft", "tpot", "itl", "e2e"):
            raise argparse.ArgumentTypeError(f"an SLO has ttft, tpot, itl and e2e, not {name!r}")
        limits[f"{name}_s"] = _above_0(limit)
    return metrics.SLO(**limits)


def _whole(text: str, option: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise LoadError(f"{option} expects a whole number, got {one_line(text, 80)!r}")
    return int(text)
