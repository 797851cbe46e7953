"""Reasons not to believe a measurement: each a named pure function of recorded values, with its evidence.

A rule takes plain values as the probes and the client record them and gives an `Invalid` or None. What was not
recorded gives no reason: absence of evidence is for the report to mention, not for the gate to punish.
Settings and flags are compared by SGLang's resolved names (`speculative_num_steps`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, TypeAlias

from suite.gate.records import Invalid

Record: TypeAlias = Mapping[str, Any]

HARDWARE_SLOWDOWN = {
    0x8: "hardware slowdown",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
}
POWER_CAP = 0x4
"""Bits of NVML's clocks event reasons (nvml.h, nvmlClocksEventReason*)."""

BUSY_PERCENT = 20.0
CLOCK_DROP = 0.03
CACHED_SHARE = 0.1
LATE_SHARE = 0.01


def clocks_throttled(samples: Sequence[Record]) -> Invalid | None:
    """A busy GPU was slowed by its hardware, or its SM clock fell by more than 3 % from first to last third.

    samples: {gpu, sm_clock_mhz, utilization_percent, reasons} in order of time.
    """
    for gpu, busy in _by_gpu(samples).items():
        bits = [
            name
            for bit, name in HARDWARE_SLOWDOWN.items()
            if any(int(s.get("reasons") or 0) & bit for s in busy)
        ]
        if bits:
            return Invalid("clocks_throttled", f"GPU {gpu}: {', '.join(bits)} in {len(busy)} busy samples")
        clocks = _values(busy, "sm_clock_mhz")
        third = len(clocks) // 3
        if third:
            first, last = median(clocks[:third]), median(clocks[-third:])
            if last < first * (1 - CLOCK_DROP):
                return Invalid(
                    "clocks_throttled", f"GPU {gpu}: SM clock {first:.0f} -> {last:.0f} MHz while busy"
                )
    return None


def power_capped(samples: Sequence[Record], baseline_clock_mhz: float | None = None) -> Invalid | None:
    """The power cap held a busy GPU's clock more than 3 % below what the baseline ran at.

    Running at the cap is normal for these cards; running slower at it than before is not.
    """
    for gpu, busy in _by_gpu(samples).items():
        capped = [s for s in busy if int(s.get("reasons") or 0) & POWER_CAP]
        clocks = _values(busy, "sm_clock_mhz")
        if not capped or not clocks or baseline_clock_mhz is None:
            continue
        clock = median(clocks)
        if clock < baseline_clock_mhz * (1 - CLOCK_DROP):
            limits = _values(capped, "power_limit_w")
            limit = f" at {limits[0]:.0f} W" if limits else ""
            evidence = (
                f"GPU {gpu}: power cap{limit}, SM clock {clock:.0f} MHz, baseline {baseline_clock_mhz:.0f}"
            )
            return Invalid("power_capped", evidence)
    return None


