"""Where speculation can come from when no flag asks for it: every way that this server was given is named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import yaml

from suite.foreign import one_line
from suite.sglang.flags import Flags

SWITCH = "speculative-algorithm"
LOADING = frozenset({"SGLANG_PLUGINS", "SGLANG_PLATFORM"})
"""Variables by which SGLang loads code of others (``sglang/srt/plugins``, ``sglang/srt/platforms``)."""


def asked_by(flags: Flags) -> str | None:
    """The flag by which a command line asks for speculation, as it is written; argparse takes shortened ones.

    ``--speculative-al`` and longer beginnings are the switch: shorter ones fit other flags as well.
    """
    least = len("speculative-al")
    return next((name for name in flags if SWITCH.startswith(name) and len(name) >= least), None)


def in_file(text: str) -> str | None:
    """The setting of a ``--config`` file that asks for speculation, as ``KEY: VALUE``, or ``None``.

    A file that is no YAML table asks for nothing: SGLang does not start with it.
    """
    try:
        settings = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    if not isinstance(settings, dict):
        return None
    for key, value in settings.items():
        if value not in (None, "", False) and asked_by(Flags({str(key): True})):
            return f"{key}: {one_line(str(value), 60)}"
    return None


def named(
    flags: Flags,
    env: Mapping[str, str],
    config_text: str | None,
    plugins: Sequence[str] = (),
    sites: Sequence[str] = (),
) -> list[str]:
    """Every place that could have switched speculation on, a sentence each.

    Args:
        flags: the command line.
        env: the server's variables, as far as they are known.
        config_text: what its ``--config`` file holds, if it has one that could be read.
        plugins: entry points of installed packages that SGLang loads.
        sites: lines of the installed source that give ``speculative_algorithm`` a value by themselves.
    """
    found = []
    if flag := asked_by(flags):
        found.append(f"the flag --{flag} {flags[flag]}")
    if config_text is not None and (line := in_file(config_text)):
        found.append(f"the file of --config {flags['config']}: {line!r}")
    found += [f"the variable {name}={value}" for name, value in env.items() if _can_switch(name, value)]
    found += [f"the plugin {plugin}" for plugin in plugins]
    found += [f"the source, {site}" for site in sites]
    return found


def _can_switch(name: str, value: str) -> bool:
    """Does a variable load foreign code, or speak of speculation as a wrapper's own would?"""
    return bool(value) and (name in LOADING or "speculative" in f"{name}={value}".lower())
