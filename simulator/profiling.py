"""/start_profile: the modelled GPU's steps as a trace of torch's profiler, with the spans that SGLang names.

Only what the hardware model has is in it: verification, drafts (the last of a chain runs as SGLang's draft extend),
and the time between kernels of a server without CUDA graphs. Kernels have made-up names; their sums are the model's.
"""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

from simulator.hardware import Hardware, Shares
from simulator.scheduler import Step

GPU_STREAM, HOST = 7, 1
SHARES = {"moe": 0.6, "attention": 0.25, "all_reduce": 0.15}
"""How the time of a pass is dealt to kernels."""
STARTED, STOPPED = "Start profiling.\n", "Stop profiling. This will take some time.\n"
MOST_STEPS = 10_000


class NotProfiling(Exception):
    """Nothing to be stopped, or a profile that is going on already; the text is SGLang's own."""


class Profiler:
    """Collects steps while it is on; writes them when enough are seen, or when it is stopped."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._events: list[dict[str, Any]] | None = None
        self._folder = Path()
        self._left = 0

    def start(self, fields: dict[str, Any]) -> None:
        """Begin; `num_steps` and `output_dir` as SGLang takes them. Raises NotProfiling while one is going on."""
        if self._events is not None:
            raise NotProfiling("Profiling is already in progress. Call /stop_profile first.")
        wanted = fields.get("num_steps")
        self._left = min(wanted, MOST_STEPS) if isinstance(wanted, int) and wanted > 0 else MOST_STEPS
        self._folder = Path(str(fields.get("output_dir") or "/tmp"))
        self._events = []

    def on_step(self, step: Step) -> None:
        """A step was made."""
        if self._events is None or step.kind == "none":
            return
        begun_us, length_us = step.start_s * 1e6, (step.end_s - step.start_s) * 1e6
        if step.kind == "prefill":
            name = f"step[EXTEND bs={step.batch} toks={step.new_tokens}]"
            self._events += self._part(name, "prefill", begun_us, length_us)
        else:
            self._decode(
                step.batch, self._hardware.shares(step.batch, step.context_tokens), begun_us, length_us
            )
        self._left -= 1
        if self._left <= 0:
            self.stop()

    def stop(self) -> None:
        """Write what was seen. Raises NotProfiling where nothing is going on."""
        if self._events is None:
            raise NotProfiling("Profiling is not in progress. Call /start_profile first.")
        events, self._events = self._events, None
        self._folder.mkdir(parents=True, exist_ok=True)
        whole = json.dumps({"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": events})
        part = self._folder / f"{time.time()}-TP-0.trace.json.gz.part"
        part.write_bytes(gzip.compress(whole.encode(), 6))
        part.rename(part.with_suffix(""))

    def _decode(self, batch: int, shares: Shares, begun_us: float, length_us: float) -> None:
        """The parts of a decoding step, one after the other, stretched to the length that the step had."""
        assert self._events is not None
        parts = [(f"step[DECODE bs={batch}]", "decode", shares.forward_s)]
        if self._hardware.speculation is not None:
            each = shares.drafts_s / self._hardware.speculation.steps
            parts = [
                ("draft", "draft", shares.drafts_s - each),
                (f"step[VERIFY bs={batch}]", "verify", shares.forward_s),
                ("draft_extend", "draft", each),
            ]
        stretch = length_us / shares.whole_s
        at_us = begun_us + shares.idle_s * stretch
        for name, kind, seconds in parts:
            if seconds > 0:
                self._events += self._part(name, kind, at_us, seconds * stretch)
                at_us += seconds * stretch

    def _part(self, name: str, kind: str, begun_us: float, length_us: float) -> list[dict[str, Any]]:
        events = [
            _span(name, "user_annotation", begun_us, 1.0, HOST),
            _span(name, "gpu_user_annotation", begun_us, length_us, GPU_STREAM),
        ]
        at_us = begun_us
        for kernel, share in SHARES.items():
            events.append(_span(f"modelled_{kind}_{kernel}", "kernel", at_us, share * length_us, GPU_STREAM))
            at_us += share * length_us
        return events


def _span(name: str, kind: str, begun_us: float, length_us: float, lane: int) -> dict[str, Any]:
    return {"ph": "X", "cat": kind, "name": name, "pid": 0, "tid": lane, "ts": begun_us, "dur": length_us}
