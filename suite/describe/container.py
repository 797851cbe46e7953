"""``docker run ...`` as a target that launches containers of its own from the same image."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from suite.describe.draft import CannotDescribe, Draft
from suite.hosts import Host, HostError
from suite.sglang.command import ENGINES, NotUnderstood, find

_SWITCHES = frozenset(
    {"-d", "--detach", "--rm", "-i", "--interactive", "-t", "--tty", "--init", "--privileged", "--read-only"}
    | {"-P", "--publish-all", "--no-healthcheck", "--oom-kill-disable", "--sig-proxy", "-q", "--quiet"}
    | {"--disable-content-trust", "--replace", "--rmi", "--no-hosts", "--env-host", "--http-proxy"}
)
"""Options of ``docker run`` and ``podman run`` that take no value."""
_OURS = frozenset({
    "-d", "--detach", "--rm", "-i", "--interactive", "-t", "--tty", "--init", "--name", "--restart",
    "--sig-proxy", "-P", "--publish-all", "-q", "--quiet", "--cidfile", "--detach-keys", "--replace",
    "--rmi", "-l", "--label", "--label-file", "--log-driver", "--log-opt", "--no-healthcheck",
    "--stop-signal", "--stop-timeout", "--ipc",
})  # fmt: skip
"""Options that the suite decides itself: how a container is named, watched and ended."""
_DEFAULT = ["python3", "-m", "sglang.launch_server"]


def engine_of(words: Sequence[str]) -> int | None:
    """Where in ``words`` an engine's ``run`` begins; ``None``: nowhere."""
    for at, word in enumerate(words):
        if word.rpartition("/")[2] in ENGINES:
            rest = list(words[at + 1 :])
            if rest[:1] == ["container"]:
                rest = rest[1:]
            return at if rest[:1] == ["run"] else None
    return None


def of_run(words: Sequence[str], source: str, host: Host | None = None) -> Draft:
    """The target of ``docker run OPTIONS IMAGE WORDS``.

    Args:
        host: where the engine is, to ask what the image starts by itself; ``None`` if it is not at hand.

    Raises:
        CannotDescribe: no image, or no SGLang command in it.
    """
    engine, rest = words[0].rpartition("/")[2], list(words[1:])
    del rest[: rest.index("run") + 1]
    draft = Draft(
        source, {"kind": "docker", "image": "", **({} if engine == "docker" else {"engine": engine})}
    )
    draft.launch["gpus"] = ""
    options, entrypoint, at = EngineOptions(draft), None, 0
    while at < len(rest) and rest[at].startswith("-"):
        name, value, at = option_at(rest, at)
        if name == "--entrypoint":
            entrypoint = value or ""
        else:
            options.take(name, value)
    if at >= len(rest):
        raise CannotDescribe(f"{source}: no image is to be seen in it")
    draft.launch["image"] = rest[at]
    options.finish()
    own = image_config(host, engine, rest[at])
    inside = Inside(entrypoint, rest[at + 1 :], texts(own.get("Entrypoint")), texts(own.get("Cmd")))
    inside.fill(draft)
    return draft


def option_at(words: Sequence[str], at: int) -> tuple[str, str | None, int]:
    """One option with its value, and where the next word is."""
    word = words[at]
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        if equals or name in _SWITCHES:
            return name, value if equals else None, at + 1
        return name, words[at + 1] if at + 1 < len(words) else "", at + 2
    letters = word[1:]
    for place, letter in enumerate(letters):  # -it, -itd, -p30000:30000
        name = f"-{letter}"
        if name in _SWITCHES:
            continue
        if rest := letters[place + 1 :]:
            return name, rest.removeprefix("="), at + 1
        return name, words[at + 1] if at + 1 < len(words) else "", at + 2
    return word[:2], None, at + 1


