"""`--config FILE.yaml`: flags from a file, put before those of the command line, which therefore win."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import yaml


def merge_config_file(parser: argparse.ArgumentParser, argv: list[str]) -> list[str]:
    """The command line with the file's flags in front; the same list when no `--config` is in it.

    Raises ValueError, as SGLang does, for a missing file, another suffix, or a file that is not a mapping.
    """
    if "--config" not in argv:
        return argv
    place = argv.index("--config")
    if argv.count("--config") > 1:
        raise ValueError("Multiple config files specified! Only one allowed.")
    if place == len(argv) - 1:
        raise ValueError("No config file specified after --config flag!")
    path = Path(argv[place + 1])
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise ValueError(f"Config file must be YAML format, got: {path.suffix}")
    if not path.exists():
        raise ValueError(f"Config file not found: {path}")
    switches = {name for action in parser._actions if action.nargs == 0 for name in _spellings(action)}
    flags: list[str] = []
    for key, value in _mapping(path.read_text()).items():
        flags += _flags(key, value, key.replace("-", "_") in switches)
    return flags + argv[:place] + argv[place + 2 :]


def _spellings(action: argparse.Action) -> set[str]:
    return {action.dest} | {option.lstrip("-").replace("-", "_") for option in action.option_strings}


def _flags(key: str, value: Any, is_switch: bool) -> list[str]:
    flag = "--" + key.replace("_", "-")
    if isinstance(value, bool):
        if is_switch:
            return [flag] if value else []
        return [flag, str(value).lower()]
    if isinstance(value, list):
        return [flag, *map(str, value)]
    return [] if value is None else [flag, json.dumps(value) if isinstance(value, dict) else str(value)]


def _mapping(text: str) -> dict[str, Any]:
    data = yaml.safe_load(text)
    if not isinstance(data, dict):
        raise ValueError("Config file must contain a dictionary at root level")
    return data
