"""What is asked: prompts by kind of content, cut and prefixed to size, with a hash that says exactly what they were.

Kinds that come with the suite are JSONL files in `prompts`, one conversation a line, each continued by prompts made from
parts (`making`), more than five hundred a kind; a person adds a kind by giving a path to a JSONL file:
`{"messages": [{"role": "user", "content": "..."}]}`, optionally with "id" and "kind".
"""

from __future__ import annotations

import difflib
import hashlib
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from suite.foreign import NotJSON, json_of, one_line, read_file
from suite.load import making
from suite.load.records import LoadError

KINDS = ("code", "maths", "prose", "json", "summary", "multilingual", "agent")
"""The kinds of content that are shipped."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One thing to ask: a conversation, or token ids (which only the completions API takes)."""

    id: str
    kind: str
    messages: tuple[Message, ...] = ()
    token_ids: tuple[int, ...] = ()
    max_tokens: int | None = None
    """Length of its answer, where that is its own and not the workload's."""

    @property
    def text(self) -> str:
        """The conversation as plain text, for the completions API."""
        return "\n\n".join(str(message.get("content") or "") for message in self.messages)

    @property
    def size_bytes(self) -> int:
        """How many bytes its text has, roles and all; with token ids, how many these are."""
        return len(self.token_ids) + len(json.dumps(self.messages, ensure_ascii=False, default=str).encode())

    def prefixed(self, prefix: str) -> Prompt:
        """The same prompt with `prefix` before its first words, so that it shares no cached prefix from there on."""
        if not prefix or not self.messages:
            return self
        first, *rest = self.messages
        return replace(self, messages=({**first, "content": f"{prefix}{first.get('content') or ''}"}, *rest))

    def cut(self, chars: int) -> Prompt:
        """The same prompt with at most `chars` characters of content, cut at a word from the end."""
        left, kept = chars, []
        for message in self.messages:
            content = str(message.get("content") or "")
            if len(content) > left:
                content = content[:left].rsplit(" ", 1)[0] if left else ""
            left -= len(content)
            kept.append({**message, "content": content})
        ids = self.token_ids[:chars]
        return replace(
            self, messages=tuple(m for m in kept if m["content"] or m.get("tool_calls")), token_ids=ids
        )


@dataclass(frozen=True)
class Workload:
    """Prompts and how much of them to play. Immutable: `sized` returns a changed copy.

    `requests` prompts are played, in order and round again if there are fewer; None: each once. `unique_prefix` goes before every
    prompt together with the request's number, `shared_prefix` before all of them alike. `acceptance_meaningful`
    is False for content whose acceptance says nothing.
    """

    name: str
    prompts: tuple[Prompt, ...]
    max_tokens: int | None = None
    requests: int | None = None
    unique_prefix: str | None = None
    shared_prefix: str | None = None
    prompt_chars_max: int | None = None
    acceptance_meaningful: bool = True
    source: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.prompts:
            raise LoadError(f"workload {self.name!r} holds no prompts")

    def sized(self, **changes: Any) -> Workload:
        """A copy with some of `max_tokens`, `requests`, `unique_prefix`, `shared_prefix`, `prompt_chars_max` changed."""
        allowed = ("max_tokens", "requests", "unique_prefix", "shared_prefix", "prompt_chars_max")
        for name in changes:
            if name not in allowed:
                near = difflib.get_close_matches(name, allowed, 1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; it has {', '.join(allowed)}"
                raise LoadError(f"a workload has no size {name!r}{hint}")
        return replace(self, **changes)

    def prompt(self, index: int) -> Prompt:
        """The prompt of request number `index`, prefixes and cuts applied."""
        prompt = self.prompts[index % len(self.prompts)]
        if self.prompt_chars_max is not None:
            prompt = prompt.cut(self.prompt_chars_max)
        if self.shared_prefix:
            prompt = prompt.prefixed(self.shared_prefix)
        if self.unique_prefix is not None:
            prompt = prompt.prefixed(f"[{self.unique_prefix}{index}] ")
        return prompt

    @cached_property
    def content_hash(self) -> str:
        """What was asked, as 16 hex digits: the prompts that are played, sizes and prefixes.

        Of a unique prefix only its presence counts: it differs each time by design.
        """
        played = self.prompts[: self.requests]
        content: dict[str, Any] = {
            "prompts": [[p.kind, [dict(m) for m in p.messages], list(p.token_ids)] for p in played],
            "sizes": [self.max_tokens, self.requests, self.prompt_chars_max],
            "prefixes": [self.unique_prefix is not None, self.shared_prefix],
        }
        if any(p.max_tokens is not None for p in played):
            content["lengths"] = [p.max_tokens for p in played]
        canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]


