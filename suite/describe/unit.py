"""A systemd unit as a target that runs transient copies of it; or the file of one that is not installed here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from suite import config
from suite.describe import container, process
from suite.describe.draft import CannotDescribe, Draft
from suite.hosts import Host, HostError
from suite.servers import unit_file
from suite.servers.errors import UnitUnusable
from suite.servers.runtimes.systemd import Unit
from suite.sglang.command import NotUnderstood, find
from suite.sglang.flags import Flags

Scope = Literal["system", "user"]


def running(host: Host, name: str) -> Draft | None:
    """The target of an installed unit; ``None``: there is none of this name.

    Raises:
        CannotDescribe: it runs no SGLang that flags could be changed of.
    """
    unit = name if "." in name else f"{name}.service"
    scopes: tuple[Scope, ...] = ("system", "user")
    for scope in scopes:
        text = _cat(host, unit, scope)
        if text is not None:
            return _of_installed(host, unit, scope, text)
    return None


def _cat(host: Host, name: str, scope: Scope) -> str | None:
    words = ["systemctl", *(["--user"] if scope == "user" else []), "cat", "--no-pager", name]
    try:
        done = host.run(words, timeout_s=20.0)
    except HostError:
        return None
    return done.stdout if done.code == 0 and "[Service]" in done.stdout else None


def _of_installed(host: Host, unit: str, scope: Scope, text: str) -> Draft:
    launch: dict[str, Any] = {
        "kind": "systemd",
        "unit": unit,
        **({"scope": scope} if scope == "user" else {}),
    }
    source = f"the unit {unit}"
    try:
        found = Unit(
            config.SystemdLaunch(kind="systemd", unit=unit, scope=scope), config.Target(model="-"), host
        )
    except UnitUnusable as error:
        try:
            draft = of_file(text, source, host)
        except CannotDescribe:
            raise CannotDescribe(f"{error.summary}. {error.advice}") from None
        draft.notes.append(f"the unit {unit} cannot be copied: stop it before anything is measured")
        return draft
    draft = Draft(source, launch, found.command.flags)
    draft.settle()
    draft.off = tuple(draft.on)
    own = draft.gpus if draft.gpus is not None else 0
    visible = [part for part in found.variables.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
    draft.gpus = min(own, len(visible)) if visible else own
    draft.flags = Flags()  # the copy brings them along
    draft.env = {}
    draft.unsure = {}
    return draft


def of_file(text: str, source: str, host: Host) -> Draft:
    """The target of a unit's text, run as a process or a container of the suite's own.

    Raises:
        CannotDescribe: it runs no SGLang in plain sight.
    """
    service = unit_file.assignments(text, "Service")
    variables = _variables(service, host)
    commands = service.get("ExecStart", [])
    if len(commands) != 1:
        raise CannotDescribe(
            f"{source} has {len(commands)} ExecStart commands; name a unit that runs one server"
        )
    try:
        words = unit_file.expand(unit_file.split(commands[0].lstrip("@-:+!|")), variables)
    except unit_file.UnitSyntaxError as error:
        raise CannotDescribe(f"{source} has an ExecStart that systemd refuses: {error}") from None
    at = container.engine_of(words)
    if at is not None:
        return container.of_run(words[at:], source, host)
    try:
        draft = process.of_command(find(words, variables), source)
    except NotUnderstood as error:
        raise CannotDescribe(f"{source} {error}. {error.advice}") from None
    draft.env = variables
    if directory := service.get("WorkingDirectory"):
        draft.launch["cwd"] = directory[-1].lstrip("-")
    if user := service.get("User"):
        draft.notes.append(f"the unit runs it as {user[-1]}; the suite runs it as whoever starts the suite")
    return draft


def _variables(service: Mapping[str, list[str]], host: Host) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in service.get("Environment", []):
        for word in unit_file.split(line):
            name, _, value = word.partition("=")
            found[name] = value
    for path in service.get("EnvironmentFile", []):
        try:
            found |= unit_file.environment_file(host.read_text(path.lstrip("-")))
        except HostError:
            continue
    return found
