"""The rehearsal itself: a target's arms, on pretended cards, by a build's own argument parser and resolution."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suite import config, redact
from suite.hosts import HostError
from suite.probes import gpus
from suite.probes.remote import run_script
from suite.rehearsal import cards as catalog
from suite.rehearsal.answers import Answer, Question, Rehearsal, Word
from suite.rehearsal.builds import RehearsedBuild
from suite.rehearsal.cards import Cards
from suite.rehearsal.checkpoints import stand_in
from suite.rehearsal.errors import UnknownCards
from suite.servers.runtimes import Runtime
from suite.sglang import speculation_sources
from suite.sglang.flags import Flags
from suite.sglang.server.info import flatten

_SCRIPTS = ("stand_ins", "cards", "resolve_flags", "rehearse")
_OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
_TIMEOUT_S = 900.0
_OUR_FAULT = ("ImportError", "ModuleNotFoundError", "AttributeError", "OSError", "FileNotFoundError")
"""What a resolution ends with for want of packages and files; anything else is SGLang's own refusal."""
_WORDS: Mapping[str, Word] = {"done": "resolved", "parse": "refused", "undecided": "undecided"}
_UNASKED = " "
"""Keys of a line without its speculative flags: no arm is called so."""


def rehearse(
    directory: Path,
    target: config.Target,
    build: RehearsedBuild,
    cards: Cards | None,
    arms: Sequence[str] | None = None,
) -> Rehearsal:
    """What ``build`` answers to the command lines of ``arms`` (all of the target's, by default) on ``cards``.

    Nothing is loaded or started, nothing is left behind, and secret flags are not even handed over. Arms with the same
    variables share one interpreter.

    ``directory`` is that of ``suite.toml``, where config files of models lie.

    Raises:
        RehearsalError: the model's config files are nowhere.
        ProbeHostError: the interpreter could not be run, or not in time.
    """
    runtime = build.runtime
    wanted = {name: runtime.target.arm(name) for name in (target.arms if arms is None else arms)}
    lines = {name: runtime.flags(arm) for name, arm in wanted.items()}
    first = next((name for name, flags in lines.items() if speculation_sources.asked_by(flags)), None)
    models = {str(flags["model-path"]) for flags in lines.values()}
    read = {model: stand_in(directory, target, runtime.host, model, runtime.cwd) for model in models}
    found: dict[str, Mapping[str, Any]] = {}
    whole: Mapping[str, Any] = {}
    for variables, names in by_variables(runtime, wanted).items():
        group = {name: lines[name] for name in names}
        if first in group:
            group[_UNASKED] = _without_speculation(lines[first])
        whole = _asked(build, group.values(), dict(variables), cards, read)
        found |= zip(group, whole["lines"], strict=True)
    answers = {name: _answer(found[name], asks(runtime, lines[name]), read) for name in lines}
    versions = dict(whole.get("versions", {}))
    return Rehearsal(
        target=target.name,
        build=_called(build, versions),
        cards=cards,
        versions=versions,
        arms=answers,
        unasked=(first, _answer(found[_UNASKED], False, read)) if first else None,
        checkpoint=_replaced(read, directory),
        cuda=str(whole.get("cuda") or ""),
        torch_required=str(whole.get("required_torch") or ""),
        flags=dict(whole.get("flags", {})),
        defaults=_tidy(whole.get("defaults", {}), read),
        imported=[Question(**question) for question in whole.get("imported", [])],
    )


def cards_for(target: config.Target, runtime: Runtime, named: str | None) -> Cards | None:
    """The cards to pretend: those named, else the host's own by its nvidia-smi, else those of ``suite.toml``.

    Raises:
        UnknownCards: nobody tells which cards to pretend.
    """
    if named is not None:
        return catalog.parse(named)
    elsewhere = runtime.target.host != target.host  # another machine rehearses for the target
    if not elsewhere and isinstance(
        found := gpus.read(runtime.host, runtime.command(target.nvidia_smi), env=runtime.env()), gpus.Gpus
    ):
        return catalog.of_machine(found) or _told(target)
    return _told(target) if target.gpus else None


