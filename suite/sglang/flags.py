"""SGLang command lines as data: parse, merge by name, render, and what a flag was called in which version."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from suite.redact import MASK, is_secret, scrub
from suite.sglang import releases

FlagValue: TypeAlias = str | int | float | bool | tuple[str | int | float, ...]
"""``True`` is a bare switch; a tuple is a flag followed by several values."""

FlagChangeValue: TypeAlias = FlagValue | list[str | int | float] | None
"""What a change may say: a value, or ``False``/``None`` to remove the flag."""

ALIASES: Mapping[str, str] = {
    "model": "model-path",
    "tp": "tp-size",
    "tensor-parallel-size": "tp-size",
    "pp": "pp-size",
    "pipeline-parallel-size": "pp-size",
    "dp": "dp-size",
    "data-parallel-size": "dp-size",
    "ep": "ep-size",
    "expert-parallel-size": "ep-size",
    "attention-context-parallel-size": "attn-cp-size",
    "attention-data-parallel-size": "attn-dp-size",
    "decode-context-parallel-size": "dcp-size",
    "moe-data-parallel-size": "moe-dp-size",
    "nccl-init-addr": "dist-init-addr",
    "enable-hicache": "enable-hierarchical-cache",
    "context-bucket": "cuda-graph-prefill-max-context",
    "speculative-draft-model": "speculative-draft-model-path",
}
"""Second names that SGLang's argparse gives the same flag (``sglang/srt/server_args.py``, 0.5.9 to 0.5.23)."""


@dataclass(frozen=True, slots=True)
class FlagHistory:
    """One change of a flag between SGLang versions.

    ``since`` is the first version where ``name`` is no longer (or not yet) what it was; ``now`` is what to
    write instead there, or ``None`` when it is simply gone.
    """

    name: str
    since: str
    what: str
    now: str | None = None


HISTORY: tuple[FlagHistory, ...] = (
    FlagHistory(
        "mamba-scheduler-strategy",
        "0.5.14",
        "deprecated alias, removed in 0.5.20",
        "mamba-radix-cache-strategy",
    ),
    FlagHistory("mamba-scheduler-strategy", "0.5.20", "removed", "mamba-radix-cache-strategy"),
    FlagHistory("mamba-radix-cache-strategy", "0.5.14", "new; before: --mamba-scheduler-strategy"),
    FlagHistory("cuda-graph-max-bs", "0.5.20", "removed", "cuda-graph-max-bs-decode"),
    FlagHistory("cuda-graph-max-bs-decode", "0.5.14", "new; before: --cuda-graph-max-bs"),
    *(
        FlagHistory(name, "0.5.14", "removed", now)
        for name, now in {
            "custom-sigquit-handler": None,
            "debug-tensor-dump-inject": None,
            "enable-nan-detection": None,
            "enable-piecewise-cuda-graph": "cuda-graph-backend-prefill=tc_piecewise",
            "hybrid-kvcache-ratio": None,
            "no-record-nolora-graph": None,
            "record-nolora-graph": None,
        }.items()
    ),
    FlagHistory("enable-deepep-waterfill", "0.5.16", "removed", "enable-waterfill"),
    FlagHistory("optimistic-prefill-retries", "0.5.16", "removed"),
    FlagHistory("torchao-config", "0.5.18", "removed"),
    FlagHistory("elastic-ep-rejoin", "0.5.21", "removed", "elastic-ep-join-mode=recover"),
    FlagHistory("keep-mm-feature-on-device", "0.5.21", "removed", "mm-feature-transport=cuda_ipc"),
    FlagHistory("cuda-graph-tc-compiler", "0.5.22", "removed"),
    FlagHistory("speculative-skip-dp-mlp-sync", "0.5.23", "removed"),
    *(
        FlagHistory(name, "0.5.20", "removed", now)
        for name, now in {
            "collect-tokens-histogram": None,
            "cuda-graph-bs": "cuda-graph-bs-decode",
            "disable-piecewise-cuda-graph": "cuda-graph-backend-prefill=disabled",
            "dsa-prefill-cp-mode": "cp-strategy",
            "enable-breakable-cuda-graph": "cuda-graph-backend-prefill=breakable",
            "enable-dsa-prefill-context-parallel": "enable-prefill-cp",
            "enable-expert-distribution-metrics": "expert-balancedness-report-mode",
            "enable-gdn-replayssm-spec": "enable-linear-replayssm-spec",
            "enable-nsa-prefill-context-parallel": "enable-prefill-cp",
            "enable-prefill-context-parallel": "enable-prefill-cp",
            "enforce-piecewise-cuda-graph": "cuda-graph-backend-prefill=tc_piecewise",
            "nsa-decode-backend": "dsa-decode-backend",
            "nsa-prefill-backend": "dsa-prefill-backend",
            "nsa-prefill-cp-mode": "cp-strategy",
            "piecewise-cuda-graph-compiler": None,
            "piecewise-cuda-graph-max-tokens": "cuda-graph-max-bs-prefill",
            "piecewise-cuda-graph-tokens": "cuda-graph-bs-prefill",
            "prefill-cp-mode": "cp-strategy",
            "prefill-round-robin-balance": None,
            "speculative-dflash-draft-window-size": "speculative-draft-window-size",
            "stream-output": "incremental-streaming-output",
        }.items()
    ),
)
"""Renames and removals of the published packages 0.5.9 to 0.5.23, each with what SGLang's own help said to use instead.

From 0.5.12 on they are held to the parsers' own tables in ``rehearsals/``; 0.5.13 and 0.5.15 are not recorded, so what
went with one of them is told of the release after."""