def load(kind: str | Path) -> Workload:
    """The shipped workload of this kind, several kinds joined by "+", or the JSONL file at this path.

    A shipped kind plays its first prompts, those written one by one, unless it is `sized` to more `requests`.

    Raises LoadError that names the file and line of what is wrong, or the kinds there are.
    """
    name = str(kind)
    if name in KINDS:
        return _shipped(name)
    if "+" in name and all(part in KINDS for part in name.split("+")):
        return mixed(*(load(part) for part in name.split("+")))
    path = Path(name)
    if path.suffix != ".jsonl" and not _is_there(path):
        near = difflib.get_close_matches(name, KINDS, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LoadError(
            f"no workload {one_line(name, 80)!r}.{hint} There are {', '.join(KINDS)}, or a path to a .jsonl file."
        )
    try:
        text = read_file(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise LoadError(f"cannot read workload {one_line(str(path))}: {said}") from error
    return Workload(path.stem, tuple(_parse(text, path.stem, str(path))), source=str(path))


@cache
def _shipped(name: str) -> Workload:
    """The prompts of a kind that were written one by one, and after them those that are made."""
    folder = resources.files("suite.load").joinpath("prompts")
    written = tuple(
        _parse(folder.joinpath(f"{name}.jsonl").read_text(encoding="utf-8"), name, f"{name}.jsonl")
    )
    rows = making.made(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8"), name)
    more = tuple(Prompt(row["id"], name, tuple(row["messages"])) for row in rows)
    return Workload(name, (*written, *more), requests=len(written), source=f"shipped: {name}")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL
        return False


def mixed(*workloads: Workload) -> Workload:
    """Several workloads' prompts in turn, one of each kind after the other."""
    longest = max(len(w.prompts) for w in workloads)
    turns = [w.prompts[i] for i in range(longest) for w in workloads if i < len(w.prompts)]
    requests = sum(w.requests or len(w.prompts) for w in workloads)
    return Workload("+".join(w.name for w in workloads), tuple(turns), requests=requests)


def random_tokens(prompt_tokens: int, prompts: int = 8, vocabulary: int = 256, seed: int = 0) -> Workload:
    """Prompts of exactly `prompt_tokens` random token ids: for step time only, never for acceptance.

    Ids come from the middle of the first `vocabulary`, away from the special tokens at its ends.
    """
    chance = random.Random(seed)
    low, high = vocabulary // 8, vocabulary - vocabulary // 8
    made = (tuple(chance.randrange(low, high) for _ in range(prompt_tokens)) for _ in range(prompts))
    named = tuple(Prompt(f"random-{i}", "random", token_ids=ids) for i, ids in enumerate(made))
    return Workload(f"random-{prompt_tokens}", named, acceptance_meaningful=False)


def _parse(text: str, name: str, where: str) -> Iterator[Prompt]:
    for number, row in json_lines(text, where):
        messages = row.get("messages") if isinstance(row, dict) else None
        if not isinstance(messages, list) or not messages:
            raise LoadError(
                f'{where}, line {number}: expected {{"messages": [{{"role": ..., "content": ...}}]}}'
            )
        for message in messages:
            if (
                not isinstance(message, dict)
                or not isinstance(message.get("role"), str)
                or "content" not in message
            ):
                raise LoadError(
                    f'{where}, line {number}: every message needs "role" and "content", got {one_line(repr(message))}'
                )
        must_be_sendable(messages, f"{where}, line {number}")
        yield Prompt(str(row.get("id", f"{name}-{number}")), str(row.get("kind", name)), tuple(messages))


def json_lines(text: str, where: str) -> Iterator[tuple[int, Any]]:
    """Each line of JSON with its number; empty lines are passed over.

    Raises:
        LoadError: a line is not JSON; ``where`` names the file.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json_of(line)
            except NotJSON as error:
                raise LoadError(f"{where}, line {number}: not JSON: {error}") from None


def must_be_sendable(messages: Any, place: str) -> None:
    """Raise LoadError, naming ``place``, if messages cannot be written as UTF-8."""
    try:
        json.dumps(messages, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise LoadError(f"{place}: holds half of a surrogate pair, which no request can send") from None
