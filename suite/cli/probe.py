"""``python -m suite doctor`` and ``python -m suite probe``: what is true, on a terminal."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from suite import config
from suite.cli import shared
from suite.config import Suite, Target
from suite.doctor import Line, examine
from suite.gate.baselines import BaselineStore
from suite.hosts import Host, LocalHost, open_host
from suite.probes import checkpoint, gpus, installation
from suite.sglang.flags import parse_argv
from suite.terminal.figures import times

_WIDTH = 20


def add_doctor(subparsers: shared.Subparsers) -> None:
    """Add ``doctor`` to the suite's commands."""
    text = "check that a target is fit to be measured, without a launch; about a minute"
    doctor = subparsers.add_parser("doctor", help=text, description=text)
    shared.add_target(doctor)
    doctor.add_argument(
        "--build",
        action="append",
        default=[],
        metavar="BUILD",
        help="an interpreter here, or a release (0.5.23), that resolves the arms if the target's host cannot",
    )
    doctor.add_argument(
        "--load",
        action="store_true",
        help="also load the GPUs for five seconds and look for a slow, hot or badly linked one",
    )
    shared.add_paths(doctor, "--suite-config", "--baselines")
    doctor.set_defaults(func=run_doctor)


def add_parsers(subparsers: shared.Subparsers) -> None:
    """Add ``probe`` with its things to the suite's commands."""
    text = "look at one thing: an SGLang, a checkpoint, the GPUs"
    probe = subparsers.add_parser("probe", help=text, description=text)
    things = probe.add_subparsers(title="things", required=True, metavar="THING")
    sglang = _thing(things, "sglang", run_sglang, "where the source of an SGLang can switch speculation on")
    sglang.add_argument(
        "path", metavar="PATH", help="an interpreter, a package's directory, a checkout or a wheel"
    )
    sglang.add_argument(
        "--all", action="store_true", help="also show tests, benchmarks and places that only pass it on"
    )
    sglang.add_argument(
        "--resolve", nargs=argparse.REMAINDER, metavar="FLAG", help="resolve this command line instead"
    )
    made = _thing(things, "checkpoint", run_checkpoint, "does a checkpoint have MTP heads?")
    made.add_argument("path", metavar="PATH", help="its folder, or its name in the Hugging Face cache")
    made.add_argument(
        "--revision", metavar="NAME", help="its branch, tag or commit in that cache (default: main)"
    )
    _thing(things, "gpus", run_gpus, "the GPUs, as nvidia-smi sees them")


def _thing(things: shared.Subparsers, name: str, func: Any, text: str) -> argparse.ArgumentParser:
    parser = things.add_parser(name, help=text, description=text)
    parser.add_argument(
        "--host",
        metavar="NAME",
        default="local",
        help="where: a host of suite.toml, or [user@]address (default: here)",
    )
    shared.add_paths(parser, "--suite-config")
    parser.add_argument("--json", action="store_true", help="write JSON")
    parser.set_defaults(func=func)
    return parser


def run_doctor(arguments: argparse.Namespace) -> int:
    """Print a line for everything; 1 when there is a problem."""
    suite = config.load(arguments.suite_config)
    target = suite.target(arguments.target)
    print(f"target {target.name}: {target.description or target.model}\n")
    counted = Counter[str]()
    for line in _baseline_last(
        examine(suite, target, arguments.build, arguments.load), suite, target, arguments.baselines
    ):
        _print(line)
        counted[line.status] += 1
    print(f"\n{_verdict(counted['problem'], counted['warning'])}")
    return 1 if counted["problem"] else 0


def _verdict(problems: int, warnings: int) -> str:
    aside = f", with {times(warnings, 'warning', 'warnings')}" if warnings else ""
    told = times(problems, "problem", "problems")
    return f"not fit to be measured: {told}" if problems else f"fit to be measured{aside}"


def _baseline_last(lines: Iterable[Line], suite: Suite, target: Target, directory: Path) -> Iterable[Line]:
    yield from lines
    stored, unreadable = BaselineStore(suite.path.resolve().parent / directory, target.name).all()
    for error in unreadable:
        yield Line("problem", "baseline", str(error))
    if stored:
        newest = max(baseline.current.date for baseline in stored)
        yield Line("ok", "baseline", f"{len(stored)} stored, the newest of {newest}")
    else:
        record = f"pytest -m perf --target {target.name} --record-baseline"
        yield Line("warning", "baseline", "none: everything would be unjudged", record)


def _print(line: Line) -> None:
    """On a terminal wrapped under its own column; elsewhere one line each, for grep."""
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000
    under = " " * (_WIDTH + 10)
    lines = textwrap.wrap(line.said, max(40, columns - len(under)), break_on_hyphens=False) or [""]
    print(f"{line.status:8} {line.what:{_WIDTH}} {lines[0]}", flush=True)
    for more in lines[1:]:
        print(under + more, flush=True)
    if line.todo:
        print(f"{under}-> {line.todo}", flush=True)


def run_sglang(arguments: argparse.Namespace) -> int:
    """Print where speculation can get a value; 1 when the server's own code can switch it on by itself."""
    with _host(arguments) as host:
        python, path = _interpreter_or_path(arguments.path, host)
        if arguments.resolve is not None:
            return _resolve(host, python, arguments)
        found = installation.scan(host, python, path)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        _print_scan(found, arguments.all)
    return 1 if found.activations else 0


