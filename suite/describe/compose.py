"""A service of a compose file as a target that launches containers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from suite.describe.container import of_run
from suite.describe.draft import CannotDescribe, Draft
from suite.hosts import Host

_VARIABLE = re.compile(r"\$(?:(\$)|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


def is_compose(text: str) -> bool:
    """Does a text read as a compose file, or as a service of one?"""
    return re.search(r"^\s*(services|image)\s*:", text, re.MULTILINE) is not None


def of_compose(
    text: str,
    source: str,
    directory: str,
    host: Host | None,
    wanted: str | None,
    variables: Mapping[str, str],
) -> Draft:
    """The target of the service that runs SGLang.

    Args:
        directory: the file's, which relative paths and ``env_file`` count from.
        wanted: the service's name, where several could be meant.
        variables: those of the file ``.env`` beside it, and of the environment.

    Raises:
        CannotDescribe: no such service, or none or several that run SGLang.
    """
    services, volumes = _services(text, source)
    if wanted is not None:
        if wanted not in services:
            raise CannotDescribe(f"{source} has no service {wanted!r}; there are: {', '.join(services)}")
        services = {wanted: services[wanted]}
    drafts: dict[str, Draft] = {}
    refused: list[str] = []
    for name, service in services.items():
        try:
            reader = _Service(service, directory, variables, volumes)
            drafts[name] = of_run(reader.words(), f"the service {name} of {source}", host)
            drafts[name].notes += reader.notes
        except CannotDescribe as error:
            refused.append(f"{name}: {error}")
    if not drafts:
        raise CannotDescribe(f"{source}: no service runs SGLang in plain sight: {'; '.join(refused)}")
    if len(drafts) > 1:
        raise CannotDescribe(
            f"{source} has several services that run SGLang: {', '.join(drafts)}; name one with --service"
        )
    return next(iter(drafts.values()))


def _services(text: str, source: str) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise CannotDescribe(f"{source} is no YAML: {said}") from None
    if not isinstance(data, dict):
        raise CannotDescribe(f"{source} is not a compose file: it holds no table")
    services = data.get("services") if "services" in data else data
    if "image" in data and "services" not in data:  # a service pasted without its name
        services = {str(data.get("container_name", "service")): data}
    tables = (
        {str(k): v for k, v in services.items() if isinstance(v, dict)} if isinstance(services, dict) else {}
    )
    if not tables:
        raise CannotDescribe(f"{source} has no services")
    volumes = data.get("volumes") if "services" in data else None
    return tables, volumes if isinstance(volumes, dict) else {}


class _Service:
    """One service's table as the words of the ``docker run`` that does the same."""

    def __init__(
        self,
        table: Mapping[str, Any],
        directory: str,
        variables: Mapping[str, str],
        volumes: Mapping[str, Any],
    ) -> None:
        self._directory = directory
        self._variables = variables
        self._volumes = volumes
        self._table: dict[str, Any] = {str(k): self._filled(v) for k, v in table.items()}
        self.notes: list[str] = []

    def _filled(self, value: Any) -> Any:
        """A value with ``${NAME}`` put in, wherever it stands."""
        if isinstance(value, dict):
            return {str(key): self._filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._filled(inner) for inner in value]
        return _VARIABLE.sub(self._value, value) if isinstance(value, str) else value

    def _value(self, match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        name = match[2] or match[5]
        value = self._variables.get(name, "")
        if value or (match[3] == "-" and name in self._variables):
            return value
        if match[3] and match[3].endswith("-"):
            return _VARIABLE.sub(self._value, match[4])
        raise CannotDescribe(
            f"it names the variable {name}, which is set neither in .env beside it nor here: export it, and ask again"
        )

    def words(self) -> list[str]:
        table = self._table
        image = table.get("image")
        if not isinstance(image, str):
            what = "is built, and has no image of its own name" if "build" in table else "has no image"
            raise CannotDescribe(f"it {what}: give the service an image:, which build then tags")
        entry = _words(table.get("entrypoint"))
        words = ["docker", "run", *self._options()]
        if entry:
            words += ["--entrypoint", entry[0]]
        return [*words, image, *entry[1:], *_words(table.get("command"))]

    def _options(self) -> list[str]:
        table = self._table
        words = [word for volume in _list(table.get("volumes")) for word in ("-v", self._mount(volume))]
        for name, value in _pairs(table.get("environment")):
            words += ["-e", name if value is None else f"{name}={value}"]
        for file in _list(table.get("env_file")):
            path = file.get("path") if isinstance(file, dict) else file
            words += ["--env-file", os.path.join(self._directory, str(path))]
        if (gpus := self._gpus()) is not None:
            words += ["--gpus", gpus]
        single = {
            "shm_size": "--shm-size", "ipc": "--ipc", "network_mode": "--network", "runtime": "--runtime",
            "user": "--user", "working_dir": "--workdir", "cpuset": "--cpuset-cpus", "mem_limit": "--memory",
            "pid": "--pid", "hostname": "--hostname",
        }  # fmt: skip
        for key, option in single.items():
            if table.get(key) is not None:
                words += [option, str(table[key])]
        several = {"cap_add": "--cap-add", "security_opt": "--security-opt", "devices": "--device"}
        for key, option in {**several, "group_add": "--group-add"}.items():
            words += [word for each in _list(table.get(key)) for word in (option, str(each))]
        hosts = table.get("extra_hosts")
        listed = [f"{name}:{to}" for name, to in hosts.items()] if isinstance(hosts, dict) else _list(hosts)
        words += [word for each in listed for word in ("--add-host", str(each))]
        for name, value in _pairs(table.get("ulimits")):
            both = isinstance(value, dict)
            words += ["--ulimit", f"{name}={value['soft']}:{value['hard']}" if both else f"{name}={value}"]
        if table.get("privileged") is True:
            words.append("--privileged")
        return words

    def _mount(self, volume: Any) -> str:
        if isinstance(volume, dict):
            source, target = str(volume.get("source", "")), str(volume.get("target", ""))
            mode = ":ro" if volume.get("read_only") else ""
        else:
            source, _, rest = str(volume).partition(":")
            target, colon, mode = rest.partition(":")
            mode = colon + mode
        if source.startswith((".", "~")):
            source = os.path.normpath(os.path.join(self._directory, os.path.expanduser(source)))
        elif "/" not in source:
            named = self._volumes.get(source)
            told = named.get("name") if isinstance(named, dict) else None
            source = str(told or f"{os.path.basename(self._directory.rstrip('/'))}_{source}")
            if not told:
                self.notes.append(
                    f"compose names the volume {source} after its project: see `docker volume ls`"
                )
        return f"{source}:{target}{mode}" if target else source

    def _gpus(self) -> str | None:
        told = self._table.get("gpus")
        if isinstance(told, str):
            return told
        deploy: Any = self._table.get("deploy")
        for key in ("resources", "reservations"):
            deploy = deploy.get(key) if isinstance(deploy, dict) else None
        devices = (
            told if isinstance(told, list) else deploy.get("devices") if isinstance(deploy, dict) else None
        )
        for device in devices or []:
            if isinstance(device, dict) and (ids := device.get("device_ids")):
                return "device=" + ",".join(map(str, ids))
            if isinstance(device, dict):
                return str(device.get("count", "all"))
        return None


def _words(value: Any) -> list[str]:
    if isinstance(value, list):
        return [str(part) for part in value]
    if not isinstance(value, str):
        return []
    try:
        return shlex.split(value)
    except ValueError as error:
        raise CannotDescribe(f"its command cannot be split into words ({error})") from None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if value is not None else []


def _pairs(value: Any) -> list[tuple[str, Any]]:
    """The pairs of a table, or of a list of ``NAME=VALUE``; without a value: ``None``."""
    if isinstance(value, dict):
        return [(str(name), _text(inner)) for name, inner in value.items()]
    found: list[tuple[str, Any]] = []
    for each in _list(value):
        name, equals, text = str(each).partition("=")
        found.append((name, text if equals else None))
    return found


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return value if value is None or isinstance(value, dict) else str(value)
