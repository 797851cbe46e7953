"""The doctor on software: a server that runs already, the installed SGLang, the checkpoint."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from suite import config
from suite.doctor.line import Line, Status
from suite.probes import checkpoint as checkpoints
from suite.probes import installation
from suite.redact import Secret, scrub
from suite.servers.runtimes import Runtime
from suite.sglang import builds, speculation_sources
from suite.sglang import server as servers
from suite.sglang.config_diff import FIRST as TELLING
from suite.sglang.errors import CheckpointError, MetricsDisabled
from suite.sglang.proxies import proxy_for
from suite.sglang.server import identify

POISON = ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD", "SGLANG_SIMULATE_ACC_TOKEN_MODE")
"""Variables that force acceptance: with them nothing that is measured is true."""

ODD = (
    "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH",
    "SGLANG_FORCE_STREAM_INTERVAL",
    "SGLANG_MAMBA_SSM_DTYPE",
    "LD_PRELOAD",
    "SGLANG_PLUGINS",
    "SGLANG_PLATFORM",
)
"""Variables that change what is measured."""


def server(runtime: Runtime) -> Iterator[Line]:
    """A server that somebody else runs: what it is, and whether anybody uses it."""
    launch = runtime.target.launch
    if not isinstance(launch, config.AttachLaunch):
        return
    key = Secret(held) if (held := os.environ.get(launch.api_key_env or "")) else None
    info = servers.read(launch.url, api_key=key)
    if (gateway := identify.gateway_at(servers.root(launch.url), key)) is not None:
        yield Line("problem", "server", str(gateway), "point url at a single server")
        return
    yield Line("ok", "server", f"SGLang {info.version}, {info.speculation}")
    try:
        counters = servers.counters(launch.url, info.version, api_key=key)
    except MetricsDisabled as error:
        yield Line("warning", "server", str(error), "without them one witness of speculation is missing")
        return
    for name in counters.missing:
        said = f"SGLang {info.version} should have the metric {name!r}, but has not"
        yield Line("warning", "server", said, "it was renamed: what needs it says so instead of reading 0")
    if counters.idle is False:
        busy = f"{counters.running_requests:g} requests run, {counters.queued_requests:g} wait"
        yield Line("problem", "idle", busy, "measure while the server has no other traffic")
    elif counters.idle:
        yield Line("ok", "idle", "no request runs or waits")


def proxies(runtime: Runtime) -> Iterator[Line]:
    """A proxy of this machine's environment: whom it is used for, and whom not."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    given = {name: value for name in names if (value := os.environ.get(name) or os.environ.get(name.upper()))}
    if not given:
        return
    told = ", ".join(f"{name}={scrub(value)}" for name, value in given.items())
    launch = runtime.target.launch
    if isinstance(launch, config.AttachLaunch) and runtime.host.is_local and proxy_for(launch.url):
        said = f"{told}: the server at {launch.url} is reached through it, and its delays are measured too"
        yield Line("warning", "proxy", said, "name the server in no_proxy")
    else:
        yield Line("ok", "proxy", f"{told}: not used, loopback and tunnels are reached directly")


def port(runtime: Runtime) -> Iterator[Line]:
    """SGLang tries its port only after the whole model has loaded: better to know now."""
    number = runtime.target.port
    if number is None or runtime.attached:
        return
    if runtime.host.listening(number):
        yield Line("problem", "port", f"{number} is taken", "end who listens there, or set another port")
    else:
        yield Line("ok", "port", f"{number} is free")


def sglang(runtime: Runtime) -> Iterator[Line]:
    """The installed SGLang: version, what its source can switch on, what else gets into its process."""
    if runtime.attached:
        return
    if runtime.simulated:
        yield Line("ok", "sglang", "none needed: the server is this suite's simulator")
        return
    env = runtime.env()
    python = runtime.python(env)
    if python is None:
        kind = runtime.target.launch.kind
        said = f"not looked at: this launch of kind {kind!r} names no interpreter"
        yield Line("warning", "sglang", said, "only the running server can show it")
        return
    found = installation.scan(runtime.host, python, env=env, cwd=runtime.cwd)
    installed = found.installation
    facts = installed.subject()
    beside = ", ".join(f"{name} {facts[name]}" for name in TELLING if name in facts and name != "sglang")
    yield Line("ok", "sglang", f"{installed.version} in {installed.root} ({beside})")
    yield from _build(installed)
    yield from _source(found)
    yield from _plugins(installed, runtime)
    yield from _environment(installed.environment)


def _build(installed: installation.Installation) -> Iterator[Line]:
    """What sort of build this is, where a version alone would not tell it from another."""
    if installed.changed:
        named = installed.subject()["changed_files"]
        of = f"commit {installed.commit[:10]}" if installed.described and installed.commit else "its wheel"
        said = f"{len(installed.changed)} files are not as in {of}: {named}"
        yield Line(
            "warning",
            "build",
            said,
            "results are kept apart by the code's hash; commit what you mean to keep",
        )
    build = builds.read(installed.described or installed.version)
    if build.kind != "release":
        named = f"a {build.kind} build" if build.kind != "commit" else "a build that names only its commit"
        said = f"{installed.described or installed.version}: {named}, commit {installed.commit or 'unknown'}"
        yield Line("ok", "build", said, "docs/builds.md says how to gate nightlies")