class EngineOptions:
    """Takes an engine's options one by one into a draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._mounts: list[str] = []
        self._kept: list[str] = []
        self._devices: list[str] = []

    def take(self, name: str, value: str | None) -> None:
        draft, text = self._draft, value or ""
        if name in ("-v", "--volume"):
            self._mounts.append(text)
        elif name in ("-e", "--env"):
            self._variable(text)
        elif name == "--gpus":
            draft.launch["gpus"] = text.strip("\"'").replace("count=", "")
        elif name == "--device" and text.startswith("nvidia.com/gpu="):
            self._devices.append(text.partition("=")[2])
        elif name in ("--network", "--net"):
            if text != "host":
                draft.notes.append(f"its network {text} is not used: the suite's containers have the host's")
        elif name in ("-p", "--publish"):
            draft.notes.append(
                f"its published port {text} is not needed: the suite picks a free port of the host"
            )
        elif name not in _OURS:
            self._kept += [name] if value is None else [name, text]

    def _variable(self, text: str) -> None:
        name, equals, value = text.partition("=")
        if equals:
            self._draft.env[name] = value
        else:
            self._kept += ["--env", name]
            self._draft.notes.append(
                f"the variable {name} is taken from where the engine is called, as before"
            )

    def finish(self) -> None:
        launch = self._draft.launch
        if self._devices:
            launch["gpus"] = "all" if "all" in self._devices else "device=" + ",".join(self._devices)
        if self._mounts:
            launch["mounts"] = self._mounts
        if self._kept:
            launch["options"] = self._kept
        count = _count(str(launch["gpus"]))
        if count is not None:
            self._draft.gpus = count


def _count(gpus: str) -> int | None:
    """How many GPUs an engine's ``--gpus`` gives; ``None`` for all and for nothing."""
    if gpus.startswith("device="):
        return len([part for part in gpus.removeprefix("device=").split(",") if part])
    return int(gpus) if gpus.isdecimal() else None


class Inside:
    """What runs within a container: an image's or somebody's entrypoint, and the words behind it."""

    def __init__(
        self, entrypoint: str | None, words: Sequence[str], own: Sequence[str], command: Sequence[str]
    ) -> None:
        self._overridden = entrypoint
        self._entry = list(own) if entrypoint is None else [entrypoint] if entrypoint else []
        self._words = list(words) or (list(command) if entrypoint is None else [])

    def fill(self, draft: Draft) -> None:
        """Put program, flags and interpreter into the draft.

        Raises:
            CannotDescribe: no SGLang command is to be seen.
        """
        guessed = False
        try:
            found = find([*self._entry, *self._words])
        except NotUnderstood as error:
            if not any(
                word.startswith(("--model-path", "--model")) for word in self._words[:1] or []
            ) and not (self._words and self._words[0].startswith("--")):
                raise CannotDescribe(f"{draft.source} {error}. {error.advice}") from None
            found, guessed = find([*_DEFAULT, *self._words]), True
        draft.flags = found.flags
        program = list(found.program)
        if guessed:
            draft.unsure["launch.image"] = (
                "only flags stand behind the image: its own entrypoint starts the server; it is taken for "
                f"{' '.join(_DEFAULT)}"
            )
            _set_options(draft, ["--entrypoint", _DEFAULT[0]])
            draft.launch["command"] = _DEFAULT[1:]
            return
        if len(program) <= len(self._entry):  # the server is the entrypoint itself
            _set_options(draft, ["--entrypoint", program[0]])
            draft.launch["command"] = program[1:]
            if not program[1:]:
                raise CannotDescribe(
                    f"{draft.source}: its entrypoint takes the flags alone; attach to its URL"
                )
        else:
            if self._overridden is not None:
                _set_options(draft, ["--entrypoint", self._overridden])
            inner = program[len(self._entry) :]
            if inner[1:] == _DEFAULT[1:]:
                if inner[0] != "python3":
                    draft.launch["python"] = inner[0]
                return
            draft.launch["command"] = inner
        if found.python and len(found.python) == 1 and found.python[0] != "python3":
            draft.launch["python"] = found.python[0]


def _set_options(draft: Draft, options: list[str]) -> None:
    draft.launch["options"] = [*draft.launch.get("options", []), *options]


def image_config(host: Host | None, engine: str, image: str) -> dict[str, Any]:
    """What an image starts with by itself; empty where no engine tells."""
    if host is None:
        return {}
    found = inspected(host, [engine, "image", "inspect", image])
    return dict(found.get("Config") or {}) if found else {}


def inspected(host: Host, argv: Sequence[str]) -> dict[str, Any] | None:
    """What an engine's ``inspect`` answers; ``None`` where it knows no such thing, or is not there."""
    try:
        done = host.run(argv, timeout_s=30.0)
        found = json.loads(done.stdout)[0] if done.code == 0 else None
    except (HostError, ValueError, LookupError):
        return None
    return found if isinstance(found, dict) else None


def texts(value: Any) -> list[str]:
    """A text or a list of them, as a list; empty for anything else."""
    if isinstance(value, str):
        return [value]
    return [str(part) for part in value] if isinstance(value, list) else []