def _told(target: config.Target) -> Cards | None:
    if target.cards:
        return catalog.parse(target.cards)
    raise UnknownCards(
        f"which cards target {target.name} has is not known here; name them: --cards rtx-pro-6000x8, "
        f'or cards = "rtx-pro-6000x8" in [targets.{target.name}]'
    )


def asks(runtime: Runtime, flags: Flags) -> bool:
    """Does a flag ask for speculation, or a line of the ``--config`` file?"""
    if speculation_sources.asked_by(flags) is not None:
        return True
    if "config" not in flags:
        return False
    try:
        text = runtime.host.read_text(runtime.path(str(flags["config"])))
    except HostError:
        return False
    return speculation_sources.in_file(text) is not None


def by_variables(
    runtime: Runtime, arms: Mapping[str, config.Arm]
) -> dict[tuple[tuple[str, str], ...], list[str]]:
    """Names of arms by the variables that their servers are started with: such arms can share an interpreter."""
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, arm in arms.items():
        groups.setdefault(tuple(sorted(runtime.env(arm).items())), []).append(name)
    return groups


def _asked(
    build: RehearsedBuild,
    lines: Iterable[Flags],
    variables: Mapping[str, str],
    cards: Cards | None,
    read: Mapping[str, str],
) -> Mapping[str, Any]:
    """What the interpreter answers to some command lines."""
    open_lines = [
        _without_secrets(line).merge({"model-path": read[str(line["model-path"])]}).argv() for line in lines
    ]
    card = cards and {field: getattr(cards.card, field) for field in cards.card.__struct_fields__}
    asked = json.dumps({"lines": open_lines, "card": card, "count": cards.count if cards else 0})
    env = {**_OFFLINE, **({} if build.ours else {"PYTHONDONTWRITEBYTECODE": "1"}), **variables}
    runtime = build.runtime
    found: Mapping[str, Any] = run_script(
        runtime.host,
        runtime.python(env) or [],
        _SCRIPTS,
        [asked],
        timeout_s=_TIMEOUT_S,
        env=env,
        cwd=runtime.cwd,
    )
    return found


def _answer(found: Mapping[str, Any], asked: bool, read: Mapping[str, str]) -> Answer:
    reason = redact.scrub(str(_tidy(found.get("error", ""), read)))
    word = _WORDS.get(found["stage"])
    if word is None:
        ours = found["stage"] == "import" or reason.partition(":")[0] in _OUR_FAULT
        word = "failed" if ours else "refused"
    settings = redact.masked(_tidy(flatten(found.get("settings", {})), read))
    return Answer(
        word=word,
        asks=asked,
        reason=reason,
        settings=settings,
        said=[redact.scrub(str(_tidy(line, read))) for line in found.get("said", ())],
        asked=[Question(**question) for question in found.get("asked", ())],
        open=_tidy(found.get("open", {}), read),
    )


def _without_secrets(flags: Flags) -> Flags:
    """What may stand on a command line that everybody on the host can read; a resolution hangs on no secret."""
    return Flags(
        {
            name: redact.scrub(value) if isinstance(value, str) else value
            for name, value in flags.items()
            if not redact.is_secret(name)
        }
    )


def _without_speculation(flags: Flags) -> Flags:
    return Flags({name: value for name, value in flags.items() if not name.startswith("speculative-")})


def _tidy(value: Any, read: Mapping[str, str]) -> Any:
    """``value`` with the target's own model path wherever what stood in for it is named."""
    if isinstance(value, str):
        for model, folder in read.items():
            value = value.replace(folder, model) if folder != model else value
        return value
    if isinstance(value, dict):
        return {name: _tidy(item, read) for name, item in value.items()}
    return [_tidy(item, read) for item in value] if isinstance(value, list) else value


def _replaced(read: Mapping[str, str], directory: Path) -> str:
    """What stood in for which model, for people."""
    here = f"{directory}/"
    pairs = [(model, folder.removeprefix(here)) for model, folder in read.items() if folder != model]
    return ", ".join(f"{folder} for {model}" for model, folder in pairs)


def _called(build: RehearsedBuild, versions: Mapping[str, str]) -> str:
    """A release by its number; anything else by its number and where it is."""
    version = versions.get("sglang")
    if version is None or re.fullmatch(r"\d+(\.\w+)+", build.name):
        return build.name
    return f"{version} ({build.name})"
