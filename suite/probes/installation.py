"""The SGLang that is installed on a host: versions, where its source can switch speculation on, what flags resolve to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from suite.hosts import Host
from suite.probes.remote import run_script
from suite.redact import is_secret
from suite.sglang.errors import InstallationError, ProbeHostError
from suite.sglang.flags import Flags
from suite.sglang.server.info import Speculation, flatten

Python = str | Sequence[str]
"""An interpreter, or the words that lead to one: ``["docker", "run", "--rm", "-i", ..., IMAGE]``."""


@dataclass(frozen=True, slots=True)
class Site:
    """One place in the source that gives ``speculative_algorithm`` a value.

    ``meaning`` is one of ``activation``, ``input``, ``alias``, ``reset``, ``declaration``, ``copy`` (see
    ``on_host/algorithm.py``); ``server`` says whether a server can run it.
    """

    file: str
    line: int
    function: str
    kind: str
    meaning: str
    text: str
    server: bool

    def __str__(self) -> str:
        place = f" in {self.function}" if self.function else ""
        return f"{self.file}:{self.line}{place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point by which an installed package is loaded into the server."""

    group: str
    name: str
    value: str
    distribution: str
    root: str


@dataclass(frozen=True, slots=True)
class Installation:
    """What is installed.

    ``beside`` are the versions of the packages that SGLang requires and of those that change speed or answers.
    ``code_hash`` is of the package's files, so that a patched file is another build. Of a checkout, ``commit`` is git's
    HEAD and ``described`` its place between tags. ``changed`` are the files that are not as the commit, or the wheel,
    has them; ``None`` where that cannot be told.
    """

    root: str
    version: str
    commit: str | None
    python: str
    beside: Mapping[str, str] = field(default_factory=dict)
    plugins: tuple[Plugin, ...] = ()
    customized: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    code_hash: str | None = None
    described: str | None = None
    changed: tuple[str, ...] | None = None
    cuda: str | None = None

    def subject(self) -> dict[str, str]:
        """Versions by name, for the subject of a measurement."""
        kernels = {"sglang-kernel": "sgl-kernel", "flashinfer-python": "flashinfer"}
        named = {kernels.get(name, name): version for name, version in self.beside.items()}
        code = {
            "commit": self.commit,
            "described": self.described,
            "changed_files": _listed(self.changed),
            "code": self.code_hash[:HASH_SHOWN] if self.code_hash else None,
            "cuda": self.cuda,
        }
        told = {name: value for name, value in code.items() if value is not None}
        return {"sglang": self.version, **told, "python": self.python, **named}


HASH_SHOWN = 16
"""Characters of a hash that tell two builds apart for people and files."""
CHANGED_SHOWN = 5


def _listed(changed: tuple[str, ...] | None) -> str | None:
    """The first of the files that were changed, and how many more; ``none`` if none was; ``None`` if that is not known."""
    if changed is None:
        return None
    more = len(changed) - CHANGED_SHOWN
    return ", ".join(changed[:CHANGED_SHOWN]) + (f" and {more} more" if more > 0 else "") or "none"


