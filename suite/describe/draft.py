"""What was found of a server, on its way to a table of ``suite.toml``: what is known, and what was guessed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from suite.config import ConfigError
from suite.redact import is_secret
from suite.sglang.flags import FlagChangeValue, Flags, FlagValue
from suite.sglang.speculation_sources import SWITCH, asked_by

SPECULATIVE = "speculative-"
NEXTN = {SWITCH: "NEXTN"}
"""What the built-in arm ``mtp-on`` asks for."""


class CannotDescribe(ConfigError):
    """What was named cannot be made a target of; the text says what it is and what to name instead."""


@dataclass(slots=True)
class Draft:
    """A target as far as it is known.

    ``flags`` are all that the server is started with, speculation among them; host and port are the suite's to choose.
    ``unsure`` says of a key (``model``, ``launch.python``, ``env.NAME``) what somebody should look at; ``notes`` are
    about the whole.
    """

    source: str
    launch: dict[str, Any] = field(default_factory=dict)
    flags: Flags = field(default_factory=Flags)
    env: dict[str, str] = field(default_factory=dict)
    model: str = ""
    gpus: int | None = None
    host: str = "local"
    more: dict[str, Any] = field(default_factory=dict)
    """Further keys of the target: ``nvidia_smi``, ``client``."""
    unsure: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    on: dict[str, FlagChangeValue] = field(default_factory=dict)
    """Speculation of what runs: the arm ``mtp-on``'s."""
    off: tuple[str, ...] = ()
    """Flags to be taken away from what the launch brings by itself (a unit's)."""

    @property
    def kind(self) -> str:
        return str(self.launch.get("kind", "process"))

    def settle(self, config_text: str | None = None) -> None:
        """Sort the flags: the target's, the suite's, the arm ``mtp-on``'s; secrets become references.

        Args:
            config_text: what the file of ``--config`` holds, where it could be read.

        Raises:
            CannotDescribe: no flag names a model.
        """
        flags = dict(self.flags)
        if "config" in flags and config_text is not None:
            flags = self._with_file(flags, config_text)
        elif "config" in flags:
            self.unsure["flags.config"] = (
                "this file was not read: if it switches speculation on, mtp-off is not off; write its settings as flags here"
            )
        for name in ("host", "port"):
            flags.pop(name, None)
        self.model = str(flags.pop("model-path", self.model))
        if not self.model and self.kind != "systemd":
            raise CannotDescribe(f"{self.source}: no --model-path is to be seen in it; name the model there")
        if self.gpus is None:
            self.gpus = gpus_of(flags, self.env)
        shortened = asked_by(Flags(flags))
        self.on = {
            SWITCH if name == shortened else name: value for name, value in flags.items() if _speculates(name)
        }
        self.flags = Flags({name: value for name, value in flags.items() if not _speculates(name)})
        self._refer_to_secrets()

    def _with_file(self, flags: dict[str, FlagValue], text: str) -> dict[str, FlagValue]:
        """The settings of a ``--config`` file as flags, under those of the command line, as SGLang reads them."""
        try:
            settings = yaml.safe_load(text)
        except (yaml.YAMLError, RecursionError, ValueError):
            settings = None
        if not isinstance(settings, dict):
            self.unsure["flags.config"] = "this file is not a YAML table: SGLang would not start with it"
            return flags
        self.notes.append(
            f"the flags of {flags['config']} are written out here, so that arms can change them one by one"
        )
        given = {str(name): _flag_value(value) for name, value in settings.items()}
        merged = Flags(given).merge({n: v for n, v in flags.items() if n != "config"})
        return dict(merged)

    def _refer_to_secrets(self) -> None:
        changed: dict[str, FlagChangeValue] = {}
        for name, value in self.flags.items():
            if is_secret(name) and value is not True and not _refers(value):
                variable = f"SGLANG_{name.upper().replace('-', '_')}"
                changed[name] = f"{{env:{variable}}}"
                self.unsure[f"flags.{name}"] = f"a secret: export {variable} where the suite runs"
        self.flags = self.flags.merge(changed)
        for name, value in self.env.items():
            if is_secret(name) and value and not _refers(value):
                self.env[name] = f"{{env:{name}}}"
                self.unsure[f"env.{name}"] = (
                    f"a secret: export {name} where the suite runs, or delete this line"
                )


def _refers(value: object) -> bool:
    return isinstance(value, str) and value.startswith("{env:")


def _speculates(name: str) -> bool:
    """Is a flag about speculation? The switch may be shortened: ``--speculative-algo``."""
    return name.startswith(SPECULATIVE)


def _flag_value(value: object) -> FlagChangeValue:
    """A setting of a YAML file as a flag's value."""
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, list):
        return [part if isinstance(part, (str, int, float)) else str(part) for part in value]
    return value if isinstance(value, (str, int, float, bool)) or value is None else str(value)


def gpus_of(flags: Mapping[str, FlagValue], env: Mapping[str, str]) -> int:
    """How many GPUs a command line uses: its parallel sizes; 0 on another device."""
    if str(flags.get("device", "cuda")) != "cuda":
        return 0
    visible = env.get("CUDA_VISIBLE_DEVICES", "")
    sizes = [_whole(flags.get(name)) for name in ("tp-size", "pp-size")]
    if "enable-dp-attention" not in flags:
        sizes.append(_whole(flags.get("dp-size")))
    used = 1
    for size in sizes:
        used *= size
    seen = [part for part in visible.split(",") if part.strip()]
    return min(used, len(seen)) if seen else used


def gpus_of_running(resolved: Mapping[str, Any]) -> int:
    """The same of a server's settings in force."""
    sizes = {
        name: resolved.get(name.replace("-", "_"), 1) for name in ("tp-size", "pp-size", "dp-size", "device")
    }
    attention = {"enable-dp-attention": True} if resolved.get("enable_dp_attention") is True else {}
    return gpus_of({**sizes, **attention}, {})


def _whole(value: FlagValue | None) -> int:
    text = str(value) if value is not None else "1"
    return int(text) if text.isdecimal() and 0 < int(text) < 1000 else 1


def launch_of(program: Sequence[str]) -> dict[str, Any]:
    """The launch table of a program that takes SGLang's flags behind it."""
    words = list(program)
    launch: dict[str, Any] = {"kind": "process"}
    if len(words) >= 3 and words[-2] == "-m" and _is_python(words[-3]) and _only_wraps(words[:-3]):
        launch["python"] = words[-3]
        if words[-1] != "sglang.launch_server":
            launch["module"] = words[-1]
        if words[:-3]:
            launch["wrapper"] = words[:-3]
        return launch
    return {**launch, "command": words}


def _is_python(word: str) -> bool:
    return word.rpartition("/")[2].startswith(("python", "pypy")) or word == "{python}"


WRAPPERS = frozenset({"numactl", "taskset", "nice", "ionice", "chrt", "setarch", "prlimit", "stdbuf"})
"""What stands before an interpreter and chooses none."""


def _only_wraps(words: Sequence[str]) -> bool:
    return not words or words[0].rpartition("/")[2] in WRAPPERS
