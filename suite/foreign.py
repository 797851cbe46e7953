"""What comes from outside the suite: how much of it is read, how deep it may nest, and how it is shown."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

MIB = 2**20

LINE_BYTES = 4 * MIB
"""The longest line of a stream or a page. SGLang's longest, a chunk with log probabilities, has some hundred KiB."""

EVENT_BYTES = 4 * MIB
"""The largest server-sent event, all its lines together."""

PAGE_BYTES = 32 * MIB
"""The largest answer that is no stream: /server_info and /metrics of many ranks have less than one MiB."""

ERROR_BYTES = 256 * 1024
"""How much of an error's body is read. The rest says nothing that its beginning does not."""

ERROR_S = 20.0
"""How long an error's body may take, all of it."""

NESTING = 64
"""How deep a JSON value may nest. SGLang's own answers nest 8 levels."""

SHOWN_CHARS = 300
"""How much of a foreign text is shown within a sentence."""


FILE_BYTES = 64 * MIB
"""The largest file of configuration, prompts or samples that is read. A year of sessions has some 5 MiB."""


def read_file(path: Path, most_bytes: int = FILE_BYTES) -> bytes:
    """The whole of a regular file.

    Raises:
        OSError: it is not there or may not be read, or it is a device or a pipe, or too large; ``strerror`` says so.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    with path.open("rb") as file:
        data = file.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"has more than {most_bytes >> 20} MiB", str(path))
    return data


class NotJSON(ValueError):
    """What came is no JSON value, or not one that is read; the text says why, without quoting it."""


def answer_bytes(tokens: int) -> int:
    """The largest stream for an answer of ``tokens`` output tokens: 16 KiB each, and 16 MiB for everything else."""
    return 16 * MIB + 16 * 1024 * max(0, tokens)


def json_of(text: str | bytes) -> Any:
    """The JSON value of ``text``.

    Raises:
        NotJSON: it is none, nests deeper than ``NESTING``, or has a number of thousands of digits.
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise NotJSON(f"its JSON nests deeper than {NESTING} levels") from None
    except UnicodeDecodeError:
        raise NotJSON("it is not text") from None
    except ValueError as error:  # json's own names a place; a number with too many digits is a plain one
        raise NotJSON(f"it is not JSON ({error})") from None
    check_nesting(value)
    return value


def check_nesting(value: Any) -> None:
    """Raises NotJSON if lists and tables of ``value`` nest deeper than ``NESTING``."""
    level = [value]
    for _ in range(NESTING + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise NotJSON(f"its JSON nests deeper than {NESTING} levels")


def one_line(text: str | bytes, limit: int = SHOWN_CHARS) -> str:
    """A foreign text for a sentence: printable, on one line, and at most ``limit`` characters long.

    What no terminal should be sent (escape sequences, controls, marks that turn the direction of writing) is shown
    as an escape, such as ``\\x1b``.
    """
    if isinstance(text, bytes):
        text = text[: 4 * limit + 4].decode("utf-8", "replace")
    text = " ".join(text[: 4 * limit].split())
    shown = "".join(map(_printable, text))
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."


def lines(text: str, most_lines: int = 40, most_chars: int = 4000) -> str:
    """A foreign text of several lines for people: each printable, the whole short; where it was cut is said."""
    whole = text[: 4 * most_chars].splitlines()
    shown = "\n".join("".join(map(_printable, line.expandtabs())) for line in whole[:most_lines])[:most_chars]
    left = len(text) > 4 * most_chars or len(whole) > most_lines or len(shown) == most_chars
    return f"{shown}\n... (cut here; the log has the whole)" if left else shown


def printable(text: str) -> str:
    """A text of several lines with whatever no terminal should be sent shown as an escape."""
    return "".join(char if char in "\n\t" else _printable(char) for char in text)


def _printable(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode("ascii")
