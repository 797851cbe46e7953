"""What this interpreter's SGLang resolves command lines to on cards that are not here; nothing is loaded or started.

Argument: a JSON table of ``lines`` (command lines), ``card`` (see ``cards.py``; null for the machine as it is) and its
``count``. Prints a JSON table: ``lines`` holds what ``resolve_flags.py`` says of each, with what SGLang ``said``
meanwhile, the questions ``asked`` of what is not here, and the settings that hang on them (``open``: both values);
``imported`` are the questions of the imports, ``flags`` and ``defaults`` the parser's own table.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import json
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from suite.probes.on_host import cards, resolve_flags, stand_ins

Outcome = dict[str, Any]
_SERVER_ARGS = "sglang.srt.server_args"
_MISSING = 12
"""How many packages may be missing before it is given up."""
said: list[str] = []


def main(arguments: Sequence[str]) -> None:
    """Print the table; whatever SGLang itself prints goes to standard error."""
    wanted = json.loads(arguments[0])
    with contextlib.redirect_stdout(sys.stderr), tempfile.TemporaryDirectory() as folder:
        _live_in(folder)
        found = rehearsed(wanted["lines"], wanted["card"], wanted["count"])
    print(json.dumps(found, default=str))


def _live_in(folder: str) -> None:
    """Let caches and temporary files go where they vanish; models are still found where they are."""
    home = os.path.expanduser("~")
    os.environ.setdefault(
        "HF_HOME", os.path.join(os.environ.get("XDG_CACHE_HOME", f"{home}/.cache"), "huggingface")
    )
    os.environ.update(dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR"), folder))
    tempfile.tempdir = folder


def rehearsed(lines: Sequence[Sequence[str]], card: dict[str, Any] | None, count: int) -> Outcome:
    """The whole answer, as the head of this file describes it."""
    absent = stand_ins.put_up(cards=card is not None)
    try:
        if card is not None:
            cards.pretend(card, count)
        module = _import(_SERVER_ARGS)
    except BaseException as error:  # a CUDA library that calls exit, too
        failed = {"stage": "import", "error": resolve_flags._said(error)}
        return {"lines": [failed] * len(lines), "stand_ins": absent, "imported": stand_ins.asked}
    logging.setLogRecordFactory(_record)
    _import_ahead(lines)
    while_importing = list(stand_ins.asked)
    outcomes = [_both_ways(list(line)) for line in lines]
    table = _table(module)
    return {"lines": outcomes, "stand_ins": absent, "imported": while_importing, **_versions(), **table}


def _import_ahead(lines: Sequence[Sequence[str]]) -> None:
    """Import here what resolving a line imports, seconds long, so that each line's own process finds it."""
    for line in lines[:1]:
        for name in _once(list(line), answer=True).get("imported_for_it", ()):
            with contextlib.suppress(BaseException):
                importlib.import_module(name)


def _import(name: str) -> Any:
    """A module of SGLang's; a package that it imports although its requirements do not name it is stood in for."""
    for _ in range(_MISSING):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not error.name or error.name.startswith("sglang"):
                raise
            stand_ins.stand_in_for(error.name.partition(".")[0])
    return importlib.import_module(name)


def _both_ways(argv: list[str]) -> Outcome:
    """One line; where it hangs on questions, once with each answer, and what is not the same is open."""
    yes = _once(argv, answer=True)
    for _ in range(_MISSING):
        if not yes.get("missing"):
            break
        stand_ins.stand_in_for(yes["missing"].partition(".")[0])
        yes = _once(argv, answer=True)
    unknown = {
        name: [value, value]
        for name, value in yes.get("settings", {}).items()
        if stand_ins.MARK in str(value)
    }
    if not yes.get("asked"):
        return {**yes, "open": unknown}
    no = _once(argv, answer=False)
    if yes["stage"] != no["stage"]:
        return {**yes, "stage": "undecided", "error": _first(yes)}
    one, two = yes.get("settings", {}), no.get("settings", {})
    differ = {name for name in {*one, *two} if one.get(name) != two.get(name)} - {"random_seed"}
    return {**yes, "open": {**unknown, **{name: [one.get(name), two.get(name)] for name in sorted(differ)}}}


def _first(outcome: Outcome) -> str:
    question = outcome["asked"][0]
    return f"it hangs on {question['what']} ({question['where']})"


def _once(argv: list[str], *, answer: bool) -> Outcome:
    def in_child(argv: list[str]) -> Outcome:
        stand_ins.policy["answer"] = answer
        stand_ins.asked.clear()
        said.clear()
        before = set(sys.modules)
        try:
            outcome = resolve_flags.resolved(argv)
        except stand_ins.NotDecidedHere as error:
            outcome = {"stage": "undecided", "error": str(error)}
        if outcome.get("error", "").startswith("NotDecidedHere: "):
            outcome = {"stage": "undecided", "error": outcome["error"].partition(": ")[2]}
        late = [name for name in sys.modules if name not in before]
        return {**outcome, "asked": stand_ins.asked, "said": said, "imported_for_it": late}

    return resolve_flags._in_fork(in_child, argv)


def _record(*arguments: Any, **options: Any) -> logging.LogRecord:
    """Keep what SGLang logs: its handlers are set up anew at each parse, records come through here."""
    record = logging.LogRecord(*arguments, **options)
    if record.name.startswith("sglang") and record.levelno >= logging.INFO:
        with contextlib.suppress(Exception):
            said.append(record.getMessage()[:1000])
    return record


def _table(module: Any) -> Outcome:
    """Every flag of the parser with the setting it sets, and every setting's default on the command line."""
    parser = argparse.ArgumentParser(prog="sglang", add_help=False)
    module.ServerArgs.add_cli_args(parser)
    flags: dict[str, str] = {}
    defaults: dict[str, Any] = {}
    for action in parser._actions:
        for flag in action.option_strings:
            flags[flag.lstrip("-")] = action.dest
        if action.dest != argparse.SUPPRESS and action.default is not argparse.SUPPRESS:
            defaults.setdefault(action.dest, resolve_flags._plain(action.default))
    return {"flags": flags, "defaults": defaults}


def _versions() -> Outcome:
    found = {}
    for name in ("sglang", "torch", "transformers"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    torch = importlib.import_module("torch")
    return {
        "versions": found,
        "cuda": torch.version.cuda,
        "required_torch": stand_ins._required().get("torch"),
    }
