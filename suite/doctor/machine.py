"""The doctor on the machine: GPUs, processor, load."""

from __future__ import annotations

from collections.abc import Iterator

from suite import xids
from suite.config import AttachLaunch
from suite.doctor.line import Line
from suite.probes import at_hand
from suite.probes import gpus as cards
from suite.servers.runtimes import Runtime

_GOVERNORS = "/sys/devices/system/cpu"


def gpus(runtime: Runtime) -> Iterator[Line]:
    """The cards: there, idle, unlimited, cool, and without a past."""
    if _out_of_sight(runtime):
        return
    wanted = runtime.target.gpus
    found = cards.read(runtime.host, runtime.command(runtime.target.nvidia_smi), env=runtime.env())
    if isinstance(found, cards.NoGpus):
        if found.expected and wanted == 0:
            yield Line("ok", "gpus", "none, and none wanted")
        else:
            yield Line("problem", "gpus", found.message, f"the target wants {wanted} GPUs")
        return
    yield from _cards(found, wanted)
    yield from _past(runtime, found)


def _out_of_sight(runtime: Runtime) -> bool:
    """Is the machine that serves not known? That of a running server, given by its URL alone, may be another."""
    launch = runtime.target.launch
    if not isinstance(launch, AttachLaunch) or runtime.target.host != "local":
        return False
    return not at_hand.is_at_hand(runtime.host, launch.url)


def _cards(found: cards.Gpus, wanted: int) -> Iterator[Line]:
    same = {**found.identity(), **found.subject()}
    said = f"{len(found.gpus)} x {same['gpu']}, sm {same['compute_capability']}, driver {same['driver']}"
    if len(found.gpus) < wanted:
        yield Line("problem", "gpus", said, f"the target wants {wanted}")
    else:
        yield Line("ok", "gpus", said)
    for message in found.lost:
        yield Line("problem", "gpus", message, "reset the card or reboot")
    for fault in cards.card_faults(found.gpus):
        yield Line("problem", "gpus", str(fault), fault.todo)
    for process in found.processes:
        used = f", {process.memory_mib:g} MiB" if process.memory_mib is not None else ""
        said = f"process {process.pid} ({process.name}) is on a GPU{used}"
        yield Line("problem", "idle", said, "end it, or wait for it")
    if not found.processes:
        yield Line("ok", "idle", "nothing computes on the GPUs")
    for gpu in found.gpus:
        yield from _card(gpu)


def _card(gpu: cards.Gpu) -> Iterator[Line]:
    if gpu.power_limit_w and gpu.power_default_w and gpu.power_limit_w < gpu.power_default_w:
        said = f"GPU {gpu.index} is limited to {gpu.power_limit_w:g} of {gpu.power_default_w:g} W"
        yield Line("warning", "power", said, f"sudo nvidia-smi -i {gpu.index} -pl {gpu.power_default_w:g}")
    if gpu.persistence is False:
        said = f"GPU {gpu.index} is not in persistence mode"
        yield Line("warning", "persistence", said, "sudo nvidia-smi -pm 1")
    if (gpu.reasons or 0) & cards.SERIOUS:
        said = f"GPU {gpu.index} is slowed: {', '.join(gpu.slowed_by)}"
        yield Line("problem", "clocks", said, "cool it first")


def _past(runtime: Runtime, present: cards.Gpus) -> Iterator[Line]:
    """Xid errors since the machine started."""
    log = cards.kernel_log(runtime.host, runtime.command(runtime.target.kernel_log), env=runtime.env())
    if log is None:
        yield Line("ok", "xid", "the kernel's log may not be read by this user")
        return
    found = xids.of_cards(xids.read(log), [gpu.bus for gpu in present.gpus])
    of_programs = [xid for xid in found if xid.meaning.whose == "program"]
    for xid in [xid for xid in found if xid.meaning.whose != "program"][-3:]:
        yield Line("warning", "xid", str(xid), "a card that had one may be slow: reset it or reboot")
    if of_programs:
        numbers = ", ".join(sorted({str(xid.number) for xid in of_programs}, key=int))
        said = f"{len(of_programs)} Xids of programs since the machine started ({numbers}): no fault of the cards"
        yield Line("ok", "xid", f"{said}; the last: {of_programs[-1]}")
    if not found:
        yield Line("ok", "xid", "none of these cards in the kernel's log")


def processor(runtime: Runtime) -> Iterator[Line]:
    """The CPU feeds the GPUs: a governor that saves power, and other load, make runs differ."""
    if _out_of_sight(runtime):
        return
    governors = _governors(runtime)
    if governors - {"performance"}:
        todo = "sudo cpupower frequency-set -g performance"
        yield Line("warning", "governor", ", ".join(sorted(governors)), todo)
    elif governors:
        yield Line("ok", "governor", "performance")
    host = runtime.host
    if not host.exists("/proc/loadavg"):
        return
    load = float(host.read_text("/proc/loadavg").split()[0])
    cores = host.read_text("/proc/cpuinfo").count("processor\t:") or 1
    said = f"{load:g} over the last minute, on {cores} cores"
    if load > max(1.0, 0.25 * cores):
        yield Line("warning", "load", said, "wait for the machine to be quiet")
    else:
        yield Line("ok", "load", said)


def _governors(runtime: Runtime) -> set[str]:
    """The frequency governors of the cores; empty where the kernel names none, as in most virtual machines."""
    host = runtime.host
    names = host.list_dir(_GOVERNORS) if host.exists(_GOVERNORS) else []
    paths = [f"{_GOVERNORS}/{name}/cpufreq/scaling_governor" for name in names if name[3:].isdigit()]
    return {host.read_text(path).strip() for path in paths if host.exists(path)}
