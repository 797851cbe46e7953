"""`python -m suite load`: play a workload against any OpenAI-compatible server; a live line, then a table and JSON."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from suite.cli.load_arguments import above_0, at_least_1, json_object, key_of, numbers, slo, whole
from suite.cli.load_shown import LiveLine, document, invalid, print_problems, print_round, print_sweep
from suite.load import (
    ClosedLoop,
    Endpoint,
    LoadError,
    LoadShape,
    OpenLoop,
    Round,
    Sampling,
    WarmUp,
    Workload,
    contexts,
    play,
    workloads,
)
from suite.whole import write_whole

_WORKLOAD_HELP = f"{', '.join(workloads.KINDS)}; several joined by +; random:TOKENS; long:TOKENS; or a path to a .jsonl file (default: code)"


_TEXT = "send a workload to any OpenAI-compatible server and measure it"


def add_parser(subparsers: Any) -> None:
    """Add the `load` subcommand; its function is left in `func`."""
    parser = subparsers.add_parser("load", help=_TEXT, description=_TEXT)
    add = parser.add_argument
    add("--server-url", metavar="URL", required=True, help="for example http://127.0.0.1:30000")
    add("--model", metavar="NAME", help="model to ask for (default: the first that the server lists)")
    add("--api", choices=("chat", "completions"), default="chat", help="endpoint (default: chat)")
    add("--api-key-env", metavar="NAME", help="environment variable that holds its API key")
    add(
        "--transport",
        choices=("auto", "stamping", "public"),
        default="auto",
        help="how the client reads: stamping takes the kernel's receive times, public is openai's own client (default: auto)",
    )
    add("--workload", metavar="WORKLOAD", default="code", help=_WORKLOAD_HELP)
    add("--concurrency", metavar="N", type=at_least_1, help="closed loop with this many clients (default: 1)")
    add("--rate", type=above_0, metavar="PER_S", help="open loop at this many requests per second")
    add(
        "--arrivals",
        choices=("poisson", "constant", "burst"),
        default="poisson",
        help="with --rate: how requests are spaced (default: poisson)",
    )
    add(
        "--burst",
        metavar="N",
        type=at_least_1,
        default=8,
        help="with --arrivals burst: requests per burst (default: 8)",
    )
    add(
        "--ramp",
        type=float,
        default=0.0,
        metavar="S",
        help="seconds over which clients join or the rate rises (default: 0)",
    )
    add(
        "--sweep",
        type=numbers,
        metavar="1,2,4",
        help="one round at each concurrency, or at each rate if --rate is given",
    )
    add("--requests", metavar="N", type=at_least_1, help="requests per round (default: four per client)")
    add("--duration", type=above_0, metavar="S", help="start requests for S seconds, instead of --requests")
    add(
        "--warm-up",
        default="1",
        metavar="N|steady",
        help="requests before the measurement, or until speed is steady (default: 1)",
    )
    add(
        "--max-tokens",
        metavar="N",
        type=at_least_1,
        default=256,
        help="output tokens per answer, at most (default: 256)",
    )
    add("--temperature", metavar="T", type=float, default=0.0, help="sampling temperature (default: 0)")
    add("--seed", metavar="N", type=int, help="seed of sampling (plus the request's number) and of arrivals")
    add(
        "--ignore-eos",
        action="store_true",
        help="never stop early (inflates acceptance, see docs/metrics.md)",
    )
    add("--no-thinking", action="store_true", help="switch thinking off by chat_template_kwargs")
    add("--extra-body", type=json_object, default={}, metavar="JSON", help="more fields for every request")
    add("--prompt-chars-max", metavar="N", type=at_least_1, help="cut prompts to N characters")
    add("--unique-prefix", action="store_true", help="make every prompt start differently")
    add("--flush-cache", action="store_true", help="empty SGLang's prefix cache before each round")
    add("--timeout", type=above_0, metavar="S", help="give a request up after S seconds")
    add(
        "--stall",
        type=above_0,
        default=60.0,
        metavar="S",
        help="give a request up after S seconds without a byte (default: 60)",
    )
    add(
        "--slo",
        type=slo,
        metavar="ttft=0.5,tpot=0.05",
        help="limits in seconds for goodput: ttft, tpot, itl, e2e",
    )
    add("--workers", default="1", metavar="N|auto", help="client processes (default: 1)")
    add("--json", type=Path, metavar="FILE", help="write all measurements to this file")
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
        live = LiveLine(sys.stderr, str(load))
        try:
            round_ = _play(args, endpoint, workload, load, live)
        finally:
            live.clear()
        rounds.append(round_)
        if args.sweep is None:
            print_round(round_, args.slo)
    if args.sweep is not None:
        print_sweep(rounds, args.slo)
    print_problems(rounds)
    if args.json is not None:
        write_whole(args.json, json.dumps(document(endpoint, rounds, args.slo), indent=1))
        print(f"written: {args.json}")
    if any(r.faults for r in rounds):
        return 1
    return 8 if any(invalid(r) for r in rounds) else 0


def _play(
    args: argparse.Namespace, endpoint: Endpoint, workload: Workload, load: LoadShape, live: LiveLine
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
        workers="auto" if args.workers == "auto" else whole(args.workers, "--workers"),
        progress=live.show,
    )


def _workload(args: argparse.Namespace, endpoint: Endpoint) -> Workload:
    shape, _, size = args.workload.partition(":")
    if shape == "random" and size:
        workload = workloads.random_tokens(whole(size, "--workload random"))
    elif shape == "long" and size:
        workload = contexts.of_tokens(endpoint, whole(size, "--workload long"))
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
    return WarmUp(until_steady=True) if text == "steady" else WarmUp(whole(text, "--warm-up"))