@dataclass(frozen=True, slots=True)
class Scanned:
    """What a source scan found; ``unread`` are files that could hide an activation, with the reason."""

    installation: Installation
    sites: tuple[Site, ...]
    unread: tuple[tuple[str, str], ...]
    files: int
    parsed: int

    def of(self, meaning: str, server: bool = True) -> list[Site]:
        """The sites of one meaning, in the server's own code or outside it (tests, benchmarks)."""
        return [site for site in self.sites if site.meaning == meaning and site.server is server]

    @property
    def activations(self) -> list[Site]:
        """Places of the server's code that could switch speculation on by themselves."""
        return self.of("activation")

    @property
    def resolutions(self) -> list[Site]:
        """Places where an algorithm that was asked for (NEXTN) becomes another; local copies left out."""
        return [site for site in self.of("alias") if site.kind != "variable"]

    @property
    def blind(self) -> bool:
        """Is the setting declared nowhere? Then it has another name, and the scan proves nothing."""
        return not any(site.meaning == "declaration" and site.server for site in self.sites)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a command line resolves to, flattened as in /server_info."""

    settings: Mapping[str, Any]

    @property
    def speculation(self) -> Speculation:
        """The speculative settings it would run with."""
        return Speculation.of(self.settings)


@dataclass(frozen=True, slots=True)
class Refused:
    """This SGLang does not accept the command line; ``reason`` is its own message."""

    reason: str


@dataclass(frozen=True, slots=True)
class CannotResolve:
    """The command line could not be resolved here, for ``reason``; ``accepted`` says that argparse took it."""

    reason: str
    accepted: bool


def look(
    host: Host,
    python: Python = "python3",
    path: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Installation:
    """The SGLang of an interpreter on ``host``, or the package, checkout or wheel at ``path`` there.

    Raises:
        InstallationError: there is none.
        ProbeHostError: the interpreter could not be run.
    """
    found = run_script(host, python, ["code_identity", "installed"], [path] if path else [], env=env, cwd=cwd)
    if found["root"] is None:
        where = path or f"{found['executable']} (Python {found['python']})"
        raise InstallationError(
            f"{host.name}: no SGLang in {where}; name its interpreter as python in the target's launch table"
        )
    return Installation(
        root=found["root"],
        version=found["version"] or "unknown",
        commit=found["commit"],
        python=found["python"],
        beside=found.get("beside", {}),
        plugins=tuple(Plugin(**plugin) for plugin in found.get("plugins", [])),
        customized=tuple(found.get("customized", [])),
        environment=found.get("environment", {}),
        code_hash=found.get("hash"),
        described=found.get("described"),
        changed=tuple(found["changed"]) if found.get("changed") is not None else None,
        cuda=found.get("cuda"),
    )


@dataclass(frozen=True, slots=True)
class Listening:
    """Who listens on a port: with ``interpreter`` and ``environment`` its SGLang can be looked at, unless in a container.

    ``command`` are its words, secrets and all; ``cgroup`` names the unit or the container that it belongs to.
    """

    pid: int
    interpreter: str | None = None
    cwd: str | None = None
    container: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    loading: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = field(default=(), repr=False)
    cgroup: str = ""


def listening(host: Host, port: int, python: str = "python3") -> Listening | None:
    """The process that listens on a port of ``host``; ``None`` where it cannot be seen.

    Raises:
        ProbeHostError: the host has no such interpreter.
    """
    found = run_script(host, python, ["code_identity", "installed", "listening"], [str(port)])
    return Listening(**found) if found else None


def scan(
    host: Host,
    python: Python = "python3",
    path: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    timeout_s: float = 300.0,
    installed: Installation | None = None,
) -> Scanned:
    """Read the whole source of the SGLang at hand, and of the plugins it would load; ``installed``: what :func:`look` saw.

    Raises:
        InstallationError: there is none.
        ProbeHostError: the interpreter could not be run, or not in time.
    """
    installation = installed or look(host, python, path, env, cwd)
    roots = [installation.root, *(plugin.root for plugin in installation.plugins if plugin.root)]
    roots += list(installation.customized)
    modules = ["algorithm", "activation", "scan_source"]
    found = run_script(
        host, python, modules, list(dict.fromkeys(roots)), timeout_s=timeout_s, env=env, cwd=cwd
    )
    sites = tuple(Site(meaning=site.pop("class"), **site) for site in found["sites"])
    unread = tuple((item["file"], item["why"]) for item in found["unread"])
    return Scanned(installation, sites, unread, found["files"], found["parsed"])


def resolve(
    host: Host,
    python: Python,
    flags: Flags,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    module: str = "sglang.launch_server",
    timeout_s: float = 180.0,
) -> Resolved | Refused | CannotResolve:
    """What ``flags`` resolve to in the server's own interpreter, without starting a server.

    SGLang's ``prepare_server_args`` does it: construction resolves up to 0.5.16, ``resolve_once`` from
    0.5.20 on. Secret flags are left out of what is run, because the command line of a process can be read.
    """
    return resolve_all(host, python, [flags], env, cwd, module, timeout_s)[0]


def resolve_all(
    host: Host,
    python: Python,
    lines: Sequence[Flags],
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    module: str = "sglang.launch_server",
    timeout_s: float = 180.0,
) -> list[Resolved | Refused | CannotResolve]:
    """As :func:`resolve`, of several command lines: SGLang, slow to import, is imported once."""
    open_lines = [Flags({k: v for k, v in flags.items() if not is_secret(k)}).argv() for flags in lines]
    arguments = [module, json.dumps(open_lines)]
    try:
        found = run_script(host, python, ["resolve_flags"], arguments, timeout_s=timeout_s, env=env, cwd=cwd)
    except ProbeHostError as error:
        return [CannotResolve(str(error), accepted=False)] * len(lines)
    return [_outcome(outcome) for outcome in found]


def _outcome(found: Mapping[str, Any]) -> Resolved | Refused | CannotResolve:
    if found["stage"] == "done":
        return Resolved(flatten(found["settings"]))
    if found["stage"] == "parse":
        return Refused(found["error"])
    return CannotResolve(found["error"], accepted=found["stage"] == "resolve")
