"""Finds the SGLang command among the words of whatever starts it: wrappers, package managers, a shell's one line."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from suite.sglang.flags import Flags, parse_argv

SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
ENGINES = frozenset({"docker", "podman", "nerdctl"})
_CONTAINERS = re.compile(rf"({'|'.join(sorted(ENGINES))})([-_](compose|remote))?")
_ELSEWHERE = frozenset({"ssh", "kubectl", "oc"})
_PYTHON = re.compile(r"(python|pypy)[\d.]*")
_INTERPRETER = re.compile(r"(python|pypy|py)([\d.-]\S*)?")
"""More than ``_PYTHON``: what stands before ``-m`` and is no launcher of other programs (``torchrun``)."""
_MODULE = re.compile(r"sglang(\.(launch_server|cli|srt)(\.\w+)*)?")
_NO_SERVER = re.compile(r"(sglang|sglang_router|vllm)(\.\w+)*")
"""Modules that take a model too and are no server of SGLang's: routers, benchmarks."""
_ANY_MODULE = re.compile(r"[A-Za-z_]\w*(\.\w+)*")
"""Of a look-alike, if it takes ``--model-path``."""
_SCRIPT = re.compile(r"(^|/)sglang/launch_server\.py$")
_TAKES_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})
"""Options of Python that stand before ``-m`` with a value of their own."""


class NotUnderstood(ValueError):
    """No SGLang command was found; the text follows the name of what should hold one, ``advice`` says the way out."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what)
        self.advice = advice


@dataclass(frozen=True, slots=True)
class Command:
    """An SGLang command taken apart.

    ``program`` are all words up to SGLang's own flags, to be run with others behind them; ``flags`` those that were
    there. ``python`` leads to the interpreter that has SGLang (through ``uv run``, say), as far as that can be told.
    """

    program: tuple[str, ...]
    flags: Flags
    python: tuple[str, ...] | None


_PLAIN = (
    "Write it so that PYTHON -m sglang.launch_server FLAGS (or sglang serve FLAGS) can be seen in it, with "
    '--model-path; for a wrapper script use kind = "process" with its interpreter.'
)


def find(words: Sequence[str], variables: Mapping[str, str] | None = None) -> Command:
    """The SGLang command in ``words``, as an exec would get them.

    Args:
        variables: known variables, for a shell's line that names them.

    Raises:
        NotUnderstood: there is none, or it cannot be given other flags.
    """
    words = _without_split_string(words)
    for index, word in enumerate(words):
        name = word.rpartition("/")[2]
        if engine := _CONTAINERS.fullmatch(name):
            raise NotUnderstood(
                "runs a container, which cannot be copied",
                f'Use kind = "docker", engine = "{engine[1]}", with the image and options of that container.',
            )
        if name in _ELSEWHERE:
            raise NotUnderstood(
                f"runs SGLang somewhere else, by {name}",
                "Give the target the host where it runs ([hosts.NAME], reached by ssh), or attach to its URL.",
            )
        if name in SHELLS and index + 1 < len(words):
            return _of_shell(words[:index], words[index:], variables or {})
        if end := _program_ends(words, index):
            return _taken_apart(words, index, end)
    raise NotUnderstood(f"does not run SGLang in plain sight, but {words[0] if words else 'nothing'}", _PLAIN)


def _without_split_string(words: Sequence[str]) -> list[str]:
    """``env -S 'A=1 PROGRAM ...'`` as the words that env makes of it."""
    found = list(words)
    for at in range(1, len(found)):
        if found[at - 1].rpartition("/")[2] != "env":
            continue
        match = re.fullmatch(r"(?:-v?S|--split-string(?:=|$))(.*)", found[at], re.DOTALL)
        if match is None:
            continue
        line, rest = (
            (match[1], found[at + 1 :]) if match[1] else ("".join(found[at + 1 : at + 2]), found[at + 2 :])
        )
        try:
            return [*found[:at], *shlex.split(line), *rest]
        except ValueError as error:
            raise NotUnderstood(f"has words for env that are none ({error}): {line}", _PLAIN) from None
    return found


def _program_ends(words: Sequence[str], index: int) -> int:
    """Where SGLang's flags begin, if the word at ``index`` begins its command; else 0."""
    name, following = words[index].rpartition("/")[2], words[index + 1 : index + 2]
    if name == "sglang" and list(following) == ["serve"]:
        return index + 2
    if words[index].startswith("-"):
        return 0
    at = index + 1
    while at < len(words) and words[at].startswith("-") and not _RUNS_MODULE.match(words[at]):
        at += 2 if words[at] in _TAKES_VALUE else 1
    python = _PYTHON.fullmatch(name) is not None
    if at + 1 < len(words) and _RUNS_MODULE.fullmatch(words[at]):
        return at + 2 if _serves(words[at + 1], words[at + 2 :], python) else 0
    if at < len(words) and words[at].startswith("-m") and _MODULE.fullmatch(words[at][2:]):
        return at + 1
    return at + 1 if python and at < len(words) and _SCRIPT.search(words[at]) else 0


