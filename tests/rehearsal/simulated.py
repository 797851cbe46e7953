"""What the simulator reports in /server_info for a command line, or its last words, without a port or a process."""

from __future__ import annotations

from typing import Any

from simulator import checkpoint, profiles
from simulator.arguments import parse
from simulator.faults import behaviour_of
from simulator.resolution import LaunchError, resolve


def resolved(argv: list[str]) -> dict[str, Any] | str:
    """The settings, or the last line of the log of a server that does not start."""
    arguments = parse(argv)
    try:
        return resolve(
            arguments,
            checkpoint.read(arguments.given["model_path"]),
            profiles.load("rtx-pro-6000-x4"),
            behaviour_of(arguments.own.faults),
        ).settings
    except LaunchError as error:
        return str(error)
