"""Files of traffic to requests: when each came, how long it and its answer were, and what it shares with others.

Public formats, as their publishers describe them: Mooncake's traces (kvcache-ai/Mooncake: a JSON object a line, `timestamp` in
milliseconds, `input_length`, `output_length`, `hash_ids` of blocks of 512 tokens), Azure's LLM inference traces of 2023 and 2024
(Azure/AzurePublicDataset: CSV, `TIMESTAMP,ContextTokens,GeneratedTokens`), BurstGPT (HPMLL/BurstGPT: CSV, `Timestamp` in
seconds, `Request tokens`, `Response tokens`), and ShareGPT's conversations (a JSON list of `conversations` with `from` and
`value`). Beside them a JSONL of conversations as OpenAI's API takes them, with `timestamp` in seconds and `max_tokens` if they are
known.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from suite.foreign import NotJSON, json_of, one_line, read_file
from suite.load import LoadError
from suite.load.workloads import json_lines, must_be_sendable

BLOCK_TOKENS = 512
"""Tokens of one block of a Mooncake trace."""
CHARS_PER_TOKEN = 4
"""About what English text takes, where only the text of a former answer tells how long an answer is to be."""
MOST_BYTES = 2 * 1024**3
MOST_TOKENS = 10_000_000


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request. ``None`` where the file does not tell.

    ``at_s``: seconds since the first; ``blocks``: what its prompt begins with, alike in requests that share a prefix;
    ``messages``: the conversation itself, where the file holds one, else the prompt is made of ``input_tokens``.
    """

    at_s: float | None
    input_tokens: int | None
    output_tokens: int | None
    blocks: tuple[int, ...] = ()
    messages: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """The requests of a file in the order in which they came."""

    name: str
    format: str
    requests: tuple[TraceRequest, ...]

    @property
    def timed(self) -> bool:
        """Is it known when the requests came?"""
        return all(request.at_s is not None for request in self.requests)

    @property
    def span_s(self) -> float:
        """From the first to the last; 0 where it is not known."""
        return (self.requests[-1].at_s or 0.0) if self.timed else 0.0

    def first(self, requests: int | None = None, seconds: float | None = None) -> Trace:
        """No more than so many requests, and none that came later than so many seconds after the first."""
        kept = self.requests[:requests]
        if seconds is not None:
            kept = tuple(request for request in kept if request.at_s is None or request.at_s <= seconds)
        return Trace(self.name, self.format, kept)


