"""A container that runs, by what its engine's ``inspect`` says of it, as a target; and what ``exec`` runs in one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from suite.describe.container import (
    EngineOptions,
    Inside,
    engine_of,
    image_config,
    inspected,
    of_run,
    option_at,
    texts,
)
from suite.describe.draft import CannotDescribe, Draft
from suite.hosts import Host


def running(host: Host, name: str) -> Draft | None:
    """The target of the container called so (or of this id) on ``host``; ``None``: no engine knows it.

    Raises:
        CannotDescribe: it runs no SGLang that flags could be changed of.
    """
    for engine in ("docker", "podman"):
        found = inspected(host, [engine, "inspect", name])
        if found is not None and isinstance(found.get("Config"), dict):
            return of_inspect(found, engine, f"the container {name}", host)
    return None


def of_inspect(found: Mapping[str, Any], engine: str, source: str, host: Host | None) -> Draft:
    """The target of what an engine's ``inspect`` says of a container. Raises as :func:`running`."""
    config = found["Config"]
    created = texts(config.get("CreateCommand"))  # podman keeps how it was called
    if created and engine_of(created) is not None:
        return of_run(created[engine_of(created) or 0 :], source, host)
    image = str(config.get("Image") or found.get("ImageName") or found.get("Image") or "")
    own = image_config(host, engine, image)
    draft = Draft(
        source, {"kind": "docker", "image": image, **({} if engine == "docker" else {"engine": engine})}
    )
    draft.launch["gpus"] = ""
    options = EngineOptions(draft)
    for name, value in _given(found.get("HostConfig") or {}, config):
        options.take(name, value)
    options.finish()
    draft.env = _variables(texts(config.get("Env")), own.get("Env"))
    entry, image_entry = texts(config.get("Entrypoint")), texts(own.get("Entrypoint"))
    command = texts(config.get("Cmd"))
    if entry and image_entry and entry != image_entry:
        inside = Inside(entry[0], [*entry[1:], *command], [], [])
    else:
        inside = Inside(None, command, entry or image_entry, [])
    inside.fill(draft)
    return draft


def _given(host: Mapping[str, Any], config: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """What a container was given, as options of ``run``."""
    options: list[tuple[str, str | None]] = [("-v", bind) for bind in texts(host.get("Binds"))]
    for mount in host.get("Mounts") or []:
        if isinstance(mount, dict) and mount.get("Type") in ("bind", "volume"):
            mode = ":ro" if mount.get("ReadOnly") else ""
            options.append(("-v", f"{mount.get('Source', '')}:{mount.get('Target', '')}{mode}"))
    options += [
        ("--gpus", _gpus(request))
        for request in host.get("DeviceRequests") or []
        if isinstance(request, dict)
    ]
    if host.get("Runtime") not in (None, "", "runc", "crun", "oci"):
        options.append(("--runtime", str(host["Runtime"])))
    if host.get("Privileged") is True:
        options.append(("--privileged", None))
    private_ipc = str(host.get("IpcMode") or "")
    if isinstance(size := host.get("ShmSize"), int) and size not in (0, 64 * 2**20) and private_ipc != "host":
        options.append(("--shm-size", str(size)))
    for limit in host.get("Ulimits") or []:
        if isinstance(limit, dict):
            options.append(("--ulimit", f"{limit.get('Name')}={limit.get('Soft')}:{limit.get('Hard')}"))
    options += [("--cap-add", text) for text in texts(host.get("CapAdd"))]
    options += [("--security-opt", text) for text in texts(host.get("SecurityOpt"))]
    options += [("--add-host", text) for text in texts(host.get("ExtraHosts"))]
    options += [
        ("--device", f"{each.get('PathOnHost')}:{each.get('PathInContainer')}")
        for each in host.get("Devices") or []
        if isinstance(each, dict)
    ]
    if host.get("CpusetCpus"):
        options.append(("--cpuset-cpus", str(host["CpusetCpus"])))
    if isinstance(memory := host.get("Memory"), int) and memory > 0:
        options.append(("--memory", str(memory)))
    network = str(host.get("NetworkMode") or "")
    if network not in ("", "host", "default", "bridge"):
        options.append(("--network", network))
    if config.get("User"):
        options.append(("--user", str(config["User"])))
    if config.get("WorkingDir"):
        options.append(("--workdir", str(config["WorkingDir"])))
    return options


def _gpus(request: Mapping[str, Any]) -> str:
    """A device request as ``--gpus`` takes it."""
    if ids := texts(request.get("DeviceIDs")):
        return "device=" + ",".join(ids)
    count = request.get("Count")
    return "all" if count in (None, -1) else str(count)


_OF_IMAGES = re.compile(
    r"(PATH|HOME|HOSTNAME|TERM|LD_LIBRARY_PATH|LIBRARY_PATH|PYTHON_VERSION|GPG_KEY|LANG|LC_\w+|DEBIAN_FRONTEND)$"
    r"|(NVIDIA|NV|NVARCH|CUDA|CUDNN|NCCL|TRT|OPENMPI|OPENUCX|PYTORCH|TENSORRT|UCC|RDMACORE)_\w*VERSION$|NVARCH$|NV_"
)
"""Variables that images bring along; told from a person's where the image cannot be asked."""


def _variables(given: Sequence[str], of_image: Any) -> dict[str, str]:
    """The variables that somebody gave a container, without its image's own."""
    own = set(texts(of_image))
    pairs = [text.partition("=") for text in given if text not in own]
    return {name: value for name, _, value in pairs if own or not _OF_IMAGES.match(name)}


def of_exec(words: Sequence[str], source: str, host: Host) -> Draft:
    """The target of ``docker exec CONTAINER COMMAND``: that container's image and mounts with this command.

    Raises:
        CannotDescribe: there is no such container, or it runs no SGLang.
    """
    engine, rest, env = words[0], list(words[words.index("exec") + 1 :]), {}
    at = 0
    while at < len(rest) and rest[at].startswith("-"):
        name, value, at = option_at(rest, at)
        if name in ("-e", "--env") and value and "=" in value:
            env[value.partition("=")[0]] = value.partition("=")[2]
    found = inspected(host, [engine, "inspect", rest[at]]) if at < len(rest) else None
    if found is None:
        raise CannotDescribe(
            f"{source}: {engine} on {host.name} has no container {rest[at] if at < len(rest) else ''}"
        )
    config = {**found["Config"], "Cmd": rest[at + 1 :], "Entrypoint": None}
    config.pop("CreateCommand", None)
    draft = of_inspect({**found, "Config": config}, engine.rpartition("/")[2], source, host)
    draft.env |= env
    draft.notes.append(
        "the command is run in a container of its own, from the same image with the same mounts"
    )
    return draft
