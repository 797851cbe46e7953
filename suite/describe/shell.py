"""Reads a pasted command or a start script as a shell would, as far as it is plain: variables, exports, cd, activate.

What only a running shell knows (``$(...)``, conditions, loops) is not guessed at: such a text is not plain.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from suite.redact import is_secret
from suite.sglang.command import SHELLS

_NAME = r"[A-Za-z_]\w*"
_ASSIGNMENT = re.compile(rf"({_NAME})(\+?)=(.*)", re.DOTALL)
_ARRAY = re.compile(rf"\s*(?:declare\s+-a\s+)?({_NAME})(\+?)=\((.*)\)\s*", re.DOTALL)
_EXPANSION = re.compile(rf"\$(?:\{{({_NAME}|[@*\d])(\[[@*]\])?(?:(:?[-=?+])([^}}]*))?\}}|({_NAME})|([@*\d]))")
_ALL = re.compile(r'"\$(?:[@*]|\{[@*]\})"')
_WHOLE_ARRAY = re.compile(rf'"\$\{{({_NAME})\[[@*]\]\}}"')
_CONTROL = frozenset(
    {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "function"}
)
_NOTHING = frozenset({
    "set", "echo", "printf", "mkdir", "sleep", "true", ":", "date", "umask", "trap", "shopt", "ulimit",
    "touch", "nvidia-smi", "which", "clear", "wait", "unset", "hostname", "pwd", "ls", "rm", "pip",
})  # fmt: skip
"""Commands that change nothing of the one that serves."""


class NotPlain(ValueError):
    """Only a running shell knows what this means; the text is the part in question."""


@dataclass(slots=True)
class ShellCommand:
    """One command as a shell would run it: its words, where, and with which variables of its own."""

    words: list[str]
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    venv: str | None = None
    conda: str | None = None
    sourced: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    """What stood behind it and is not needed: a pipe, ``&``."""


def lines(text: str, known: Mapping[str, str]) -> Iterator[ShellCommand]:
    """Each command of a text that may be the one that serves.

    Args:
        known: variables that are set before: HOME, USER, PWD.

    Raises:
        NotPlain: from the place on where it is not.
    """
    return _Reader(known).read(text)


class _Reader:
    def __init__(self, known: Mapping[str, str]) -> None:
        self._values = dict(known)
        self._arrays: dict[str, list[str]] = {}
        self._exported: dict[str, str] = {}
        self._cwd: str | None = None
        self._venv: str | None = None
        self._conda: str | None = None
        self._sourced: list[str] = []

    def read(self, text: str) -> Iterator[ShellCommand]:
        piped = False
        for statement, end in _statements(text):
            if piped:  # what reads the output of the command before
                piped = end == "|"
                continue
            line = self._statement(statement)
            if line is not None:
                line.dropped = [end] if end in ("|", "&") else []
                yield line
            piped = end == "|"

    def _statement(self, raw: str) -> ShellCommand | None:
        if match := _ARRAY.fullmatch(raw):
            added = self._words(match[3])
            self._arrays[match[1]] = [*(self._arrays.get(match[1], []) if match[2] else []), *added]
            return None
        words = self._words(raw)
        if not words:
            return None
        own: dict[str, str] = {}
        while words and (match := _ASSIGNMENT.fullmatch(words[0])):
            own[match[1]] = (self._values.get(match[1], "") if match[2] else "") + match[3]
            del words[0]
        if not words:
            self._values |= own
            self._exported |= {name: own[name] for name in own if name in self._exported}
            return None
        return self._command(_bare(words), own)

    def _command(self, words: list[str], own: dict[str, str]) -> ShellCommand | None:
        name = words[0].rpartition("/")[2] if words else ""
        if name in _CONTROL or (name.endswith("()") and name != "()") or name in ("{", "}", "[", "[["):
            raise NotPlain(" ".join(words)[:80])
        if name in ("export", "declare", "typeset", "readonly"):
            self._export([word for word in words[1:] if not word.startswith("-")])
        elif name == "cd":
            self._cwd = _joined(self._cwd, words[1] if len(words) > 1 else self._values.get("HOME", "~"))
            self._values["PWD"] = self._cwd
        elif name in ("source", ".") and len(words) > 1:
            self._source(words)
        elif name in ("conda", "mamba", "micromamba") and words[1:2] == ["activate"]:
            self._conda = words[2] if len(words) > 2 else "base"
        elif name not in _NOTHING and words:
            return self._line(words, own)
        return None

    def _line(self, words: list[str], own: dict[str, str]) -> ShellCommand:
        env = {**self._exported, **own}
        return ShellCommand(words, env, self._cwd, self._venv, self._conda, list(self._sourced))

    def _export(self, words: list[str]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                self._values[name] = value
            if name in self._values:
                self._exported[name] = self._values[name]

    def _source(self, words: list[str]) -> None:
        path = _joined(self._cwd, words[1])
        if path.endswith("/bin/activate") and len(words) == 2:
            self._venv = path.removesuffix("/bin/activate")
        elif words[1].rpartition("/")[2] == "activate" and len(words) == 3:
            self._conda = words[2]
        elif not path.endswith(("conda.sh", "mamba.sh")):
            self._sourced.append(words[1])

    def _words(self, raw: str) -> list[str]:
        text = self._expanded(raw)
        lexer = shlex.shlex(text, posix=True, punctuation_chars="<>")
        lexer.whitespace_split = True
        lexer.commenters = ""
        try:
            return [self._home(word) for word in _without_redirections(list(lexer))]
        except ValueError as error:
            raise NotPlain(f"{error}: {raw[:80]}") from None

    def _home(self, word: str) -> str:
        """``~/x`` with the home directory, where that is known."""
        home = self._values.get("HOME")
        return home + word[1:] if home and (word == "~" or word.startswith("~/")) else word

    def _expanded(self, raw: str) -> str:
        """``raw`` with its variables as a shell would put them in, quoted so that they stay what they are."""
        if "`" in _outside_single(raw) or "$((" in raw:
            raise NotPlain(raw[:80])
        raw = re.sub(r"\$\(pwd\)", "${PWD}", raw)
        raw = _ALL.sub("", raw)
        raw = _WHOLE_ARRAY.sub(lambda m: " ".join(map(shlex.quote, self._arrays.get(m[1], []))), raw)
        if "$(" in _outside_single(raw) or "<<" in raw:
            raise NotPlain(raw[:80])
        quotes = {at: quote for at, _, quote in _characters(raw)}
        pieces, place = [], 0
        for match in _EXPANSION.finditer(raw):
            quoting = quotes.get(match.start(), "'")
            if quoting == "'":  # or escaped
                continue
            pieces += [raw[place : match.start()], self._value(match, quoting)]
            place = match.end()
        return "".join([*pieces, raw[place:]])

    def _value(self, match: re.Match[str], quoting: str) -> str:
        name = match[1] or match[5] or match[6]
        if name in ("@", "*"):
            return ""
        if name in self._arrays and match[2]:
            return " ".join(map(shlex.quote, self._arrays[name]))
        value = self._values.get(name)
        if not value and match[3] and match[3].endswith(("-", "=")):
            value = self._expanded(match[4]).strip("'\"")
        if value is None and is_secret(name):
            value = f"{{env:{name}}}"  # never the value itself
        if value is None:
            if name.isdecimal():
                raise NotPlain(match[0])
            raise NotPlain(f"{match[0]}, which is set nowhere in it")
        if quoting:
            return re.sub(r'([\\"$`])', r"\\\1", value)
        return re.sub(r"([\\\"'$`;&|<>()])", r"\\\1", value)


def _bare(words: list[str]) -> list[str]:
    """A command without what only keeps it running or hands it on: exec, nohup, sudo, screen, tmux."""
    while words:
        name = words[0].rpartition("/")[2]
        if name in ("exec", "nohup", "time", "setsid", "command"):
            words = words[1:]
        elif name == "sudo":
            words = _behind_options(words, "ugCphrtT")
            while words and _ASSIGNMENT.fullmatch(words[0]):
                words = words[1:]
        elif name == "screen" or (name == "tmux" and words[1:2] and words[1].startswith("new")):
            words = _behind_options(
                words[1:] if name == "tmux" else words, "ceFfnstxy" if name == "tmux" else "SscehpTt"
            )
            if len(words) == 1:
                words = ["bash", "-c", *words]
        else:
            return words
    return words


def _behind_options(words: list[str], taking: str) -> list[str]:
    """The words behind a command's own options, of which those in ``taking`` have a value."""
    at = 1
    while at < len(words) and words[at].startswith("-"):
        option = words[at]
        at += 1
        if option == "--":
            break
        if not option.startswith("--") and option[-1] in taking:
            at += 1
    return words[at:]


