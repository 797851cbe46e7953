"""The doctor on what decides how fast cards can be: links, how they reach each other, ECC, and one that only waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from suite.doctor.line import Line
from suite.probes import gpus as cards
from suite.servers.runtimes import Runtime

P2P_VARIABLES = ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE")
"""Variables that decide how cards talk (docs of NCCL; local-inference-lab/rtx6kpro#15, #21)."""

MOST_LOG = 4_000_000
"""Characters of a log that are looked through: NCCL speaks at the start."""

WAITING_PERCENT, WAITING_POWER = 95.0, 0.25
"""A card that says it is fully used and draws less than this share of its limit computes nothing: it waits."""


def fit(runtime: Runtime, directory: Path) -> Iterator[Line]:
    """Links, topology, ECC, and cards that wait; nothing where there are no cards to be seen.

    ``directory`` is that of ``suite.toml``: the last run's server logs are looked for beside it.
    """
    if (runtime.attached and runtime.target.host == "local") or runtime.target.gpus == 0:
        return
    command, env = runtime.command(runtime.target.nvidia_smi), runtime.env()
    found = cards.read(runtime.host, command, env=env)
    if isinstance(found, cards.NoGpus):
        return  # told by the line before
    yield from waiting(found.gpus)
    links = cards.links(runtime.host, command, env=env)
    yield from of_links(links)
    yield from of_ecc(links)
    if len(found.gpus) > 1:
        seen = cards.nccl_ways(_last_log(directory, runtime.target.name))
        yield from of_topology(cards.topology(runtime.host, command, env=env), env, seen)


def _last_log(directory: Path, target: str) -> str:
    """The log of the last server that this suite launched on the target; empty where there is none."""
    logs = sorted((directory / "results").glob(f"*-{target}/logs/*.log"))
    try:
        return logs[-1].read_text(encoding="utf-8", errors="replace")[:MOST_LOG] if logs else ""
    except OSError:
        return ""


def waiting(found: Sequence[cards.Gpu]) -> Iterator[Line]:
    """Cards at full use and next to no power: kernels of an all-reduce that spin until the others come."""
    spinning = [gpu for gpu in found if _waits(gpu)]
    if not spinning:
        return
    named = ", ".join(str(gpu.index) for gpu in spinning)
    power = ", ".join(f"{gpu.power_w:.0f}" for gpu in spinning)
    said = (
        f"GPU {named} at {min(gpu.utilization_percent or 0 for gpu in spinning):.0f} % and {power} of "
        f"{spinning[0].power_limit_w:.0f} W: nothing is computed, what runs there waits (a hung all-reduce)"
    )
    todo = (
        "end what runs there; if it comes again, look at the links below, and start with NCCL_DEBUG=INFO, then with "
        "NCCL_P2P_DISABLE=1, to see whether it is the cards' direct way"
    )
    yield Line("problem", "waiting", said, todo)


def _waits(gpu: cards.Gpu) -> bool:
    if gpu.utilization_percent is None or gpu.power_w is None or not gpu.power_limit_w:
        return False
    return gpu.utilization_percent >= WAITING_PERCENT and gpu.power_w < WAITING_POWER * gpu.power_limit_w


def of_links(links: Sequence[cards.Link]) -> Iterator[Line]:
    """Lanes that are not there, and a generation that is not reached by a card at work."""
    told = [link for link in links if link.width is not None]
    if not told:
        return
    for link in told:
        if link.narrow:
            said = f"GPU {link.index} has {link.width} of {link.width_max} lanes"
            todo = "reseat the card and its riser; see the slot's bifurcation in the BIOS (lspci -vv: LnkSta)"
            yield Line("warning", "pcie", said, todo)
        if link.slow:
            said = f"GPU {link.index} is at PCIe {link.gen} of {link.gen_max} while it works"
            yield Line(
                "warning",
                "pcie",
                said,
                "set the slot's speed in the BIOS; a bad riser makes a link fall back",
            )
    widths = Counter(link.width for link in told)
    if len(widths) > 1 and not any(link.narrow for link in told):
        usual = widths.most_common(1)[0][0]
        odd = ", ".join(f"GPU {link.index}: x{link.width}" for link in told if link.width != usual)
        todo = "an all-reduce goes at the pace of the narrowest: use slots alike, or leave that card out"
        yield Line("warning", "pcie", f"slots differ: x{usual}, but {odd}", todo)
    if not any(link.narrow or link.slow for link in told) and len(widths) == 1:
        gens = {link.gen_max for link in told if link.gen_max is not None}
        resting = any(link.slow is None for link in told)
        at = f"PCIe {max(gens)} x{told[0].width}" if gens else f"x{told[0].width}"
        rest = "; at rest now, the generation shows under load only" if resting else ""
        yield Line("ok", "pcie", f"all at {at}{rest}")


def of_ecc(links: Sequence[cards.Link]) -> Iterator[Line]:
    """Memory errors, and cards of which some correct them and some do not."""
    for link in links:
        if link.ecc_errors:
            said = f"GPU {link.index} had {link.ecc_errors} memory errors that ECC could not correct"
            todo = f"reset it (sudo nvidia-smi --gpu-reset -i {link.index}); if it comes again, the card is to be replaced"
            yield Line("problem", "ecc", said, todo)
    modes = {link.ecc for link in links if link.ecc is not None}
    if len(modes) > 1:
        off = ", ".join(str(link.index) for link in links if link.ecc is False)
        todo = (
            f"sudo nvidia-smi -i {off.replace(' ', '')} -e 1, and reboot: ECC takes memory and some bandwidth"
        )
        yield Line("warning", "ecc", f"off on GPU {off}, on elsewhere: cards differ in memory and pace", todo)
    elif modes:
        yield Line("ok", "ecc", "on" if True in modes else "off on all cards: memory errors are not seen")


def of_topology(
    found: cards.Topology | None, env: Mapping[str, str], seen: Mapping[str, int] | None = None
) -> Iterator[Line]:
    """How the cards reach each other, what is set of how NCCL may use it, and what it chose, where its log was seen."""
    if found is None or not found.ways:
        return
    kinds = Counter(found.ways.values())
    ways = ", ".join(
        f"{way} {count}" for way, count in sorted(kinds.items(), key=lambda one: cards.distance(one[0]))
    )
    nodes = sorted(set(found.numa.values()) - {"N/A", ""})
    on = f", on {len(nodes)} NUMA nodes" if len(nodes) > 1 else ""
    chosen = {name: env[name] for name in P2P_VARIABLES if name in env}
    told = (
        ", ".join(f"{name}={value}" for name, value in chosen.items()) or "nothing set: NCCL chooses itself"
    )
    said = f"ways between two cards: {ways}{on}; {told}"
    if seen:
        said += "; at the last start it connected " + ", ".join(
            f"{way} {count}" for way, count in seen.items()
        )
    direct = bool(seen) and all(way.startswith(("P2P", "NVLS")) for way in seen or {})
    if chosen.get("NCCL_P2P_DISABLE") == "1":
        todo = "without it the cards may talk directly; keep it only if they hang so"
        yield Line("warning", "topology", f"{said}: every all-reduce goes through host memory", todo)
    elif (
        not direct
        and cards.distance(found.farthest) >= cards.distance("PHB")
        and "NCCL_P2P_LEVEL" not in chosen
    ):
        todo = (
            "start once with NCCL_DEBUG=INFO: `via P2P` in the server's log is the direct way, `via SHM` goes through host "
            "memory; NCCL_P2P_LEVEL=SYS allows the direct way over any distance"
        )
        yield Line("warning", "topology", said, todo)
    else:
        yield Line("ok", "topology", said)
