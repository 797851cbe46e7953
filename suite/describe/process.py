"""A command, a start script or a process as a target that launches processes of its own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from suite.describe import container, inspected, shell
from suite.describe.draft import CannotDescribe, Draft, launch_of
from suite.hosts import Host
from suite.redact import is_secret
from suite.sglang.command import Command, NotUnderstood, find

_WAY_OUT = (
    "Paste the command that starts SGLang with its values written out, or name its URL once it runs: "
    "init --from http://127.0.0.1:30000"
)


def of_text(
    text: str, source: str, host: Host, known: Mapping[str, str], cwd: str | None, path: str | None = None
) -> Draft:
    """The target of a pasted command, or of the text of a start script.

    Args:
        known: variables that are set where it is run.
        cwd: where it is run.
        path: the script's own, if it is one: it may be run as a whole where it cannot be taken apart.

    Raises:
        CannotDescribe: no SGLang command is to be seen in it.
    """
    why: NotUnderstood | None = None
    unplain: shell.NotPlain | None = None
    try:
        for line in shell.lines(text, known):
            try:
                return _of_line(line, source, host, known, cwd)
            except NotUnderstood as error:  # what comes before the one that serves
                why = error
    except shell.NotPlain as error:
        unplain = error
    if path is not None and '"$@"' in text:
        return _whole_script(text, path, source, cwd)
    if unplain is not None:
        raise CannotDescribe(
            f"{source}: only a running shell knows what this means: {unplain}. {_WAY_OUT}"
            + (f'; or have {path} end with: ... "$@"' if path else "")
        )
    said = f"{source} {why}. {why.advice}" if why is not None else f"{source} holds no command. {_WAY_OUT}"
    raise CannotDescribe(said)


def _of_line(
    line: shell.ShellCommand, source: str, host: Host, known: Mapping[str, str], cwd: str | None
) -> Draft:
    """The target of one command.

    Raises:
        NotUnderstood: it is none that runs SGLang.
    """
    words = line.words
    name = words[0].rpartition("/")[2]
    if container.engine_of(words) == 0:
        return container.of_run(words, source, host)
    if name in ("docker", "podman") and "exec" in words[1:3]:
        return inspected.of_exec(words, source, host)
    if name == "ssh":
        raise CannotDescribe(
            f"{source} runs SGLang over ssh: give the rest of it, and where it runs: init --host HOST --from ..."
        )
    if (inner := shell.of_shell(words)) is not None and container.engine_of(inner.split()) is not None:
        return of_text(inner, source, host, known, cwd)
    found = find(words, {**known, **line.env})
    draft = of_command(found, source)
    draft.env = dict(line.env)
    _environment_of(draft, line)
    where = (
        line.cwd
        if line.cwd is None or line.cwd.startswith(("/", "~"))
        else os.path.join(cwd or ".", line.cwd)
    )
    if place := where or cwd:
        draft.launch["cwd"] = os.path.expanduser(place) if host.is_local else place
    for path in line.sourced:
        draft.unsure.setdefault("launch", f"it sourced {path} first: what that sets is not here")
    if "|" in line.dropped:
        draft.notes.append("its output was piped on; the suite reads it itself")
    return draft


def of_command(found: Command, source: str) -> Draft:
    """The target of an SGLang command taken apart."""
    draft = Draft(source, launch_of(_uncaptured(found.program)), found.flags)
    command = draft.launch.get("command")
    if command and is_secret_within(command):
        raise CannotDescribe(
            f"{source}: a secret stands within its command line; put it into the environment"
        )
    return draft


def _uncaptured(program: Sequence[str]) -> list[str]:
    """``conda run`` keeps what its program prints to itself until the end, unless it is told not to."""
    words = list(program)
    for at in range(len(words) - 1):
        if words[at].rpartition("/")[2] in ("conda", "mamba") and words[at + 1] == "run":
            if not {"--no-capture-output", "--live-stream", "-s"} & set(words):
                words.insert(at + 2, "--no-capture-output")
            break
    return words


def is_secret_within(command: list[str]) -> bool:
    """Does a shell's line within a command assign a secret?"""
    names = [part.partition("=")[0] for word in command for part in word.split() if "=" in part]
    return any(is_secret(name) for name in names)


