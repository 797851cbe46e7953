"""Did every flag of an arm take effect? Asked for against resolved, knowing what SGLang resolves on purpose."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from suite.redact import is_secret
from suite.sglang import names
from suite.sglang.flags import Flags, FlagValue
from suite.sglang.server.info import ServerInfo

ALGORITHM_ALIASES: dict[str, tuple[str, ...]] = {
    "NEXTN": ("EAGLE", "FROZEN_KV_MTP"),
    "EAGLE": ("EAGLE", "FROZEN_KV_MTP"),
}
"""What ``--speculative-algorithm`` may resolve to: FROZEN_KV_MTP with a Gemma 4 assistant draft."""

_ELSEWHERE = frozenset({"port", "host", "config", "model-path", "tokenizer-path", "served-model-name"})
"""Proved by talking to the server at all, secret, or rewritten to a place on its disk."""

_OFF = (None, False, "", "none", "NONE", "null")


@dataclass(frozen=True, slots=True)
class FlagDifference:
    """One flag, what was asked, what is in force, and a sentence about it."""

    flag: str
    asked: FlagValue
    resolved: Any
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def took_effect(asked: Flags, info: ServerInfo) -> list[FlagDifference]:
    """The flags of ``asked`` that the server did not follow, each with a sentence; empty when all took effect.

    What SGLang documents as its own resolution is no difference: ``NEXTN`` to ``EAGLE``, a value of
    ``auto``, draft tokens set to steps + 1 when topk is 1; nor is what the server does not report.
    """
    found = []
    for flag, value in asked.items():
        whole = _whole(flag, info)
        if whole in _ELSEWHERE or is_secret(whole):
            continue
        if whole.startswith("speculative-"):
            finding = _speculative(whole, value, info)
        elif whole in _ROOM:
            finding = _plain(whole, value, info) or _ROOM[whole](value, info)
        else:
            finding = _plain(whole, value, info)
        if finding is not None:
            resolved, sentence = finding
            found.append(FlagDifference(flag, value, resolved, f"{_shown(flag, value)}: {sentence}"))
    return found


def _whole(flag: str, info: ServerInfo) -> str:
    """``flag`` in full, where argparse would have taken it for a beginning: the one setting that starts so."""
    setting = names.setting_of(flag)
    if setting in info.resolved or names.other_names(setting):
        return flag
    fitting = {name.partition(".")[0] for name in info.resolved if name.startswith(setting)}
    return fitting.pop().replace("_", "-") if len(fitting) == 1 else flag


_Finding = tuple[Any, str] | None


def _plain(flag: str, value: FlagValue, info: ServerInfo) -> _Finding:
    setting, wanted = _setting(flag, value, info)
    if setting is None:  # not reported
        return None
    resolved = info.resolved[setting]
    if _same(wanted, resolved) or _of_another_shape(wanted, resolved) or str(wanted).lower() == "auto":
        return None
    return resolved, f"did not take effect: {setting} is {_text(resolved)}"


def _setting(flag: str, value: FlagValue, info: ServerInfo) -> tuple[str | None, FlagValue]:
    """The reported setting that ``flag`` sets and the value it should have; ``None`` when none is reported.

    A setting that stays null while its newer place is filled in (``cuda_graph_max_bs_decode`` and
    ``cuda_graph_config.decode.max_bs``) is looked up in its newer place.
    """
    setting = names.setting_of(flag)
    spellings = (setting, *names.other_names(setting))
    reported = [name for name in spellings if name in info.resolved]
    filled = [name for name in reported if info.resolved[name] is not None]
    if filled or reported:
        return (filled or reported)[0], value
    if flag.startswith("no-") and value is True:  # argparse's BooleanOptionalAction
        positive = names.setting_of(flag.removeprefix("no-"))
        if positive in info.resolved:
            return positive, False
    return None, value


def _speculative(flag: str, value: FlagValue, info: ServerInfo) -> _Finding:
    speculation = info.speculation
    if not speculation.known:
        return None
    if flag == "speculative-algorithm":
        return _algorithm(str(value), speculation.algorithm)
    if not speculation.on:
        return None, "has no effect: speculative_algorithm is null, so the server does not speculate"
    if speculation.adaptive and flag in ("speculative-num-steps", "speculative-num-draft-tokens"):
        return None  # only where it starts
    forced = (
        speculation.num_steps + 1 if speculation.topk == 1 and speculation.num_steps is not None else None
    )
    if flag == "speculative-num-draft-tokens" and forced is not None and speculation.draft_tokens == forced:
        return None  # with topk 1 SGLang forces it
    return _plain(flag, value, info)


def _algorithm(wanted: str, resolved: str | None) -> _Finding:
    name = wanted.upper()
    if resolved is None:
        if name in ("NONE", ""):
            return None
        return None, "did not take effect: speculative_algorithm is null, the server does not speculate"
    if resolved.upper() == name or resolved.upper() in ALGORITHM_ALIASES.get(name, ()):
        return None
    return resolved, f"did not take effect: speculative_algorithm is {resolved}"


def _running_requests(value: FlagValue, info: ServerInfo) -> _Finding:
    """The setting stays as asked where memory leaves room for fewer."""
    counts = [state.get("effective_max_running_requests_per_dp") for state in info.states]
    room = sum(count for count in counts if isinstance(count, int))
    wanted = _number(value)
    if wanted is None or not room or room >= wanted:
        return None
    return room, f"did not take effect: memory leaves room for {room} requests at once"


def _total_tokens(value: FlagValue, info: ServerInfo) -> _Finding:
    """As for requests, but each data-parallel rank takes it as its own; a little less is rounding to whole pages."""
    wanted, room = _number(value), min(info.rank_capacities, default=None)
    if wanted is None or room is None or room >= 0.95 * wanted:
        return None
    return room, f"did not take effect: memory leaves room for {room} tokens"


_ROOM: dict[str, Callable[[FlagValue, ServerInfo], _Finding]] = {
    "max-running-requests": _running_requests,
    "max-total-tokens": _total_tokens,
}


def _same(wanted: Any, resolved: Any) -> bool:
    """Does a value from a command line (often text) say the same as one from JSON?"""
    if isinstance(wanted, bool) or isinstance(resolved, bool):
        return _truth(wanted) is _truth(resolved)
    if isinstance(wanted, tuple):
        return isinstance(resolved, list) and [str(v) for v in wanted] == [str(v) for v in resolved]
    if isinstance(resolved, list):
        return [str(wanted)] == [str(v) for v in resolved]
    number, other = _number(wanted), _number(resolved)
    if number is not None and other is not None:
        return abs(number - other) <= 1e-9 * max(abs(number), abs(other))
    if resolved is None:
        return str(wanted).lower() in ("none", "null", "")
    if isinstance(resolved, dict):
        return bool(_json(wanted) == resolved)
    return str(wanted).lower() == str(resolved).lower() or (
        isinstance(resolved, str) and _json(wanted) is not None and _json(wanted) == _json(resolved)
    )


def _of_another_shape(wanted: Any, resolved: Any) -> bool:
    """Was text read into a record (``NAME=PATH`` into a table)? Then only SGLang knows whether it is the same."""
    records = resolved if isinstance(resolved, list) else [resolved]
    return any(isinstance(record, dict) for record in records) and not isinstance(_json(wanted), dict | list)


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    if value in _OFF:
        return False
    return {"true": True, "1": True, "false": False, "0": False}.get(str(value).lower())


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def _json(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _text(value: Any) -> str:
    return "null" if value is None else json.dumps(value) if isinstance(value, dict | list) else str(value)


def _shown(flag: str, value: FlagValue) -> str:
    return " ".join(Flags({flag: value}).shown())