def _interpreter_or_path(given: str, host: Host) -> tuple[str, str | None]:
    """A directory or a wheel is read by the host's ``python3``; anything else is an interpreter."""
    if given.endswith(".whl"):
        return "python3", given
    is_directory = host.run(["test", "-d", given], timeout_s=20.0).code == 0
    return ("python3", given) if is_directory else (given, None)


def _resolve(host: Host, python: str, arguments: argparse.Namespace) -> int:
    outcome = installation.resolve(host, python, parse_argv(arguments.resolve))
    if isinstance(outcome, installation.Resolved):
        print(json.dumps(dict(outcome.settings), indent=2) if arguments.json else str(outcome.speculation))
        return 0
    print(outcome.reason)
    return 1


_TITLES = {
    "activation": "Could switch speculation on by itself",
    "alias": "Resolves an algorithm that was asked for (NEXTN and the like)",
    "input": "Takes over a value that a message names",
    "reset": "Switches speculation off",
    "declaration": "Declares the setting, default off",
}


def _print_scan(found: installation.Scanned, everything: bool) -> None:
    installed = found.installation
    commit = f", commit {installed.commit}" if installed.commit else ""
    print(f"SGLang {installed.version}{commit} in {installed.root}")
    if installed.beside:
        print("with " + ", ".join(f"{name} {version}" for name, version in installed.beside.items()))
    print(f"{found.files} files read, the {found.parsed} that mention the setting parsed")
    for meaning, title in _TITLES.items():
        _print_sites(title, found.of(meaning))
    if everything:
        _print_sites("Hands it on", found.of("copy"))
        for meaning in _TITLES:
            _print_sites(
                f"Outside the server (tests, benchmarks): {meaning}", found.of(meaning, server=False)
            )
    for plugin in installed.plugins:
        print(f"\nPlugin loaded into the server: {plugin.distribution}, {plugin.group}: {plugin.value}")
    for file, why in found.unread:
        print(f"\nNot read: {file}: {why}")
    print(f"\n{_conclusion(found)}")


def _print_sites(title: str, sites: list[installation.Site]) -> None:
    if sites:
        print(f"\n{title}:")
        for site in sites:
            print(f"  {site.file}:{site.line}  [{site.kind}] {site.function}\n      {site.text}")


def _conclusion(found: installation.Scanned) -> str:
    if found.activations:
        return f"{len(found.activations)} places could switch speculation on unasked: read them."
    if found.blind:
        return "speculative_algorithm is declared nowhere: it was renamed, and this scan proves nothing."
    return "Nothing in the server's own code switches speculation on unless it is asked for."


def run_checkpoint(arguments: argparse.Namespace) -> int:
    """Print what a checkpoint declares and holds; 1 when something is wrong with it."""
    with _host(arguments) as host:
        found = checkpoint.read(host, arguments.path, revision=arguments.revision)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
        return 1 if found.problems else 0
    print(
        f"{found.path}\n{', '.join(found.architectures) or 'no architecture named'}, {found.tensors} tensors in {found.shards} shards"
    )
    print(f"quantization: {found.quantization or 'none declared'}\n{found}")
    for problem in found.problems:
        print(f"problem: {problem}")
    for doubt in found.doubts:
        print(f"doubt: {doubt}")
    return 1 if found.problems else 0


def run_gpus(arguments: argparse.Namespace) -> int:
    """Print the cards; 1 when there is no telling."""
    with _host(arguments) as host:
        found = gpus.read(host)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
        return 1 if isinstance(found, gpus.NoGpus) or gpus.card_faults(found.gpus) else 0
    if isinstance(found, gpus.NoGpus):
        print(f"{found.why}: {found.message}")
        return 1
    for gpu in found.gpus:
        slowed = ", ".join(gpu.slowed_by) or "nothing"
        print(
            f"GPU {gpu.index}  {gpu.name}  sm {gpu.compute_capability}  {_unit(gpu.temperature_c, 'C')}  "
            f"{_unit(gpu.power_w, 'W')} of {_unit(gpu.power_limit_w, 'W')}  SM {_unit(gpu.sm_clock_mhz, 'MHz')}  "
            f"{_unit(gpu.memory_used_mib, 'MiB')} of {_unit(gpu.memory_total_mib, 'MiB')}  slowed by: {slowed}"
        )
    for process in found.processes:
        print(
            f"process {process.pid} ({process.name}) uses {_unit(process.memory_mib, 'MiB')} on {process.uuid}"
        )
    return 0


def _unit(value: float | None, unit: str) -> str:
    return "?" if value is None else f"{value:g} {unit}"


def _host(arguments: argparse.Namespace) -> Host:
    """The host called so in suite.toml; without such a file or table, the address itself."""
    if arguments.host == "local":
        return LocalHost()
    if arguments.suite_config.exists():
        suite = config.load(arguments.suite_config)
        if arguments.host in suite.hosts:
            return open_host(suite.host(arguments.host))
    return open_host(config.HostTable(name=arguments.host, ssh=arguments.host))
