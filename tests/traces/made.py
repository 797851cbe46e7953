"""Traces as torch's profiler writes them on a GPU, with known times, and those that genuine SGLang wrote on the CPU."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
"""SGLang 0.5.20 on the CPU with and without NEXTN: three steps each, operators of at least 4 us, without arguments."""

STREAM, HOST = 7, 1234


def gpu_trace(
    steps: int = 6,
    *,
    verify: Mapping[str, float] | None = None,
    draft: Mapping[str, float] | None = None,
    extend: Mapping[str, float] | None = None,
    gap_us: float = 50.0,
    jitter: Sequence[float] = (0.0, 1.0, -1.0, 2.0, 0.0, -2.0),
) -> bytes:
    """A trace of `steps` + 1 verifications: each part holds its kernels (us), one after the other, and the GPU rests
    for `gap_us` after each step. The host launches all of it far ahead, as it does."""
    parts = (
        (
            "step[VERIFY bs=1]",
            verify or {"void moe::fused_moe<bf16>(int)": 600.0, "all_reduce_one_shot": 100.0},
        ),
        ("draft_extend", extend or {"gemm_extend": 80.0}),
        ("draft", draft or {"gemm_draft": 200.0}),
    )
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "x"}}]
    now = 1000.0
    for number in range(steps + 1):
        events.append(span("scheduler.run_batch", "user_annotation", 100.0 + number, 0.9, HOST))
        for name, kernels in parts:
            start = now
            for kernel, length in kernels.items():
                events.append(span(kernel, "kernel", now, length, STREAM))
                now += length
            events.append(span(name, "gpu_user_annotation", start, now - start, STREAM))
            events.append(span(name, "user_annotation", 100.0 + number, 0.1, HOST))
        now += gap_us + jitter[number % len(jitter)]
    return packed(events)


def span(name: str, kind: str, start: float, length: float, lane: int) -> dict[str, Any]:
    """One event as the profiler writes it."""
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "ts": start,
        "dur": length,
        "pid": lane // 1000,
        "tid": lane,
    }


def packed(events: Sequence[Mapping[str, Any]]) -> bytes:
    """A file of events, gzipped."""
    return gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode(), mtime=0)
