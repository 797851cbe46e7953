"""What was named with ``--from``: a URL, a container, a unit, a file or a command; and who reads it."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from suite.config.launches import server_url
from suite.describe import compose, inspected, process, unit
from suite.describe.draft import CannotDescribe, Draft
from suite.describe.running import of_url
from suite.foreign import MIB, one_line, read_file
from suite.hosts import Host, HostError
from suite.probes import gpus
from suite.redact import is_secret
from suite.servers.unit_file import environment_file
from suite.sglang.flags import Flags

SIMULATOR = "simulator"
_ADDRESS = re.compile(r"(https?://\S+|(?:[\w.-]+|\[[0-9a-f:]+\]):\d{2,5})/?")


def describe(
    given: str,
    host: Host,
    *,
    service: str | None = None,
    api_key_env: str | None = None,
    cwd: str | None = None,
) -> Draft:
    """The target of whatever ``given`` names.

    Args:
        given: a URL, the name of a container or a unit, the path of a compose file, a start script or a unit's
            file, or a command or the text of such a file itself.
        host: where it is.
        service: the service of a compose file.
        api_key_env: the variable that holds the key of the server at a URL.
        cwd: where a command is run; the directory of a start script wins.

    Raises:
        CannotDescribe: it can be made no target of; the text says why, and what to name instead.
    """
    text = given.strip()
    if not text:
        raise CannotDescribe("--from names nothing: give a URL, a container, a unit, a file or a command")
    draft = _read(text, host, service, api_key_env, cwd)
    if draft.kind != "systemd":
        draft.settle(_config_text(draft, host))
        process.find_python(draft, host)
    _see_gpus(draft, host)
    if host.is_local and draft.kind != "attach" and (cores := os.cpu_count() or 1) <= 8:
        draft.more["client"] = {"lag_p99_s": 0.03}
        draft.unsure["client"] = f"server and client share {cores} cores here"
    return draft


def _read(text: str, host: Host, service: str | None, api_key_env: str | None, cwd: str | None) -> Draft:
    if "\n" not in text and _ADDRESS.fullmatch(text) and not Path(text).exists():
        url = text if "://" in text else f"http://{text}"
        return of_url(_checked(url), host, api_key_env)
    if "\n" not in text and (file := _file(text, host)) is not None:
        return _of_file(*file, host, service)
    if text == SIMULATOR:
        return _of_simulator()
    if " " in text or "\n" in text:
        return _of_text(text, "the command given", host, service, cwd, None)
    found = inspected.running(host, text) or unit.running(host, text)
    if found is None:
        raise CannotDescribe(
            f"--from {one_line(text, 80)}: no such file here, and no such container or unit on {host.name}; "
            "give a URL (http://127.0.0.1:30000), a compose file, a start script, or the command in quotes"
        )
    return found


def _of_simulator() -> Draft:
    """This suite's own simulator, to see what a run looks like before there is a server."""
    found = importlib.util.find_spec(SIMULATOR)
    if found is None or not found.submodule_search_locations:
        raise CannotDescribe("the simulator is not installed with this suite")
    model = Path(found.submodule_search_locations[0]) / "checkpoints" / "qwen3.5-397b-a17b-nvfp4"
    launch = {"kind": "process", "python": "{python}", "module": SIMULATOR}
    return Draft(
        "the simulator", launch, Flags({"model-path": str(model), "tp-size": 8, "enable-metrics": True})
    )


def _checked(url: str) -> str:
    try:
        return server_url(url.rstrip("/"))
    except ValueError as error:
        raise CannotDescribe(f"--from {urlsplit(url).hostname or 'URL'}: {error}") from None


def _file(name: str, host: Host) -> tuple[str, str] | None:
    """Path and text of the file called so, there where it is run; ``None``: there is none."""
    if len(name) > 1024:
        return None
    if not host.is_local:
        plain = "/" in name or name.endswith((".sh", ".yml", ".yaml", ".service"))
        return (name, host.read_text(name)) if plain and host.exists(name) else None
    path = Path(name).expanduser()
    if not path.is_file():
        return None
    try:
        return str(path.resolve()), read_file(path, 4 * MIB).decode("utf-8", "replace")
    except OSError as error:
        raise CannotDescribe(f"{path}: cannot be read: {error.strerror or error}") from None


