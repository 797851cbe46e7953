"""Everything that can be known of a target without a launch, as lines of ok, warning or problem with what to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from suite import config
from suite.flags import Flags, history_of
from suite.hosts import Host, HostError, open_host
from suite.probes import checkpoint, gpus, installation, server
from suite.probes.errors import MetricsDisabled, ProbeError
from suite.probes.installation import CannotResolve, Python, Refused, Resolved

Status = Literal["ok", "warning", "problem"]

POISON = ("SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD", "SGLANG_SIMULATE_ACC_TOKEN_MODE")
"""Variables that force acceptance: with them nothing that is measured is true."""

ODD = (
    "SGLANG_DISABLE_DRAFT_EXTEND_CUDA_GRAPH",
    "SGLANG_FORCE_STREAM_INTERVAL",
    "SGLANG_MAMBA_SSM_DTYPE",
    "LD_PRELOAD",
)
"""Variables that change what is measured."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that was looked at: ``what``, how it stands, a sentence, and what to do if it is not well."""

    status: Status
    what: str
    said: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """A target with what is needed to look at it. ``python`` leads to its SGLang; ``None`` if there is no way to."""

    suite: config.Suite
    target: config.Target
    host: Host
    python: Python | None
    module: str
    cwd: str | None

    def env(self, arm: config.Arm | None = None) -> dict[str, str]:
        """The variables that a server of ``arm`` (of any) is started with."""
        return self.target.arm_env(arm) if arm else dict(self.target.env)


def examine(suite: config.Suite, target: config.Target) -> Iterator[Line]:
    """Look at everything, in the order in which a launch would need it; each line as soon as it is known."""
    try:
        host = open_host(suite.host(target.host))
    except HostError as error:
        yield Line("problem", "host", str(error))
        return
    with host:
        yield Line("ok", "host", f"{host.name} can be reached" if not host.is_local else "this machine")
        patient = _patient(suite, target, host)
        for look in _LOOKS:
            try:
                yield from look(patient)
            except (ProbeError, HostError) as error:
                yield Line("problem", _name(look), str(error))


def _patient(suite: config.Suite, target: config.Target, host: Host) -> Patient:
    launch, directory = target.launch, suite.path.resolve().parent
    cwd = str(directory) if host.is_local else None
    python: Python | None = None
    module = "sglang.launch_server"
    if isinstance(launch, config.ProcessLaunch):
        python, module = launch.interpreter, launch.module
        cwd = str(directory / (launch.cwd or ".")) if host.is_local else launch.cwd
    elif isinstance(launch, config.DockerLaunch):
        python, module = in_container(launch, target.env), launch.module
    return Patient(suite, target, host, python, module, cwd)


