"""SGLang's command line as argparse sees it, built from the flag table, plus the simulator's own few flags."""

from __future__ import annotations

import argparse
import json
import os
import re
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from simulator import faults, profiles
from simulator.config_file import merge_config_file

_TABLE = Path(__file__).parent / "data" / "server_args.json"
_SUFFIXES = {
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
LATEST = "0.5.23"
FAULT_VARIABLE = "SIMULATED_FAULT"
"""Names faults as --fault does, for who must not see them on the command line."""

# Flags that earlier releases had and 0.5.20 removed.
_UNTIL_0_5_19 = ("--mamba-scheduler-strategy", "--cuda-graph-max-bs")


@dataclass(frozen=True, slots=True)
class OwnFlags:
    """The flags that no SGLang has."""

    faults: tuple[str, ...] = ()
    profile: str = "quick"
    seed: int | None = None
    noise: float | None = None
    launch_effect: float | None = None
    session_effect: float = 0.0
    version: str = LATEST
    start_s: float | None = None
    gpu_state: str | None = None


@dataclass(frozen=True, slots=True)
class Arguments:
    """A parsed command line: SGLang's settings that were given, the simulator's own, and the line itself."""

    given: dict[str, Any]
    own: OwnFlags
    launch_command: str
    warnings: tuple[str, ...] = field(default=())


@cache
def table() -> list[dict[str, Any]]:
    """Every server argument of SGLang 0.5.23: name, flags, kind, choices, and the value /server_info reports unset."""
    rows: list[dict[str, Any]] = json.loads(_TABLE.read_text())
    return rows


def release(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: 0.5.9 before 0.5.20."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def exists(row: dict[str, Any], version: str) -> bool:
    """Did this release have the argument? Told for 0.5.19, 0.5.21 and later, as far as captures show."""
    return release(row.get("since", "0.0.0")) <= release(version)


def parse(argv: list[str]) -> Arguments:
    """Parse a command line as `sglang.launch_server` does.

    Exits 0 for --help and --list-faults, 2 (with usage, as argparse does) for what SGLang or the simulator
    does not know. Raises ValueError for a bad --config file, as SGLang does.
    """
    own_parser = _own_parser()
    own, rest = own_parser.parse_known_args(argv)
    if own.list_faults:
        print(faults.listing())
        own_parser.exit(0)
    try:
        removed = faults.behaviour_of(own.fault).removed_flags
        profiles.load(own.profile)
    except ValueError as error:
        own_parser.error(str(error))
    parser = _sglang_parser(own.sglang_version, removed)
    rest = merge_config_file(parser, rest)
    given = vars(parser.parse_args(rest))
    return Arguments(
        given={name: value for name, value in given.items() if name != "config"},
        own=OwnFlags(
            faults=tuple(own.fault),
            profile=own.profile,
            seed=own.simulator_seed,
            noise=own.noise,
            launch_effect=own.launch_effect,
            session_effect=own.session_effect,
            version=own.sglang_version,
            start_s=own.start_seconds,
            gpu_state=own.gpu_state,
        ),
        launch_command=" ".join(rest),
    )


def _own_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulator", add_help=False, allow_abbrev=False)
    parser.add_argument("--fault", action="append", default=[], metavar="NAME[=STRENGTH]")
    parser.set_defaults(fault=[text for text in [os.environ.get(FAULT_VARIABLE, "")] if text])
    parser.add_argument("--list-faults", action="store_true")
    parser.add_argument("--profile", default="quick")
    parser.add_argument("--simulator-seed", type=int)
    parser.add_argument("--noise", type=float, metavar="CV")
    parser.add_argument("--launch-effect", type=float, metavar="CV")
    parser.add_argument("--session-effect", type=float, default=0.0, metavar="FRACTION")
    parser.add_argument("--sglang-version", default=LATEST)
    parser.add_argument("--start-seconds", type=float)
    parser.add_argument("--gpu-state", metavar="FILE")
    return parser


def _sglang_parser(version: str, removed: tuple[str, ...]) -> argparse.ArgumentParser:
    """SGLang's parser; unset arguments stay out of the namespace, resolution fills them in."""
    parser = argparse.ArgumentParser(prog="sglang serve", argument_default=argparse.SUPPRESS)
    for row in table():
        flags = [flag for flag in row.get("flags", ()) if flag not in removed]
        if flags and exists(row, version):
            parser.add_argument(*flags, **_options(row))
    parser.add_argument("--config", type=str)
    if release(version) < (0, 5, 20):
        for flag in _UNTIL_0_5_19:
            parser.add_argument(flag)
    return parser


def _options(row: dict[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {"dest": row["name"]}
    kind = row["kind"]
    if kind == "switch":
        return options | {"action": "store_true"}
    if kind == "optional-switch":
        return options | {"action": argparse.BooleanOptionalAction}
    options["type"] = {"int": int, "size": _size, "float": float, "json": json.loads}.get(kind, str)
    for key in ("choices", "nargs", "const"):
        if key in row:
            options[key] = row[key]
    if row["name"] == "model_path":
        options["required"] = True
    return options


def _size(text: str) -> int:
    """A whole number, or one with an SI or IEC suffix: 25.6k, 8Ki."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(Ki|Mi|Gi|Ti|k|M|G|T)", text.strip())
    return int(Decimal(match[1]) * _SUFFIXES[match[2]]) if match else int(text)