def _environment_of(draft: Draft, line: shell.ShellCommand) -> None:
    """Put the environment that was activated into the program's own words."""
    launch = draft.launch
    words = list(launch.get("command") or [*launch.get("wrapper", []), launch.get("python", "")])
    if line.conda is not None:
        program = [
            *words,
            *([] if "command" in launch else ["-m", launch.get("module", "sglang.launch_server")]),
        ]
        draft.launch = {
            "kind": "process",
            "command": ["conda", "run", "--no-capture-output", "-n", line.conda, *program],
        }
        draft.unsure["launch.command"] = (
            "conda must be on the PATH of a login without a terminal; else write its path"
        )
    elif line.venv is not None:
        place = len(launch.get("wrapper", [])) if "command" not in launch else 0
        if "/" not in words[place]:
            words[place] = f"{line.venv}/bin/{words[place]}"
        if "command" in launch:
            launch["command"] = words
        else:
            launch["python"] = words[place]


def _whole_script(text: str, path: str, source: str, cwd: str | None) -> Draft:
    """A script that cannot be taken apart and hands its arguments on: run as it is, SGLang's last word is ours."""
    words = text.replace("\\\n", " ").split()
    named = ("--model-path", "--model")
    model = next((words[at + 1] for at, word in enumerate(words[:-1]) if word in named), "")
    model = model or next((word.partition("=")[2] for word in words if word.startswith("--model-path=")), "")
    if not model or "$" in model:
        raise CannotDescribe(
            f"{source}: its model cannot be read off; write --model-path PATH into it, without variables"
        )
    if "--speculative-al" in text:
        raise CannotDescribe(
            f"{source}: it asks for speculation by itself, so that mtp-off could not be off; take the flags "
            "--speculative-... out of it: the arms bring them"
        )
    draft = Draft(source, {"kind": "process", "command": [path]})
    if not os.access(path, os.X_OK):
        draft.launch["command"] = ["bash", path]
    draft.model = model.strip("\"'")
    draft.flags = draft.flags.merge({"model-path": draft.model})
    if cwd:
        draft.launch["cwd"] = cwd
    draft.gpus = 0
    draft.unsure["gpus"] = "how many it uses could not be read off the script"
    draft.unsure["launch.command"] = (
        "the script is run as it is, with flags behind it; what it sets by itself is not seen here. "
        "Set python to the interpreter that has its SGLang, so that the doctor can look"
    )
    return draft


def find_python(draft: Draft, host: Host) -> None:
    """Name the interpreter of a bare ``python3``: that of whoever starts the suite may be the suite's own."""
    launch = draft.launch
    python = launch.get("python", "")
    if draft.kind != "process" or "command" in launch or "/" in python or not host.is_local:
        return
    module = launch.get("module", "sglang.launch_server").partition(".")[0]
    cwd = launch.get("cwd") or None
    for candidate in _along_path(python):
        test = ["-c", f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)"]
        if host.run([candidate, *test], timeout_s=60.0, cwd=cwd).code == 0:
            launch["python"] = "{python}" if candidate == sys.executable else candidate
            return
    draft.unsure["launch.python"] = (
        f"no {python} along PATH has {module}: name the one that has, by its whole path"
    )


def _along_path(name: str) -> list[str]:
    """Every program of this name along PATH, in order; the suite's own interpreter by its own name."""
    found: list[str] = []
    for directory in os.environ.get("PATH", "").split(os.pathsep):
        path = shutil.which(name, path=directory) if directory else None
        if path is not None:
            same = os.path.dirname(path) == os.path.dirname(sys.executable)
            found.append(sys.executable if same else path)
    return list(dict.fromkeys(found))


def of_process(argv: list[str], cwd: str, env: Mapping[str, str], interpreter: str, source: str) -> Draft:
    """The target of a process that runs.

    Raises:
        NotUnderstood: its command line is no SGLang server's.
    """
    found = find(argv)
    if found.python is not None and len(found.python) == 1 and "/" not in found.python[0]:
        program = [interpreter if word == found.python[0] else word for word in found.program]
        found = replace(found, program=tuple(program))
    draft = of_command(found, source)
    draft.env = dict(env)
    draft.launch["cwd"] = cwd
    return draft