def read(path: Path, name: str | None = None) -> Trace:
    """The file's requests; its format is found by what it holds unless ``name`` says which it is.

    Raises:
        LoadError: it cannot be read, is in no format that is known, or a line of it is not what the format says.
    """
    try:
        text = read_file(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise LoadError(f"cannot read traffic {one_line(str(path))}: {said}") from error
    chosen = name or _told_by(text, path)
    if chosen not in FORMATS:
        raise LoadError(f"no format {one_line(chosen, 40)!r} of traffic; there are {', '.join(FORMATS)}")
    found = [request for request in FORMATS[chosen](text, str(path)) if request is not None]
    if not found:
        raise LoadError(f"{path}: holds no request ({chosen})")
    return Trace(path.stem, chosen, _from_zero(found))


def _told_by(text: str, path: Path) -> str:
    """Which format a text is in, by its first line."""
    first = text.lstrip()[:4096].splitlines()[0] if text.strip() else ""
    head = first.replace(" ", "").lower()
    if head.startswith("timestamp,contexttokens"):
        return "azure"
    if head.startswith("timestamp,") and "requesttokens" in head:
        return "burstgpt"
    if first.startswith("["):
        return "sharegpt"
    if '"hash_ids"' in first or '"input_length"' in first:
        return "mooncake"
    if '"messages"' in first:
        return "openai"
    raise LoadError(
        f"{path}: its first line belongs to no format that is known ({', '.join(FORMATS)}); name one with --format"
    )


def _from_zero(found: list[TraceRequest]) -> tuple[TraceRequest, ...]:
    times = [request.at_s for request in found if request.at_s is not None]
    if len(times) < len(found):
        return tuple(TraceRequest(None, r.input_tokens, r.output_tokens, r.blocks, r.messages) for r in found)
    start = min(times)
    ordered = sorted(found, key=lambda request: request.at_s or 0.0)
    return tuple(
        TraceRequest((r.at_s or 0.0) - start, r.input_tokens, r.output_tokens, r.blocks, r.messages)
        for r in ordered
    )


def _mooncake(text: str, where: str) -> Iterator[TraceRequest]:
    for number, row in _json_lines(text, where):
        blocks = row.get("hash_ids", [])
        if not isinstance(blocks, list) or not all(isinstance(block, int) for block in blocks):
            raise LoadError(f'{where}, line {number}: "hash_ids" must be a list of whole numbers')
        yield TraceRequest(
            _seconds(row.get("timestamp"), where, number, 1e-3),
            _tokens(row.get("input_length"), "input_length", where, number),
            _tokens(row.get("output_length"), "output_length", where, number),
            tuple(blocks),
        )


def _openai(text: str, where: str) -> Iterator[TraceRequest]:
    for number, row in _json_lines(text, where):
        at_s = _seconds(row["timestamp"], where, number) if row.get("timestamp") is not None else None
        wanted = row.get("max_completion_tokens", row.get("max_tokens"))
        output = _tokens(wanted, "max_tokens", where, number) if wanted is not None else None
        yield TraceRequest(at_s, None, output, messages=_messages(row.get("messages"), where, number))


def _sharegpt(text: str, where: str) -> Iterator[TraceRequest | None]:
    try:
        rows = json_of(text)
    except NotJSON as error:
        raise LoadError(f"{where}: not JSON: {error}") from None
    if not isinstance(rows, list):
        raise LoadError(f"{where}: expected a list of conversations")
    for number, row in enumerate(rows, 1):
        turns = row.get("conversations") if isinstance(row, dict) else None
        if not isinstance(turns, list):
            raise LoadError(f'{where}, entry {number}: expected "conversations"')
        yield _first_exchange(turns, where, number)


def _first_exchange(turns: list[Any], where: str, number: int) -> TraceRequest | None:
    """What was asked first, and about how long the answer was; ``None`` for a conversation that holds no such pair."""
    told = [(str(turn.get("from")), str(turn.get("value") or "")) for turn in turns if isinstance(turn, dict)]
    asked = next((value for who, value in told if who in ("human", "user")), "")
    answered = next((value for who, value in told if who in ("gpt", "assistant", "chatgpt", "bard")), "")
    if not asked or not answered:
        return None
    messages = _messages([{"role": "user", "content": asked}], where, number)
    return TraceRequest(None, None, max(4, len(answered) // CHARS_PER_TOKEN), messages=messages)


def _azure(text: str, where: str) -> Iterator[TraceRequest]:
    for number, row in _csv_rows(text, where, ("TIMESTAMP", "ContextTokens", "GeneratedTokens")):
        yield TraceRequest(
            _moment(row["TIMESTAMP"], where, number),
            _tokens(row["ContextTokens"], "ContextTokens", where, number),
            _tokens(row["GeneratedTokens"], "GeneratedTokens", where, number),
        )


def _burstgpt(text: str, where: str) -> Iterator[TraceRequest | None]:
    for number, row in _csv_rows(text, where, ("Timestamp", "Request tokens", "Response tokens")):
        output = _tokens(row["Response tokens"], "Response tokens", where, number)
        at_s = _seconds(row["Timestamp"], where, number)
        asked = _tokens(row["Request tokens"], "Request tokens", where, number)
        yield TraceRequest(at_s, asked, output) if output else None  # it failed there: nothing was answered


FORMATS: Mapping[str, Callable[[str, str], Iterator[TraceRequest | None]]] = {
    "mooncake": _mooncake,
    "azure": _azure,
    "burstgpt": _burstgpt,
    "sharegpt": _sharegpt,
    "openai": _openai,
}


def _json_lines(text: str, where: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, row in json_lines(text, where):
        if not isinstance(row, dict):
            raise LoadError(f"{where}, line {number}: expected a JSON object")
        yield number, row


def _csv_rows(text: str, where: str, names: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    rows = csv.DictReader(text.splitlines())
    try:
        there = rows.fieldnames or ()
        if missing := [name for name in names if name not in there]:
            raise LoadError(
                f"{where}: no column {', '.join(missing)}; it has {one_line(', '.join(there), 200)}"
            )
        for number, row in enumerate(rows, 2):
            yield number, {name: str(row.get(name) or "").strip() for name in names}
    except csv.Error as error:
        raise LoadError(f"{where}: no CSV: {error}") from None


def _messages(found: Any, where: str, number: int) -> tuple[Mapping[str, Any], ...]:
    good = (
        isinstance(found, list)
        and found
        and all(isinstance(m, dict) and isinstance(m.get("role"), str) and "content" in m for m in found)
    )
    if not good:
        raise LoadError(f'{where}, line {number}: expected "messages", each with "role" and "content"')
    must_be_sendable(found, f"{where}, line {number}")
    return tuple(found)


def _tokens(value: Any, name: str, where: str, number: int) -> int:
    try:
        count = int(float(value))
    except (TypeError, ValueError, OverflowError):
        count = -1
    if not 0 <= count <= MOST_TOKENS:
        raise LoadError(
            f"{where}, line {number}: {name} {one_line(str(value), 40)!r} is not a number of tokens"
        )
    return count


def _seconds(value: Any, where: str, number: int, unit: float = 1.0) -> float:
    try:
        seconds = float(value) * unit
    except (TypeError, ValueError):
        seconds = math.nan
    if not math.isfinite(seconds):
        raise LoadError(f"{where}, line {number}: timestamp {one_line(str(value), 40)!r} is not a number")
    return seconds


def _moment(text: str, where: str, number: int) -> float:
    """Seconds of a date such as ``2023-11-16 18:15:46.6805900`` or ``2024-05-10 00:00:00.009930+00:00``."""
    day, _, clock = text.partition(" ")
    zone = clock.find("+")
    exact, offset = (clock, "") if zone < 0 else (clock[:zone], clock[zone:])
    whole, _, fraction = exact.partition(".")
    try:
        seconds = datetime.fromisoformat(f"{day} {whole}{offset or '+00:00'}").timestamp()
        return seconds + (float(f"0.{fraction}") if fraction else 0.0)
    except ValueError:
        raise LoadError(f"{where}, line {number}: TIMESTAMP {one_line(text, 40)!r} is not a date") from None
