"""What an upgrade would change for a target's command lines, told from two rehearsals before a GPU is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from suite.rehearsal.answers import LATER, Answer, Rehearsal
from suite.sglang import config_diff, names
from suite.sglang.flags import Flags

RANDOM = frozenset({"random_seed", "nccl_port"})
"""Settings that a server draws anew at each start."""
_OFF: tuple[Any, ...] = (None, False, "", 0, [], {})
_SHOWN = 12


class TurnedArms(msgspec.Struct, frozen=True):
    """Arms whose outcome is another: refused, not decided, or speculating otherwise."""

    arms: list[str]
    before: str
    after: str
    worse: bool
    """Does the new build refuse them, or not do what they mean, where the old one did?"""


class Flip(msgspec.Struct, frozen=True):
    """One setting that resolves otherwise with the same command line, and the arms where it does."""

    setting: str
    before: Any
    after: Any
    arms: list[str]


class Preview(msgspec.Struct, frozen=True):
    """An upgrade seen on command lines, most telling first.

    Args:
        old, new: names of the builds.
        turns: arms that come out otherwise, those that get worse first.
        flips: settings that both have and that differ; from off to another kind of off last.
        gone, come: settings that only one has, with their value in the first arm that has it; renamed ones are in
            neither.
        flags_gone, flags_come: flags of the parser; ``flags_gone`` begins with those that the arms use.
        defaults: defaults of the command line that changed: before and after.
        warnings_gone, warnings_come: what only one of them logs, with the arms.
    """

    old: str
    new: str
    turns: list[TurnedArms]
    flips: list[Flip]
    gone: dict[str, Any]
    come: dict[str, Any]
    flags_gone: list[str]
    flags_come: list[str]
    defaults: dict[str, tuple[Any, Any]]
    warnings_gone: dict[str, list[str]]
    warnings_come: dict[str, list[str]]

    @property
    def breaks(self) -> bool:
        """Would an arm that worked be refused, or no longer do what it means?"""
        return any(turn.worse for turn in self.turns)

    def lines(self) -> list[str]:
        """The preview for people, a line each, most telling first."""
        found = [
            f"{'BREAKS' if turn.worse else 'turns'}  {_arms(turn.arms)}: {turn.before} -> {turn.after}"
            for turn in self.turns
        ]
        found += [
            f"flips   {config_diff.told({flip.setting: (flip.before, flip.after)})} ({_arms(flip.arms)})"
            for flip in self.flips
        ]
        found += [f"now says  {text} ({_arms(arms)})" for text, arms in self.warnings_come.items()]
        found += [f"no longer says  {text} ({_arms(arms)})" for text, arms in self.warnings_gone.items()]
        found += _listed(
            "defaults of the command line", [_default(n, *pair) for n, pair in self.defaults.items()]
        )
        found += _listed("flags gone", [f"--{flag}" for flag in self.flags_gone])
        found += _listed("flags new", [f"--{flag}" for flag in self.flags_come])
        found += _listed("settings gone", _valued(self.gone))
        found += _listed("settings new", _valued(self.come))
        return found or ["nothing changes for these command lines"]


def preview(old: Rehearsal, new: Rehearsal, used: Iterable[str] = ()) -> Preview:
    """What differs between two rehearsals of the same target on the same cards; pure.

    Args:
        old, new: what the two builds answered.
        used: flags that the target's arms use, so that a lost one is told first.
    """
    shared = [arm for arm in old.arms if arm in new.arms]
    pairs = {arm: (old.arms[arm], new.arms[arm]) for arm in shared}
    in_use = list(dict.fromkeys(used))
    return Preview(
        old=old.build,
        new=new.build,
        turns=_turns(pairs),
        flips=_flips(pairs),
        gone=_only(pairs, 0),
        come=_only(pairs, 1),
        flags_gone=sorted({*old.flags} - {*new.flags}, key=lambda flag: (flag not in in_use, flag)),
        flags_come=sorted({*new.flags} - {*old.flags}),
        defaults=config_diff.changed(old.defaults, new.defaults),
        warnings_gone=_said(pairs, 0),
        warnings_come=_said(pairs, 1),
    )


def used_flags(lines: Iterable[Flags]) -> list[str]:
    """The flags of some command lines, each once."""
    return list(dict.fromkeys(flag for line in lines for flag in line))


def what_mtp_changes(rehearsal: Rehearsal) -> dict[str, tuple[Any, Any]]:
    """What else is resolved otherwise when MTP is asked for: without and with it, most telling first."""
    if rehearsal.unasked is None:
        return {}
    name, without = rehearsal.unasked
    changes = config_diff.changed(_settled(without), _settled(rehearsal.arms[name]))
    return {setting: pair for setting, pair in changes.items() if not setting.startswith("speculative_")}


def _turns(pairs: Mapping[str, tuple[Answer, Answer]]) -> list[TurnedArms]:
    alike: dict[tuple[str, str, bool], list[str]] = {}
    for arm, (before, after) in pairs.items():
        if str(before) != str(after):
            told = after.word in ("resolved", "refused")
            worse = before.as_meant and told and not after.as_meant
            alike.setdefault((str(before), str(after), worse), []).append(arm)
    turns = [TurnedArms(arms, before, after, worse) for (before, after, worse), arms in alike.items()]
    return sorted(turns, key=lambda turn: (not turn.worse, -len(turn.arms)))


def _flips(pairs: Mapping[str, tuple[Answer, Answer]]) -> list[Flip]:
    """By setting and pair of values, in the order of ``config_diff``; what is off either way comes last."""
    alike: dict[tuple[str, str], Flip] = {}
    for arm, (before, after) in pairs.items():
        for setting, (old, new) in config_diff.changed(_settled(before), _settled(after)).items():
            flip = alike.setdefault((setting, repr((old, new))), Flip(setting, old, new, []))
            flip.arms.append(arm)
    ranked = config_diff.ranked({flip.setting for flip in alike.values()})
    return sorted(
        alike.values(),
        key=lambda flip: (
            flip.before in _OFF and flip.after in _OFF,
            ranked.index(flip.setting),
            -len(flip.arms),
        ),
    )


def _only(pairs: Mapping[str, tuple[Answer, Answer]], side: int) -> dict[str, Any]:
    """Settings that just one side has, by any name; filled-in ones first."""
    found: dict[str, Any] = {}
    for pair in pairs.values():
        if any(answer.word != "resolved" for answer in pair):
            continue
        other = pair[1 - side].settings
        for setting, value in pair[side].settings.items():
            known = (setting, *names.other_names(setting))
            if setting not in RANDOM | found.keys() and not any(_has(other, name) for name in known):
                found[setting] = value
    ranked = config_diff.ranked(found)
    return {name: found[name] for name in sorted(ranked, key=lambda name: found[name] in _OFF)}


def _has(settings: Mapping[str, Any], name: str) -> bool:
    return name in settings or any(other.startswith(f"{name}.") for other in settings)


def _settled(answer: Answer) -> dict[str, Any]:
    """The settings without what is random, what nobody here can decide, and what the server itself fills in later."""
    undecided = {*answer.open}
    return {
        name: value
        for name, value in answer.settings.items()
        if name not in RANDOM
        and name.partition(".")[0] not in undecided
        and not (name in LATER and value is None)
    }


def _said(pairs: Mapping[str, tuple[Answer, Answer]], side: int) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for arm, pair in pairs.items():
        for text in dict.fromkeys(pair[side].said):
            if text not in pair[1 - side].said:
                found.setdefault(text, []).append(arm)
    return found


def _arms(arms: list[str]) -> str:
    return ", ".join(arms) if len(arms) <= 3 else f"{arms[0]} and {len(arms) - 1} more"


def _default(name: str, old: Any, new: Any) -> str:
    return config_diff.told({name: (old, new)})


def _valued(settings: Mapping[str, Any]) -> list[str]:
    return [name if value in _OFF else f"{name} = {value}" for name, value in settings.items()]


def _listed(what: str, items: list[str]) -> list[str]:
    if not items:
        return []
    more = len(items) - _SHOWN
    return [f"{what} ({len(items)}): {', '.join(items[:_SHOWN])}" + (f" and {more} more" if more > 0 else "")]
