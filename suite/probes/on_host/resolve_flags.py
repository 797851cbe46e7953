"""What this interpreter's SGLang makes of a command line, without starting a server.

Arguments: the server's module, then its command line. Prints one line of JSON with ``stage``: how far it got
(``import``, ``parse``, ``resolve``, ``done``), ``error`` where it stopped, ``settings`` when done.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import sys
from collections.abc import Sequence
from typing import Any


def main(arguments: Sequence[str]) -> None:
    """Print what the command line resolves to; whatever SGLang itself prints goes to standard error."""
    with contextlib.redirect_stdout(sys.stderr):
        result = resolve(list(arguments[1:]))
    print(json.dumps(result, default=str))


def resolve(argv: list[str]) -> dict[str, Any]:
    """Import, parse, resolve; each may be where it ends."""
    try:
        module = importlib.import_module("sglang.srt.server_args")
    except BaseException as error:  # a CUDA library that calls exit, too
        return {"stage": "import", "error": _said(error)}
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            _parse(module, argv)
    except SystemExit:
        return {"stage": "parse", "error": _last_line(said.getvalue())}
    except BaseException as error:
        return {"stage": "parse", "error": _said(error)}
    try:
        args = module.prepare_server_args(argv)
        if hasattr(args, "resolve_once"):  # 0.5.20 and later: construction alone leaves what was asked
            args.resolve_once()
        return {"stage": "done", "settings": _settings(args)}
    except BaseException as error:
        return {"stage": "resolve", "error": _said(error)}


def _parse(module: Any, argv: list[str]) -> None:
    """argparse alone, because it needs neither a GPU nor the model."""
    import argparse

    parser = argparse.ArgumentParser(prog="sglang")
    module.ServerArgs.add_cli_args(parser)
    if "--config" not in argv:  # a file of arguments is merged by SGLang's own function
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
    """A value as JSON would have it; tables of dataclasses and the like as dictionaries."""
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
    return f"{type(error).__name__}: {error}".strip()[:1000]


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:1000] if lines else "the command line was refused without a word"