def foreign_processes(processes: Iterable[Record], own_pids: Iterable[int]) -> Invalid | None:
    """Somebody else computed on the GPUs. processes: {pid, name, memory_mib}; own_pids: the server's process tree."""
    own = set(own_pids)
    others = [p for p in processes if p.get("pid") not in own]
    if not others:
        return None
    named = ", ".join(f"{p.get('name') or 'unnamed'} (pid {p.get('pid')})" for p in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return Invalid("foreign_processes", f"{named}{more} on the GPUs")


def gpu_lost(xids: Sequence[Any], lost: Sequence[str] = ()) -> Invalid | None:
    """The driver reported an Xid, or a card is gone: infrastructure, whatever the numbers say."""
    if not xids and not lost:
        return None
    what = [*(f"Xid {x}" for x in xids[:3]), *(f"GPU {g} lost" for g in lost[:3])]
    return Invalid("gpu_lost", ", ".join(what))


def early_stops(requests: Sequence[Record]) -> Invalid | None:
    """Answers ended before the length asked for: speed and acceptance of another text. {completion_tokens, max_tokens}"""
    counted = [r for r in requests if r.get("completion_tokens") is not None and r.get("max_tokens")]
    early = [r for r in counted if r["completion_tokens"] < r["max_tokens"]]
    if not early:
        return None
    shortest = min(early, key=lambda r: r["completion_tokens"])
    evidence = (
        f"{len(early)} of {len(counted)} answers, the shortest after {shortest['completion_tokens']} of "
        f"{shortest['max_tokens']} tokens, finish_reason {shortest.get('finish_reason')!r}"
    )
    return Invalid("early_stop", evidence)


def unequal_lengths(requests: Sequence[Record]) -> Invalid | None:
    """Answers of one round have different lengths: rounds are then not samples of one thing. {completion_tokens}"""
    lengths = sorted({r["completion_tokens"] for r in requests if r.get("completion_tokens") is not None})
    if len(lengths) < 2:
        return None
    return Invalid("unequal_output_lengths", f"answers of {lengths[0]} to {lengths[-1]} tokens in one round")


def cached_prompts(requests: Sequence[Record], share_max: float = CACHED_SHARE) -> Invalid | None:
    """Prompt tokens came from the prefix cache where none should. {cached_tokens, prompt_tokens}"""
    known = [r for r in requests if r.get("cached_tokens") is not None and r.get("prompt_tokens")]
    cached, prompt = sum(r["cached_tokens"] for r in known), sum(r["prompt_tokens"] for r in known)
    if not prompt or cached <= share_max * prompt:
        return None
    evidence = f"{cached} of {prompt} prompt tokens from the prefix cache ({cached / prompt:.0%}, at most {share_max:.0%})"
    return Invalid("cached_prompt_tokens", evidence)


def failed_requests(requests: Sequence[Record]) -> Invalid | None:
    """Requests failed or were retried: the others had the server to themselves. {failed: reason or None, retries}"""
    failed = [r for r in requests if r.get("failed")]
    retried = [r for r in requests if r.get("retries")]
    if not failed and not retried:
        return None
    first = f"; the first: {failed[0]['failed']}" if failed else ""
    return Invalid(
        "failed_requests", f"{len(failed)} of {len(requests)} failed, {len(retried)} retried{first}"
    )


def client_late(late_s: Sequence[float], round_s: float) -> Invalid | None:
    """The client itself sent or read late, by more than 1 % of the round in total: its time, not the server's."""
    total = sum(max(x, 0.0) for x in late_s)
    if round_s <= 0 or total <= LATE_SHARE * round_s:
        return None
    return Invalid("client_late", f"{total:.3f} s of a round of {round_s:.3f} s ({total / round_s:.1%})")


def simulated_acceptance(environment: Mapping[str, str], intended: bool = False) -> Invalid | None:
    """`SGLANG_SIMULATE_ACC_LEN` forces acceptance: no verdict, except in an arm that sets it on purpose."""
    value = environment.get("SGLANG_SIMULATE_ACC_LEN")
    if intended or value is None or value.strip() in ("", "-1"):
        return None
    return Invalid(
        "simulated_acceptance", f"SGLANG_SIMULATE_ACC_LEN={value} is set in the server's environment"
    )


def other_than_intended(intent: Mapping[str, Any], resolved: Mapping[str, Any]) -> Invalid | None:
    """The server resolved a setting other than the arm intends. A setting it does not report is not judged."""
    wrong = [
        f"{k} is {resolved[k]!r}, not {v!r}"
        for k, v in sorted(intent.items())
        if k in resolved and resolved[k] != v
    ]
    return Invalid("not_as_intended", "; ".join(wrong)) if wrong else None


def no_cuda_graphs(used: bool | None, baseline_used: bool | None) -> Invalid | None:
    """Decoding ran without CUDA graphs where the baseline had them."""
    if used is False and baseline_used:
        return Invalid("no_cuda_graphs", "decode ran without CUDA graphs, the baseline with them")
    return None


def of_launch(record: Record, baseline: Record | None = None) -> list[Invalid]:
    """All reasons a launch's record gives (keys: the arguments of the rules above), beside the baseline's record."""
    before = baseline or {}
    samples = record.get("gpu_samples", ())
    found = [
        clocks_throttled(samples),
        power_capped(samples, before.get("sm_clock_mhz")),
        foreign_processes(record.get("gpu_processes", ()), record.get("own_pids", ())),
        gpu_lost(record.get("xids", ()), record.get("lost", ())),
        simulated_acceptance(record.get("environment", {}), bool(record.get("simulation_intended"))),
        other_than_intended(record.get("intent", {}), record.get("resolved", {})),
        no_cuda_graphs(record.get("cuda_graphs"), before.get("cuda_graphs")),
    ]
    return [reason for reason in found if reason is not None]


def of_round(record: Record, number: int, *, cached_share_max: float | None = CACHED_SHARE) -> list[Invalid]:
    """All reasons the record of round `number` gives: `requests`, `late_s`, `round_s`."""
    requests = record.get("requests", ())
    found = [
        failed_requests(requests),
        early_stops(requests) or unequal_lengths(requests),
        None if cached_share_max is None else cached_prompts(requests, cached_share_max),
        client_late(record.get("late_s", ()), float(record.get("round_s", 0.0))),
    ]
    return [Invalid(reason.name, reason.evidence, number) for reason in found if reason is not None]


def _by_gpu(samples: Sequence[Record]) -> dict[Any, list[Record]]:
    busy: dict[Any, list[Record]] = {}
    for sample in samples:
        if float(sample.get("utilization_percent") or 0.0) >= BUSY_PERCENT:
            busy.setdefault(sample.get("gpu", 0), []).append(sample)
    return busy


def _values(samples: Sequence[Record], key: str) -> list[float]:
    return [float(s[key]) for s in samples if s.get(key) is not None]