def canonical(name: str) -> str:
    """The one name this suite uses for a flag: no leading dashes, dashes inside, aliases resolved."""
    bare = name.lstrip("-").replace("_", "-")
    return ALIASES.get(bare, bare)


class Flags(Mapping[str, FlagValue]):
    """An immutable command line: flag names to values, in the order they were given."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, FlagChangeValue] | None = None) -> None:
        self._values: dict[str, FlagValue] = {}
        for name, value in (values or {}).items():
            if value is None or value is False:
                continue
            self._values[canonical(name)] = tuple(value) if isinstance(value, list) else value

    def __getitem__(self, name: str) -> FlagValue:
        return self._values[canonical(name)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and canonical(name) in self._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"Flags({' '.join(self.shown())})"

    def merge(self, changes: Mapping[str, FlagChangeValue]) -> Flags:
        """These flags with ``changes`` laid over them by name; ``False`` or ``None`` removes a flag."""
        merged: dict[str, FlagChangeValue] = dict(self._values)
        for name, value in changes.items():
            merged[canonical(name)] = value
        return Flags(merged)

    def argv(self) -> list[str]:
        """The command line, one argument an entry, ready for an exec without a shell."""
        words: list[str] = []
        for name, value in self._values.items():
            words.extend(_words(name, value))
        return words

    def shown(self) -> list[str]:
        """As :meth:`argv`, with secrets masked: for logs, reports and error texts."""
        return self.masked().argv()

    def masked(self) -> Flags:
        """These flags with the value of every secret replaced by ``***``."""
        return Flags({name: _masked(name, value) for name, value in self._values.items()})

    def secrets(self) -> tuple[str, ...]:
        """The secret values among these flags, so that other texts can be scrubbed of them."""
        return tuple(
            str(part)
            for name, value in self._values.items()
            if value is not True and is_secret(name)
            for part in (value if isinstance(value, tuple) else (value,))
        )


def _masked(name: str, value: FlagValue) -> FlagValue:
    if value is not True and is_secret(name):
        return MASK
    if isinstance(value, tuple):
        return tuple(scrub(part) if isinstance(part, str) else part for part in value)
    return scrub(value) if isinstance(value, str) else value


def _words(name: str, value: FlagValue) -> list[str]:
    flag = f"--{name}"
    if value is True:
        return [flag]
    if isinstance(value, tuple):
        return [flag, *map(str, value)]
    text = str(value)
    # argparse takes a value that starts with a dash for a flag, unless it stands behind "="
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def parse_argv(words: Iterable[str]) -> Flags:
    """Read a command line (without the program) into :class:`Flags`.

    Without SGLang's own table nothing says how many values a flag takes, so every word up to the next
    ``--flag`` is its value: none is a switch, several are a tuple. Values stay text.

    Raises:
        ValueError: a word stands before the first flag.
    """
    values: dict[str, FlagChangeValue] = {}
    name: str | None = None
    collected: list[str] = []

    def close() -> None:
        if name is not None:
            values[name] = True if not collected else collected[0] if len(collected) == 1 else list(collected)

    for word in words:
        if _is_flag(word):
            close()
            name, _, inline = word.partition("=")
            collected = [inline] if "=" in word else []
        elif name is None:
            raise ValueError(f"{word!r} stands before the first --flag")
        else:
            collected.append(word)
    close()
    return Flags(values)


def flags_within(line: str) -> Flags:
    """The flags of a whole command line, as a shell splits it: whatever stands before the first is its program.

    Raises:
        ValueError: a quote is not closed.
    """
    words = shlex.split(line)
    return parse_argv(
        words[next((at for at, word in enumerate(words) if word.startswith("--")), len(words)) :]
    )


def _is_flag(word: str) -> bool:
    return re.match(r"--[A-Za-z]", word) is not None


def parse_change(text: str) -> tuple[str, FlagChangeValue]:
    """Read one ``NAME``, ``NAME=VALUE`` or ``no:NAME`` as given on this suite's own command line.

    ``no:NAME`` removes the flag. Numbers stay text: SGLang reads them itself.

    Raises:
        ValueError: the name is empty.
    """
    removes = text.startswith("no:")
    name, equals, value = text.removeprefix("no:").partition("=")
    if not name.strip("-"):
        raise ValueError(f"{text!r} names no flag; write NAME, NAME=VALUE or no:NAME")
    if removes:
        return canonical(name), False
    return canonical(name), value if equals else True


def history_of(flag: str, version: str | None = None) -> str | None:
    """What became of ``flag`` by ``version`` (any version when ``None``), in words, or ``None`` if unknown."""
    name = canonical(flag)
    known = [
        entry
        for entry in HISTORY
        if entry.name == name and (version is None or releases.has(version, entry.since))
    ]
    if not known:
        ahead = [entry for entry in HISTORY if entry.name == name and entry.what.startswith("new")]
        if ahead and releases.has(version, ahead[0].since) is False:
            return f"--{name} exists from SGLang {ahead[0].since} on ({ahead[0].what}); this is {version}"
        return None
    last = known[-1]
    instead = f"; use --{last.now}" if last.now else ""
    return f"--{name}: {last.what} in SGLang {last.since}{instead}"


def translated(
    flags: Mapping[str, FlagChangeValue], version: str | None
) -> tuple[dict[str, FlagChangeValue], list[str]]:
    """Flags as ``version`` calls them, and a sentence for each that it calls otherwise.

    One that is simply gone, or of which nothing is known, stays as it is: that the server refuses it is a finding.
    """
    found: dict[str, FlagChangeValue] = {}
    told = []
    for name, value in flags.items():
        other = _called(canonical(name), version)
        if other is None:
            found[name] = value
            continue
        now, _, given = other.partition("=")
        found[now] = given if given and value not in (False, None) else value
        told.append(f"--{canonical(name)} is --{other} in SGLang {version}")
    return found, told


def _called(name: str, version: str | None) -> str | None:
    """What a flag is called in ``version``, if otherwise."""
    for entry in HISTORY:
        if entry.name != name:
            continue
        before = entry.what.partition("new; before: --")[2]
        if before and releases.has(version, entry.since) is False:
            return before
        if entry.now and releases.has(version, entry.since):
            return entry.now
    return None