def _joined(cwd: str | None, path: str) -> str:
    return path if path.startswith(("/", "~")) or not cwd else f"{cwd.rstrip('/')}/{path}"


def _without_redirections(words: list[str]) -> list[str]:
    kept: list[str] = []
    at = 0
    while at < len(words):
        if re.fullmatch(r"[<>]+", words[at]):
            if kept and re.fullmatch(r"\d|&", kept[-1]):
                kept.pop()
            at += 2
            continue
        kept.append(words[at])
        at += 1
    return kept


def _statements(text: str) -> Iterator[tuple[str, str]]:
    """Each statement with what ends it: a line, ``;``, ``&&``, ``|``, ``&``; quotes and parentheses are looked into by nobody."""
    text = re.sub(r"\\\r?\n", " ", text).replace("\r", "")
    current, depth, ended = "", 0, 0
    for at, piece, quote in _characters(text):
        if at < ended:
            continue
        if quote or len(piece) != 1:
            pass
        elif piece in "({":
            depth += piece == "(" or current.endswith("$")
        elif piece in ")}":
            depth = max(0, depth - 1)
        elif not depth and (end_mark := _ends(text, at, current)):
            yield current.strip(), end_mark.strip() or ";"
            current, ended = "", at + len(end_mark)
            continue
        current += piece
    if quote:
        raise NotPlain("a quote that is not closed")
    if current.strip():
        yield current.strip(), ""