def _of_file(path: str, text: str, host: Host, service: str | None) -> Draft:
    directory, name = os.path.split(path)
    if name.endswith(".service"):
        installed = unit.running(host, name)
        return installed if installed is not None else unit.of_file(text, f"the file {name}", host)
    return _of_text(text, f"the file {name}", host, service, directory, path)


def _of_text(
    text: str, source: str, host: Host, service: str | None, cwd: str | None, path: str | None
) -> Draft:
    known = _known(host, cwd)
    if compose.is_compose(text):
        variables = {**_dot_env(cwd), **os.environ}
        return compose.of_compose(text, source, cwd or os.getcwd(), host, service, variables)
    if re.search(r"^\[Service\]", text, re.MULTILINE):
        return unit.of_file(text, source, host)
    if re.search(r"^kind:\s*(Deployment|Pod|StatefulSet)", text, re.MULTILINE):
        raise CannotDescribe(
            f"{source} is Kubernetes': attach to what it serves: init --from http://ADDRESS:PORT"
        )
    if path is None and (script := _script(text, host)) is not None:
        return _of_file(*script, host, service)
    return process.of_text(text, source, host, known, cwd, path)


def _script(text: str, host: Host) -> tuple[str, str] | None:
    """The start script that a command runs and nothing else: ``./start.sh``, ``nohup bash start.sh &``."""
    words = [word for word in text.split() if word not in ("nohup", "exec", "sudo", "bash", "sh", "&")]
    return _file(words[0], host) if len(words) == 1 else None


def _known(host: Host, cwd: str | None) -> Mapping[str, str]:
    """Variables that every shell there has."""
    if host.is_local:
        found = {name: value for name, value in os.environ.items() if not is_secret(name)}
        return {**found, "PWD": cwd or os.getcwd()}
    done = host.run(["sh", "-c", 'printf "%s\\n" "$HOME" "$USER" "$PWD" "$PATH"'], timeout_s=20.0)
    return dict(zip(("HOME", "USER", "PWD", "PATH"), done.stdout.splitlines(), strict=False))


def _dot_env(directory: str | None) -> dict[str, str]:
    path = Path(directory or ".") / ".env"
    try:
        return environment_file(read_file(path, MIB).decode("utf-8", "replace"))
    except OSError:
        return {}


def _config_text(draft: Draft, host: Host) -> str | None:
    """What the file of ``--config`` holds; one within a container is found through its mounts."""
    if "config" not in draft.flags:
        return None
    path = str(draft.flags["config"])
    if draft.kind == "docker":
        for mount in draft.launch.get("mounts", []):
            source, _, rest = mount.partition(":")
            inside = rest.partition(":")[0].rstrip("/")
            if path == inside or path.startswith(f"{inside}/"):
                path = source + path[len(inside) :]
                break
        else:
            return None
    elif not path.startswith("/"):
        path = os.path.join(draft.launch.get("cwd") or ".", path)
    try:
        return host.read_text(path)
    except HostError:
        return None


def _see_gpus(draft: Draft, host: Host) -> None:
    """Hold the number of GPUs to what the host has; a simulated server uses none of them."""
    if draft.launch.get("module") == "simulator":
        draft.gpus = 0
        draft.unsure["gpus"] = "a simulated server uses no GPU of this machine"
    if not draft.gpus:
        return
    try:
        found = gpus.read(host)
    except HostError:
        return
    if isinstance(found, gpus.NoGpus):
        draft.unsure["gpus"] = f"by its flags; here none are to be seen ({found.why})"
    elif len(found.gpus) < draft.gpus:
        draft.unsure["gpus"] = f"by its flags; here there are {len(found.gpus)}"
