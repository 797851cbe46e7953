"""A draft as the text of a target in ``suite.toml``, with a comment wherever it was unsure."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from suite.describe.draft import NEXTN, Draft
from suite.redact import scrub
from suite.sglang.flags import Flags
from suite.sglang.server.settings import model_name

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_COLUMNS = 110


def slug(model: str) -> str:
    """A target's name after its model: ``/models/Qwen3.5-397B`` gives ``qwen3-5-397b``."""
    last = model_name(model)[0] or "server"
    name = re.sub(r"[^a-z0-9_-]+", "-", last.lower()).strip("-_")  # a bare key: no dots
    return name or "server"


def table(draft: Draft, name: str) -> str:
    """The text of ``[targets.NAME]`` and the tables below it."""
    return "\n".join(_lines(draft, name)) + "\n"


def _lines(draft: Draft, name: str) -> Iterator[str]:
    key = f"targets.{_key(name)}"
    yield f"[{key}]"
    yield from _comment(f"written by `python -m suite init --from ...`, from {draft.source}")
    for note in draft.notes:
        yield from _comment(note)
    top: dict[str, Any] = {"host": draft.host} if draft.host != "local" else {}
    top |= {"model": draft.model, "gpus": draft.gpus or 0, **draft.more}
    yield from _pairs(draft, "", top)
    if draft.kind != "attach":
        yield "# start_estimate_s = 1200.0   # how long it takes to be ready, for --plan; the first run measures it"
    yield from _table(draft, f"{key}.launch", "launch", draft.launch)
    yield from _table(
        draft, f"{key}.flags", "flags", {**_numbers(draft.flags), **dict.fromkeys(draft.off, False)}
    )
    yield from _table(draft, f"{key}.env", "env", draft.env)
    if draft.on and Flags(draft.on) != Flags(NEXTN):
        yield ""
        yield f"[{key}.arms.mtp-on]"
        yield from _comment("the speculation that it was started with: the arm's, so that mtp-off is off")
        if "speculative-draft-model-path" in draft.on:
            yield from _comment(
                "unsure: the built-in arms mtp-depth-* ask for NEXTN without this draft model; give them the same flags"
            )
        yield f"flags = {_value(_numbers(draft.on))}"


def _table(draft: Draft, title: str, place: str, values: Mapping[str, Any]) -> Iterator[str]:
    if not values:
        return
    yield ""
    yield f"[{title}]"
    if place in draft.unsure:
        yield from _comment(f"unsure: {draft.unsure[place]}")
    yield from _pairs(draft, f"{place}.", values)


def _pairs(draft: Draft, place: str, values: Mapping[str, Any]) -> Iterator[str]:
    for name, value in values.items():
        if said := draft.unsure.get(f"{place}{name}"):
            yield from _comment(f"unsure: {said}")
        yield f"{_key(name)} = {_value(value)}"


def _numbers(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a command line as the numbers that they are, where they read the same afterwards."""
    return {name: _number(value) if isinstance(value, str) else value for name, value in flags.items()}


def _number(text: str) -> str | int | float:
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d{0,6})\.\d{1,6}", text) and repr(float(text)) == text:
        return float(text)
    return text


def _comment(text: str) -> list[str]:
    """Comment lines; whatever text comes from outside holds no secret and no end of line of its own."""
    plain = "".join(char if char.isprintable() else " " for char in scrub(text))
    return textwrap.wrap(
        plain,
        _COLUMNS,
        initial_indent="# ",
        subsequent_indent="#   ",
        break_on_hyphens=False,
        break_long_words=False,
    )


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    """A TOML value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(k))} = {_value(v)}" for k, v in value.items()) + " }"
    return _text(str(value))


def _text(value: str) -> str:
    """A basic string: JSON's escapes are TOML's too, except for DEL and lone surrogates, which TOML has not."""
    whole = value.encode("utf-8", "replace").decode("utf-8")
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")