def _characters(text: str) -> Iterator[tuple[int, str, str]]:
    """Each character with its place and the quote it stands in; an escaped one with its backslash; no comments.

    At last nothing, with the quote that is still open.
    """
    quote, at = "", 0
    while at < len(text):
        piece = text[at : at + 2] if text[at] == "\\" and quote != "'" else text[at]
        if piece == "#" and not quote and (at == 0 or text[at - 1].isspace() or text[at - 1] in ";|&"):
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
            continue
        yield at, piece, quote
        if piece in ("'", '"') and quote in ("", piece):
            quote = "" if quote else piece
        at += len(piece)
    yield at, "", quote


def _ends(text: str, at: int, current: str) -> str:
    """What ends a statement at this place, or nothing; ``2>&1`` and ``&>`` end none."""
    two = text[at : at + 2]
    if two in ("&&", "||"):
        return two
    if text[at] == "&" and (two == "&>" or current.endswith((">", "<"))):
        return ""
    if text[at] == "|" and current.endswith(">"):
        return ""
    return text[at] if text[at] in ";|&\n" else ""


def _outside_single(raw: str) -> str:
    return "".join(piece for _, piece, quote in _characters(raw) if quote != "'")


def of_shell(words: list[str]) -> str | None:
    """The line that ``SHELL -c LINE`` runs, if that is what ``words`` are."""
    if words and words[0].rpartition("/")[2] in SHELLS:
        at = next((i for i, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*c", word)), None)
        if at is not None and at + 1 < len(words):
            return words[at + 1]
    return None
