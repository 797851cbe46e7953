"""What this interpreter's SGLang makes of command lines, without starting a server.

Arguments: the server's module, and a JSON list of command lines. Prints a JSON list of one table each: ``stage``
is how far it got (``import``, ``parse``, ``resolve``, ``done``), ``error`` why it stopped there, ``settings``
what came out. SGLang is imported once; each command line is resolved in a fork of its own, because resolving
changes environment variables and globals.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

Outcome = dict[str, Any]


def main(arguments: Sequence[str]) -> None:
    """Print what each command line resolves to; whatever SGLang itself prints goes to standard error."""
    module, lines = arguments[0], json.loads(arguments[1])
    with contextlib.redirect_stdout(sys.stderr):
        outcomes = _all("simulator" if module == "simulator" else "sglang.srt.server_args", lines)
    print(json.dumps(outcomes, default=str))


def _all(name: str, lines: Sequence[Sequence[str]]) -> list[Outcome]:
    try:
        importlib.import_module(name if name != "simulator" else "simulator.resolution")
    except BaseException as error:  # a CUDA library that calls exit, too
        return [{"stage": "import", "error": _said(error)}] * len(lines)
    resolve: Callable[[list[str]], Outcome] = simulated if name == "simulator" else resolved
    return [_in_fork(resolve, list(line)) for line in lines]


def _in_fork(resolve: Callable[[list[str]], Outcome], argv: list[str]) -> Outcome:
    """``resolve(argv)`` in a child; a child that dies has resolved nothing."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as pipe, contextlib.suppress(BaseException):
            json.dump(resolve(argv), pipe, default=str)
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    try:
        outcome: Outcome = json.loads(text)
    except ValueError:
        return {"stage": "resolve", "error": "the process that resolved it died"}
    return outcome


def resolved(argv: list[str]) -> Outcome:
    """SGLang's own: parse with its argparse, then resolve; either may be where it ends."""
    module = importlib.import_module("sglang.srt.server_args")
    refused = _refused(lambda: _parse(module, argv))
    if refused:
        return refused
    made: list[Any] = []
    try:
        # again argparse: what a --config file holds is only known now
        refused = _refused(lambda: made.append(module.prepare_server_args(argv)), SystemExit)
        if refused:
            return refused
        args = made[0]
        if hasattr(args, "resolve_once"):  # 0.5.20 and later: construction alone leaves what was asked
            args.resolve_once()
        return {"stage": "done", "settings": _settings(args)}
    except BaseException as error:
        missing = getattr(error, "name", None) if isinstance(error, ModuleNotFoundError) else None
        return {"stage": "resolve", "error": _said(error), "by": _raiser(error), "missing": missing}


def simulated(argv: list[str]) -> Outcome:
    """The same of the suite's simulator."""
    command_line = importlib.import_module("simulator.arguments")
    refused = _refused(lambda: command_line.parse(argv))
    if refused:
        return refused
    get: Callable[[str], Any] = lambda name: importlib.import_module(f"simulator.{name}")  # noqa: E731
    try:
        arguments = command_line.parse(argv)
        checkpoint = get("checkpoint").read(arguments.given["model_path"])
        profile = get("profiles").load(arguments.own.profile)
        odd = get("faults").behaviour_of(arguments.own.faults)
        whole = get("resolution").resolve(arguments, checkpoint, profile, odd)
        return {"stage": "done", "settings": whole.settings}
    except BaseException as error:
        return {"stage": "resolve", "error": _said(error)}


def _refused(
    parse: Callable[[], object], catch: type[BaseException] | tuple[type[BaseException], ...] = BaseException
) -> Outcome | None:
    """What argparse said when it ended the program, or ``None``; only exceptions of ``catch`` are a refusal."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parse()
    except catch as error:
        lines = [line.strip() for line in said.getvalue().splitlines() if line.strip()]
        ended = isinstance(error, SystemExit) and lines
        return {"stage": "parse", "error": lines[-1][:1000] if ended else _said(error)}
    return None


def _parse(module: Any, argv: list[str]) -> None:
    """argparse alone, because it needs neither a GPU nor the model; a --config file is merged by SGLang later."""
    parser = argparse.ArgumentParser(prog="sglang")
    module.ServerArgs.add_cli_args(parser)
    if "--config" not in argv:
        parser.parse_args(argv)


def _settings(args: Any) -> dict[str, Any]:
    view = args
    for place in ("sglang.srt.arg_groups.model_override_base", "sglang.srt.arg_groups.overrides"):
        with contextlib.suppress(ImportError, AttributeError):
            view = importlib.import_module(place).resolved_view(args)
            break
    names = [field.name for field in dataclasses.fields(args)] if dataclasses.is_dataclass(args) else []
    names = names or list(getattr(args, "__struct_fields__", ())) or list(vars(args))
    settings = {}
    for name in names:
        with contextlib.suppress(AttributeError):
            settings[name] = _plain(getattr(view, name))
    return settings


def _plain(value: Any) -> Any:
    """A value as JSON would have it; records as tables."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "__struct_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _said(error: BaseException) -> str:
    """Its kind and its words; where it has none (a bare assert), the place in the source that raised it."""
    words = str(error).strip() or _raiser(error)
    return f"{type(error).__name__}: {words}"[:1000]


def _raiser(error: BaseException) -> str:
    """File and line that raised it, from the package on: ``sglang/srt/arg_groups/moe_hook.py:12``."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    last = frames[-1]
    return f"{last.filename.rpartition('site-packages/')[2]}:{last.lineno}: {last.line or ''}".rstrip(": ")
