"""Reads systemd units as systemd does: drop-ins, continuation lines, quotes, escapes, specifiers, variables.

Written after systemd.syntax(7), systemd.service(5), systemd.exec(5) and systemd.unit(5) of systemd 252.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", '"': '"', "'": "'", "s": " ",
}  # fmt: skip
_NUMERIC = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_BRACED = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\})")
_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_SPACE = " \t\n\r"


class UnitSyntaxError(ValueError):
    """Text that systemd would refuse."""


def assignments(text: str, section: str) -> dict[str, list[str]]:
    """The assignments of one section, in order, from a unit followed by its drop-ins (``systemctl cat``).

    An empty assignment takes back those before it, which is how a drop-in replaces a command.
    """
    found: dict[str, list[str]] = {}
    current = ""
    for line in _logical_lines(text):
        if line.startswith("[") and line.endswith("]"):
            current = line[1:-1]
            continue
        name, equals, value = line.partition("=")
        if current != section or not equals:
            continue
        if value.strip():
            found.setdefault(name.strip(), []).append(value.strip())
        else:
            found[name.strip()] = []
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with their continuations; comments between those are left out, as systemd does."""
    pending = ""
    for raw in text.splitlines():
        if raw.lstrip().startswith(("#", ";")):
            continue
        line = pending + raw
        if raw.endswith("\\"):
            pending = line[:-1] + " "
            continue
        pending = ""
        if line.strip():
            yield line.strip()
    if pending.strip():
        yield pending.strip()


def split(text: str) -> list[str]:
    """Words of a value: quotes (also within a word) and C escapes are resolved, unknown escapes kept.

    Raises:
        UnitSyntaxError: a quote is not closed.
    """
    words: list[str] = []
    index, length = 0, len(text)
    while True:
        while index < length and text[index] in _SPACE:
            index += 1
        if index >= length:
            return words
        word, index = _word(text, index)
        words.append(word)


def _word(text: str, index: int) -> tuple[str, int]:
    word, quote = "", ""
    while index < len(text):
        char = text[index]
        if char == "\\" and index + 1 < len(text):
            piece, index = _escape(text, index + 1)
            word += piece
            continue
        index += 1
        if quote:
            if char == quote:
                quote = ""
            else:
                word += char
        elif char in "'\"":
            quote = char
        elif char in _SPACE:
            break
        else:
            word += char
    if quote:
        raise UnitSyntaxError(f"a {quote} is not closed in: {text}")
    return word, index


def _escape(text: str, index: int) -> tuple[str, int]:
    if text[index] in _ESCAPES:
        return _ESCAPES[text[index]], index + 1
    if match := _NUMERIC.match(text, index):
        hexadecimal = match[1] or match[2] or match[3]
        number = int(hexadecimal, 16) if hexadecimal else int(match[4], 8)
        if 0 < number < 0x110000:
            return chr(number), match.end()
    return "\\" + text[index], index + 1


def specifiers(text: str, value_of: Callable[[str], str]) -> str:
    """``text`` with ``%x`` replaced by ``value_of("x")`` and ``%%`` by ``%``."""
    return re.sub(
        r"%(.)", lambda match: "%" if match[1] == "%" else value_of(match[1]), text, flags=re.DOTALL
    )


def expand(words: list[str], variables: Mapping[str, str]) -> list[str]:
    """Command words with their variables: ``${X}`` within a word, ``$X`` alone as several words, ``$$`` a dollar."""
    result: list[str] = []
    for word in words:
        if match := _WHOLE.fullmatch(word):
            result.extend(split(variables.get(match[1], "")))
            continue
        result.append(_BRACED.sub(lambda m: variables.get(m[1], "") if m[1] else "$", word))
    return result


_VALUE = re.compile(
    r"""[^\S\n]*(?:'([^']*)(?:'|\Z)|"((?:\\.|[^"\\])*)(?:"|\Z)|((?:\\.|[^\n\\])+))""", re.DOTALL
)
_ASSIGNMENT = re.compile(r"\s*(?:[#;](?:\\.|[^\n\\])*|([^\n=]*)(=|\n|\Z))", re.DOTALL)


def environment_file(text: str) -> dict[str, str]:
    """Variables of an ``EnvironmentFile``, nothing expanded.

    A value is quoted from its beginning on (over several lines, and several quoted parts are joined) or not at all:
    quotes within ``{"a": 1}`` are its own.
    """
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        start = _ASSIGNMENT.match(text, place)
        if start is None or start.end() == place:
            break
        place, name = start.end(), (start[1] or "").strip()
        if start[2] != "=":
            continue
        value = ""
        while part := _VALUE.match(text, place):
            place = part.end()
            value += _resolved(part)
            if part[3] is not None:
                break
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            found[name] = value
    return found


def _resolved(part: re.Match[str]) -> str:
    """Single quotes keep everything; double quotes know ``\\"``, ``\\\\``, ``\\$`` and ``\\```; bare text any."""
    if part[1] is not None:
        return part[1]
    if part[2] is not None:
        return re.sub(r'\\(["\\$`])', r"\1", part[2].replace("\\\n", ""))
    bare = part[3].replace("\\\n", "")
    return re.sub(
        r"\\(.)", r"\1", bare.rstrip() if not bare.rstrip().endswith("\\") else bare, flags=re.DOTALL
    )