_RUNS_MODULE = re.compile(r"--module|-[bBdEiIOPqsSuv]*m")
"""Python's ``-m``, also behind its switches (``-um``), and that of ``uv run``."""


def _serves(module: str, behind: Sequence[str], python: bool) -> bool:
    """Is ``module`` a server of SGLang's, or of a look-alike that takes a model as it does?"""
    if _MODULE.fullmatch(module):
        return True
    told = any(word.startswith(("--model-path", "--model_path")) for word in behind)
    if not (python and told and _ANY_MODULE.fullmatch(module)) or any(map(_MODULE.fullmatch, behind)):
        return False
    if _NO_SERVER.fullmatch(module):
        raise NotUnderstood(f"runs {module}, which is not a single SGLang server", _PLAIN)
    return True


def _taken_apart(words: Sequence[str], index: int, end: int) -> Command:
    program, rest = list(words[:end]), list(words[end:])
    serves = words[end - 1] == "serve"
    if program[-1].removeprefix("-m") == "sglang" and rest[:1] == ["serve"]:
        program, rest, serves = [*program, "serve"], rest[1:], True  # python -m sglang serve
    if serves and rest and not rest[0].startswith("-"):
        if len(rest) > 1 and not rest[1].startswith("-"):
            raise NotUnderstood(f"serves {rest[0]!r} and {rest[1]!r}: one model was expected", _PLAIN)
        rest = ["--model-path", *rest]  # sglang serve MODEL
    try:
        flags = parse_argv(rest)
    except ValueError as error:
        raise NotUnderstood(f"runs SGLang with words that are not flags: {error}", _PLAIN) from None
    if "model-path" not in flags and "config" not in flags:
        raise NotUnderstood("runs SGLang without --model-path", _PLAIN)
    return Command(tuple(program), flags, _python(words, index))


def _python(words: Sequence[str], index: int) -> tuple[str, ...] | None:
    """The words that lead to the interpreter of the command at ``index``."""
    path = PurePosixPath(words[index])
    leading = _leading(words[:index])
    if path.name == "run" and leading:  # uv run -m
        options = itertools.takewhile(lambda word: not _RUNS_MODULE.fullmatch(word), words[index + 1 :])
        return (*leading, "run", *options, "python")
    if path.name != "sglang":
        return (*leading, str(path)) if _INTERPRETER.fullmatch(path.name) else None
    if len(path.parts) > 1:  # a console script has its interpreter beside it
        return (*leading, str(path.with_name("python")))
    return (*_of_package(leading), "python") if set(map(_name, leading)) & _MANAGERS else None


