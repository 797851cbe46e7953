"""Which arm a running server is: by how its command line asks for speculation, or by what it resolved."""

from __future__ import annotations

import re

from suite.config import Arm, Target
from suite.redact import is_secret
from suite.sglang.flags import Flags, FlagValue, flags_within
from suite.sglang.server import ServerInfo, took_effect
from suite.sglang.speculation_sources import SWITCH, asked_by

SPECULATIVE = "speculative-"
SHAPE = ("speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens")
_ALIKE = {"EAGLE": "NEXTN", "FROZEN_KV_MTP": "NEXTN"}
"""What NEXTN may read like once resolved, or where somebody wrote the resolved name."""
_USUAL = ("mtp-off", "mtp-on")


def speculates(arm: Arm) -> bool:
    """Does an arm ask for speculation?"""
    return asked_by(Flags(arm.flags)) is not None


def arm_of(target: Target, info: ServerInfo) -> Arm | None:
    """The arm of ``target`` that asks for speculation as this server was asked, else a new one after its depth.

    Its flags are those of speculation alone: whatever else differs from the target is what runs. ``None`` where the
    server does not tell whether it speculates, and where all arms that do as it does ask for something else besides.
    """
    asked = _asked(info)
    if asked is None:
        if not info.speculation.known:
            return None
        asked = _resolved(info)
    names = [*(name for name in _USUAL if name in target.arms), *target.arms]
    alike = [
        arm
        for arm in (target.arms[name] for name in names)
        if not arm.env and _alike(_of_speculation(Flags(arm.flags)), asked)
    ]
    for arm in alike:
        name, own = arm.name, Flags(arm.flags)
        if _holds(own, info):
            return Arm(name=name, description=arm.description, flags=dict(_of_speculation(own)))
    if alike:
        return None
    return Arm(name=_name(asked), description="as it was found", flags=dict(asked))


def flags_of(target: Target, info: ServerInfo) -> dict[str, FlagValue]:
    """The flags that a server was started with, beside speculation: in the target's order and words where they agree.

    Where the server does not tell its command line, those of the target's that are in force.
    """
    own = Flags(target.flags)
    given = given_flags(info)
    if given is None:
        other = {difference.flag for difference in took_effect(own, info)}
        return {name: value for name, value in own.items() if name not in other and not _apart(name)}
    same = {name: own[name] for name in own if name in given and str(own[name]) == str(given[name])}
    rest = {name: given[name] for name in [*own, *given] if name in given and name not in same}
    whole = {**same, **rest}
    ordered = [*(name for name in own if name in whole), *(name for name in whole if name not in own)]
    return {name: whole[name] for name in ordered if not _apart(name)}


def _apart(name: str) -> bool:
    """Is a flag the arm's, the suite's to choose, or nobody's to see?"""
    return name.startswith(SPECULATIVE) or name in ("host", "port", "model-path", "config") or is_secret(name)


def given_flags(info: ServerInfo) -> Flags | None:
    """The server's command line (SGLang 0.5.20 and later); ``None`` where it does not tell it, or keeps it in a file."""
    if info.launch_command is None:
        return None
    try:
        given = flags_within(info.launch_command)
    except ValueError:
        return None
    return None if "config" in given else given


def _asked(info: ServerInfo) -> Flags | None:
    given = given_flags(info)
    return None if given is None else _of_speculation(given)


def _resolved(info: ServerInfo) -> Flags:
    """What asks for what it resolved to: the algorithm alone, for its depth may be SGLang's own choice."""
    algorithm = info.speculation.algorithm
    return Flags({SWITCH: algorithm} if algorithm is not None else {})


def _of_speculation(flags: Flags) -> Flags:
    shortened = asked_by(flags)
    return Flags(
        {SWITCH if n == shortened else n: value for n, value in flags.items() if n.startswith(SPECULATIVE)}
    )


def _alike(own: Flags, asked: Flags) -> bool:
    return {name: _plain(name, value) for name, value in own.items()} == {
        name: _plain(name, value) for name, value in asked.items()
    }


def _plain(name: str, value: FlagValue) -> str:
    text = str(value)
    return _ALIKE.get(text.upper(), text.upper()) if name == SWITCH else text


def _holds(flags: Flags, info: ServerInfo) -> bool:
    """Are an arm's other flags in force, as far as an arm is told from others by them (a cache made small)?"""
    others = {name: value for name, value in flags.items() if not name.startswith(SPECULATIVE)}
    return all(
        str(info.resolved.get(name.replace("-", "_"))) == str(value)
        for name, value in others.items()
        if name not in ("mem-fraction-static",)  # room for the draft's weights, no arm of its own
    )


def _name(asked: Flags) -> str:
    """A name for speculation of no arm of the target's: ``mtp-eagle-5-1-6``."""
    if not asked:
        return "mtp-off"
    parts = ["mtp", str(asked.get(SWITCH, "half")), *(str(asked[name]) for name in SHAPE if name in asked)]
    return re.sub(r"[^a-z0-9._-]+", "-", "-".join(parts).lower())