def _source(found: installation.Scanned) -> Iterator[Line]:
    if found.blind:
        said = "speculative_algorithm is declared nowhere in this SGLang"
        todo = "it has another name there: only the running server can show whether MTP is on"
        yield Line("warning", "source", said, todo)
    for site in found.activations:
        said = f"speculation can be switched on by itself: {site}"
        yield Line("problem", "source", said, "read it: an arm without MTP may not be off")
    if not found.activations and not found.blind:
        yield Line("ok", "source", f"{found.files} files read; nothing switches speculation on by itself")
        yield Line("ok", "source", f"NEXTN is resolved in {_places(found.resolutions)}")
    if found.unread:
        named = ", ".join(file for file, _ in found.unread)
        yield Line("ok", "source", f"{len(found.unread)} files cannot be read, and name the setting: {named}")


def _places(sites: list[installation.Site]) -> str:
    """``a.py:1, 2; b.py:3``."""
    lines: dict[str, list[str]] = {}
    for site in sites:
        lines.setdefault(site.file, []).append(str(site.line))
    return (
        "; ".join(f"{file}:{', '.join(numbers)}" for file, numbers in lines.items())
        or "no place that was found"
    )


def _plugins(installed: installation.Installation, runtime: Runtime) -> Iterator[Line]:
    """Code of others in the server's process; what the target itself puts into PYTHONPATH is meant to be there."""
    meant = [runtime.path(place) for place in runtime.env().get("PYTHONPATH", "").split(":") if place]
    for plugin in installed.plugins:
        said = f"{plugin.distribution} is loaded into the server ({plugin.group}: {plugin.value})"
        if any(PurePosixPath(plugin.root).is_relative_to(place) for place in meant):
            yield Line("ok", "plugins", f"{said}, from the target's own PYTHONPATH")
        else:
            todo = "uninstall it, or leave it out with SGLANG_PLUGINS, unless it belongs to what is measured"
            yield Line("warning", "plugins", said, todo)
    for place in installed.customized:
        yield Line(
            "warning", "plugins", f"{place} runs before SGLang does", "make sure that it changes nothing"
        )


def _environment(variables: Mapping[str, str]) -> Iterator[Line]:
    for name in POISON:
        if name in variables:
            said = f"{name}={variables[name]} is set: acceptance would be made up"
            yield Line("problem", "environment", said, "unset it; an arm that wants it sets it itself")
    for name in ODD:
        if variables.get(name):
            yield Line(
                "warning", "environment", f"{name}={variables[name]} is set", "it changes what is measured"
            )


def checkpoint(runtime: Runtime) -> Iterator[Line]:
    """The target's checkpoint, and those that single arms bring."""
    if runtime.attached:
        return
    target = runtime.target
    wanting: dict[tuple[str, str], list[str]] = {}
    for name, arm in target.arms.items():
        flags = runtime.flags(arm)
        # --config FILE may ask as well, but an arm of that kind has the target's checkpoint
        asks = speculation_sources.asked_by(flags) is not None and "speculative-draft-model-path" not in flags
        where = (str(flags["model-path"]), str(flags.get("revision", "")))
        wanting.setdefault(where, []).extend([name] if asks else [])
    own = (target.model, str(target.base_flags().get("revision", "")))
    for where in dict.fromkeys([own, *wanting]):
        if where == own or wanting[where]:
            yield from _checkpoint(runtime, *where, wanting.get(where, []), where == own)


def _checkpoint(
    runtime: Runtime, path: str, revision: str, wanted_by: list[str], own: bool
) -> Iterator[Line]:
    env = runtime.env()
    bad: Status = "problem" if own else "warning"  # an arm may bring a broken one on purpose
    what = "checkpoint" if own else f"checkpoint of {', '.join(wanted_by)}"
    try:
        python = runtime.python(env) or "python3"
        found = checkpoints.read(runtime.host, path, python, env, runtime.cwd, revision)
    except CheckpointError as error:
        yield Line(bad, what, str(error), "correct model in suite.toml, or copy it there")
        return
    for problem in found.problems:
        yield Line(bad, what, problem, "copy the checkpoint again, or take one that has its MTP heads")
    for doubt in found.doubts:
        todo = "a running server shows it: acceptance above 1 with NEXTN; or add the file to the index"
        yield Line("warning", what, doubt, todo)
    if found.doubts:
        return
    if wanted_by and not found.has_mtp:
        said = f"{found}; asked for by {', '.join(wanted_by)}"
        yield Line(bad, what, said, "take a checkpoint with MTP heads, or name a draft model")
    elif not found.problems:
        quantized = f", quantized as {found.quantization}" if found.quantization else ""
        yield Line("ok", what, f"{found.shards} shards whole{quantized}; {found}")