_MANAGERS = frozenset(
    {"uv", "uvx", "conda", "mamba", "micromamba", "poetry", "pixi", "pdm", "pipenv", "hatch", "rye"}
    | {"apptainer", "singularity"}
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


def _name(word: str) -> str:
    return word.rpartition("/")[2]


def _leading(words: Sequence[str]) -> tuple[str, ...]:
    """Of the words before an interpreter those that choose its environment: env's variables, a package manager's."""
    start = next((at for at, word in enumerate(words) if _name(word) in _MANAGERS), len(words))
    before = words[:start]
    given = [word for word in before if _ASSIGNMENT.fullmatch(word)] if "env" in map(_name, before) else []
    return (*(["env", *given] if given else []), *words[start:])


def _of_package(leading: Sequence[str]) -> tuple[str, ...]:
    """``uvx sglang`` names its package by its command: ``uvx python`` would be another's."""
    place = next((at for at, word in enumerate(leading) if _name(word) in ("uvx", "tool")), None)
    if place is None or any(word.startswith("--from") for word in leading):
        return tuple(leading)
    end = place + 1 if _name(leading[place]) == "uvx" else place + 2  # uv tool run
    return (*leading[:end], "--from", "sglang", *leading[end:])


# a shell's one line

_STOP = re.compile(r"[|&;()]+")
_REDIRECT = re.compile(r"(?<!\S)\d*(?:>>?|<|>&|&>>?|>\|)\s*&?[^\s|;&]+")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_PROGRAM = re.compile(
    r"(?<!\S)(?:-m\s*sglang(?:\.\w+)*(?:\s+serve)?|\S*\bsglang[\"']?\s+serve|\S*sglang/launch_server\.py)(?=\s|$)"
)
_TO_WRITE = "Write the command there without a shell, or its values as they are."


def _of_shell(before: Sequence[str], words: Sequence[str], variables: Mapping[str, str]) -> Command:
    """The command within ``SHELL -c LINE``, its flags taken out of the line and put behind it instead.

    Whatever the shell does before (its profile, ``cd``, ``source``, ``export``) is kept; where it sends the output is
    not, for that is this suite's to read.
    """
    shell = words[0].rpartition("/")[2]
    at = next((i for i, word in enumerate(words) if re.fullmatch(r"-[a-zA-Z]*c", word)), None)
    if at is None or at + 1 >= len(words):
        raise NotUnderstood(f"runs a script by {shell}, which cannot be given other flags", _PLAIN)
    line = words[at + 1].replace("\\\n", " ")
    found = list(_PROGRAM.finditer(line))
    if len(found) != 1:
        count = f"{len(found)} SGLang commands" if found else "no SGLang command"
        raise NotUnderstood(f"runs a line by {shell} with {count} in plain sight: {line}", _PLAIN)
    start, rest = line[: found[0].end()], line[found[0].end() :]
    try:
        own, given = _last_command(start), _words(_bare(rest))
    except NotUnderstood:
        raise
    except ValueError as error:
        raise NotUnderstood(f"runs a line by {shell} that is none ({error}): {line}", _TO_WRITE) from None
    while given and given[-1] == ";":
        del given[-1]
    given = _with_positional(given, words[at + 3 :], line)
    if any(_STOP.fullmatch(token) for token in given):
        raise NotUnderstood(f"runs a line by {shell} that goes on behind SGLang's flags: {line}", _TO_WRITE)
    inner = find([*own, *_known(given, variables, line)], variables)
    return Command((*before, *words[: at + 1], f'{start} "$@"', "sglang"), inner.flags, inner.python)


def _last_command(text: str) -> list[str]:
    """The words of the last command of a shell's line, without ``exec`` and assignments."""
    tokens = _words(text)
    stops = [place for place, token in enumerate(tokens) if _STOP.fullmatch(token)]
    own = tokens[stops[-1] + 1 :] if stops else tokens
    while own and (own[0] == "exec" or re.match(r"[A-Za-z_]\w*=", own[0])):
        own = own[1:]
    return own


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars="|&;()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def _with_positional(given: Sequence[str], positional: Sequence[str], line: str) -> list[str]:
    """A command's words with ``"$@"`` replaced by what stands behind the line and its ``$0``."""
    found = [word for each in given for word in (positional if each in ("$@", "$*") else [each])]
    if positional and not {"$@", "$*"} & set(given):
        raise NotUnderstood(
            f'runs a line by a shell with words behind it that no "$@" takes: {line}', _TO_WRITE
        )
    return found


_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"")
_COMMENT = re.compile(r"(?<!\S)#[^\n]*")
_HOME = re.compile(r"(?<!\S)~\S*")


def _bare(text: str) -> str:
    """A shell's text without redirections and comments, both outside of quotes; ``~`` is not one that is known."""
    pieces: list[str] = []
    place = 0
    for match in [*_QUOTED.finditer(text), None]:
        outside = _REDIRECT.sub(" ", text[place : match.start() if match else len(text)])
        if comment := _COMMENT.search(outside):  # whatever stands behind it is on the same line
            return "".join([*pieces, outside[: comment.start()]])
        if home := _HOME.search(outside):
            raise NotUnderstood(f"uses {home[0]}, which only a shell can expand: {text.strip()}", _TO_WRITE)
        pieces.append(outside)
        if match:
            pieces.append(match[0])
            place = match.end()
    return "".join(pieces)


def _known(words: Sequence[str], variables: Mapping[str, str], line: str) -> list[str]:
    found = []
    for word in words:
        text = _VARIABLE.sub(lambda m: variables.get(m[1] or m[2], m[0]), word)
        if "$" in text or "`" in text:
            raise NotUnderstood(f"uses {text}, which only a shell can expand: {line}", _TO_WRITE)
        found.append(text)
    return found