def in_container(launch: config.DockerLaunch, env: Mapping[str, str]) -> list[str]:
    """The words that run an image's Python on a script from standard input, without GPUs and without network."""
    words = [launch.engine, "run", "--rm", "--interactive", "--network", "none"]
    words += [word for mount in launch.mounts for word in ("--volume", mount)]
    words += [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
    return [*words, "--entrypoint", launch.python, launch.image]


def _name(look: Callable[[Patient], Iterator[Line]]) -> str:
    return look.__name__.strip("_").replace("_", " ")


# ------------------------------------------------------------------ the server, where there is one already


def _server(patient: Patient) -> Iterator[Line]:
    launch = patient.target.launch
    if not isinstance(launch, config.AttachLaunch):
        return
    key = os.environ.get(launch.api_key_env) if launch.api_key_env else None
    info = server.read(launch.url, api_key=key)
    yield Line("ok", "server", f"SGLang {info.version}, {info.speculation}")
    try:
        counters = server.counters(launch.url, info.version, api_key=key)
    except MetricsDisabled as error:
        yield Line("warning", "server", str(error))
        return
    for name in counters.missing:
        yield Line("warning", "server", f"SGLang {info.version} should have the metric {name!r}, but has not")
    if counters.idle is False:
        busy = f"{counters.running_requests:g} requests run, {counters.queued_requests:g} wait"
        yield Line("problem", "idle", busy, "measure when nobody else uses the server")
    elif counters.idle:
        yield Line("ok", "idle", "no request runs or waits")


def _port(patient: Patient) -> Iterator[Line]:
    port = patient.target.port
    if port is None or isinstance(patient.target.launch, config.AttachLaunch):
        return
    if patient.host.listening(port):
        yield Line("problem", "port", f"{port} is taken", "end who listens there, or set another port")
    else:
        yield Line("ok", "port", f"{port} is free")


# ------------------------------------------------------------------ what would be launched


def _sglang(patient: Patient) -> Iterator[Line]:
    if patient.python is None:
        kind = patient.target.launch.kind
        yield Line("ok", "sglang", f"not looked at: a target of kind {kind!r} names no interpreter")
        return
    if patient.module == "suite.simulator":
        yield Line("ok", "sglang", "none needed: the server is this suite's simulator")
        return
    found = installation.scan(patient.host, patient.python, env=patient.env(), cwd=patient.cwd)
    installed = found.installation
    beside = ", ".join(
        f"{name} {version}" for name, version in installed.subject().items() if name != "sglang"
    )
    yield Line("ok", "sglang", f"{installed.version} in {installed.root} ({beside})")
    yield from _source(found)
    yield from _environment(installed.environment)


def _source(found: installation.Scanned) -> Iterator[Line]:
    if found.blind:
        yield Line(
            "warning",
            "source",
            "speculative_algorithm is declared nowhere in this SGLang",
            "it has another name there: only the running server can tell whether MTP is on",
        )
    for site in found.activations:
        yield Line(
            "problem",
            "source",
            f"speculation can be switched on by itself: {site}",
            "read it; the mtp-off arm may not be off",
        )
    if not found.activations and not found.blind:
        places = ", ".join(dict.fromkeys(f"{site.file}:{site.line}" for site in found.resolutions))
        yield Line("ok", "source", f"{found.files} files read; nothing switches speculation on by itself")
        yield Line("ok", "source", f"NEXTN is resolved in {places}")
    if found.unread:
        named = ", ".join(file for file, _ in found.unread)
        yield Line("ok", "source", f"{len(found.unread)} files cannot be read, and name the setting: {named}")
    for plugin in found.installation.plugins:
        yield Line(
            "warning",
            "plugins",
            f"{plugin.distribution} is loaded into the server ({plugin.group}: {plugin.value})",
            "uninstall it, or leave it out with SGLANG_PLUGINS, unless it belongs to what is measured",
        )
    for place in found.installation.customized:
        yield Line(
            "warning", "plugins", f"{place} runs before SGLang does", "make sure that it changes nothing"
        )


def _environment(variables: Mapping[str, str]) -> Iterator[Line]:
    for name in POISON:
        if name in variables:
            yield Line(
                "problem",
                "environment",
                f"{name}={variables[name]} is set: acceptance would be made up",
                "unset it; an arm that wants it sets it itself",
            )
    for name in ODD:
        if variables.get(name):
            yield Line(
                "warning", "environment", f"{name}={variables[name]} is set", "it changes what is measured"
            )


def _checkpoint(patient: Patient) -> Iterator[Line]:
    target = patient.target
    if isinstance(target.launch, config.AttachLaunch):
        return
    found = checkpoint.read(
        patient.host, target.model, patient.python or "python3", patient.env(), cwd=patient.cwd
    )
    for problem in found.problems:
        yield Line(
            "problem", "checkpoint", problem, "copy the checkpoint again, or take one that has its MTP heads"
        )
    wanted = [name for name, arm in target.arms.items() if "speculative-algorithm" in target.arm_flags(arm)]
    if wanted and not found.has_mtp:
        asks = f"{found}; asked for by {', '.join(wanted)}"
        yield Line("problem", "checkpoint", asks, "take a checkpoint with MTP heads, or name a draft model")
    elif not found.problems:
        quantized = f", quantized as {found.quantization}" if found.quantization else ""
        yield Line("ok", "checkpoint", f"{found.shards} shards whole{quantized}; {found}")


def _arms(patient: Patient) -> Iterator[Line]:
    """Would this SGLang take each arm's command line, and what would come of it?"""
    if patient.python is None:
        return
    target = patient.target
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name, arm in target.arms.items():
        groups.setdefault(tuple(sorted(patient.env(arm).items())), []).append(name)
    for env, names in groups.items():
        lines = [target.arm_flags(target.arm(name)) for name in names]
        outcomes = installation.resolve_all(
            patient.host, patient.python, lines, dict(env), patient.cwd, patient.module
        )
        for name, flags, outcome in zip(names, lines, outcomes, strict=True):
            yield _arm(name, flags, outcome)


def _arm(name: str, flags: Flags, outcome: Resolved | Refused | CannotResolve) -> Line:
    what = f"arm {name}"
    if isinstance(outcome, Refused):
        known = [said for flag in flags if f"--{flag}" in outcome.reason and (said := history_of(flag))]
        return Line("problem", what, outcome.reason, "; ".join(known) or "correct the flags in suite.toml")
    if isinstance(outcome, CannotResolve):
        accepted = "its flags are accepted, but " if outcome.accepted else ""
        return Line("warning", what, f"{accepted}not resolved without a launch: {outcome.reason}")
    asked = "speculative-algorithm" in flags
    if asked is not outcome.speculation.on:
        said = f"would run with {outcome.speculation}, although it was {'' if asked else 'not '}asked for"
        return Line(
            "problem", what, said, "look for what changes it: the lines source, plugins and environment above"
        )
    return Line("ok", what, str(outcome.speculation))


# ------------------------------------------------------------------ the machine


def _gpus(patient: Patient) -> Iterator[Line]:
    wanted, found = patient.target.gpus, gpus.read(patient.host)
    if patient.module == "suite.simulator":
        return
    if isinstance(found, gpus.NoGpus):
        fine = found.expected and wanted == 0
        todo = "" if fine else f"the target wants {wanted} GPUs"
        yield Line(
            "ok" if fine else "problem", "gpus", "none, and none wanted" if fine else found.message, todo
        )
        return
    yield from _cards(found, wanted)
    log = gpus.kernel_log(patient.host)
    if log is None:
        yield Line("ok", "xid", "the kernel's log may not be read by this user")
        return
    errors = gpus.xids(log)
    for bus, number, said in errors[-3:]:
        yield Line(
            "warning",
            "xid",
            f"Xid {number} on {bus}: {said}",
            "a card that had one may be slow: reset or reboot",
        )
    if not errors:
        yield Line("ok", "xid", "none in the kernel's log")


def _cards(found: gpus.Gpus, wanted: int) -> Iterator[Line]:
    same = {**found.identity(), **found.subject()}
    yield Line(
        "problem" if len(found.gpus) < wanted else "ok",
        "gpus",
        f"{len(found.gpus)} x {same['gpu']}, sm {same['compute_capability']}, driver {same['driver']}",
        f"the target wants {wanted}" if len(found.gpus) < wanted else "",
    )
    for message in found.lost:
        yield Line("problem", "gpus", message, "reset the card or reboot")
    for process in found.processes:
        used = f", {process.memory_mib:g} MiB" if process.memory_mib is not None else ""
        yield Line(
            "problem",
            "idle",
            f"process {process.pid} ({process.name}) is on a GPU{used}",
            "end it, or wait for it",
        )
    if not found.processes:
        yield Line("ok", "idle", "nothing computes on the GPUs")
    for gpu in found.gpus:
        if gpu.power_limit_w and gpu.power_default_w and gpu.power_limit_w < gpu.power_default_w:
            limited = f"GPU {gpu.index} is limited to {gpu.power_limit_w:g} of {gpu.power_default_w:g} W"
            yield Line(
                "warning", "power", limited, f"sudo nvidia-smi -i {gpu.index} -pl {gpu.power_default_w:g}"
            )
        if gpu.persistence is False:
            yield Line(
                "warning",
                "persistence",
                f"GPU {gpu.index} is not in persistence mode",
                "sudo nvidia-smi -pm 1",
            )
        if (gpu.reasons or 0) & gpus.SERIOUS:
            yield Line(
                "problem", "clocks", f"GPU {gpu.index} is slowed: {', '.join(gpu.slowed_by)}", "cool it first"
            )


_GOVERNORS = "/sys/devices/system/cpu"


def _processor(patient: Patient) -> Iterator[Line]:
    """The CPU feeds the GPUs: a governor that saves power and other load make runs differ."""
    host = patient.host
    governors = set()
    for name in host.list_dir(_GOVERNORS) if host.exists(_GOVERNORS) else []:
        path = f"{_GOVERNORS}/{name}/cpufreq/scaling_governor"
        if name[3:].isdigit() and host.exists(path):
            governors.add(host.read_text(path).strip())
    if governors - {"performance"}:
        yield Line(
            "warning", "governor", ", ".join(sorted(governors)), "sudo cpupower frequency-set -g performance"
        )
    elif governors:
        yield Line("ok", "governor", "performance")
    if not host.exists("/proc/loadavg"):
        return
    load = float(host.read_text("/proc/loadavg").split()[0])
    cores = host.read_text("/proc/cpuinfo").count("processor\t:") or 1
    said = f"{load:g} over the last minute, on {cores} cores"
    busy = load > max(1.0, 0.25 * cores)
    yield Line("warning" if busy else "ok", "load", said, "wait for the machine to be quiet" if busy else "")


_LOOKS: tuple[Callable[[Patient], Iterator[Line]], ...] = (
    _server,
    _port,
    _sglang,
    _checkpoint,
    _arms,
    _gpus,
    _processor,
)
