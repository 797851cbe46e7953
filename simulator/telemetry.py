"""What the server counts about itself: log lines of batches, gauges of the last window, counters and histograms."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from simulator import logs
from simulator.behaviour import Behaviour
from simulator.resolution import Resolved
from simulator.scheduler import Scheduler, Step
from simulator.sequences import Sequence

PASSES = ("prefill_none", "decode_none", "decode_cuda_graph")
"""How a forward pass can run; prefill is modelled without CUDA graphs."""


@dataclass(slots=True)
class Window:
    """Decode steps since the last log line."""

    steps: int = 0
    tokens: int = 0
    sequences: int = 0
    proposed: int = 0
    correct: int = 0
    started_s: float = 0.0


@dataclass(slots=True)
class Totals:
    """Since the launch, or since the cache was flushed where that resets them."""

    prompt_tokens: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    generation_tokens: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    requests: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    verify_calls: int = 0
    prefill_tokens: int = 0
    cached_tokens: int = 0
    decode_tokens: int = 0
    aborted: int = 0
    passes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PASSES, 0))
    accepted: int = 0
    """Tokens and verify steps of logged windows: what avg_spec_accept_length is made of."""
    forwards: int = 0


class Telemetry:
    """Listens to steps; read by /metrics, /server_info and /v1/loads."""

    def __init__(self, scheduler: Scheduler, resolved: Resolved, odd: Behaviour) -> None:
        self.totals = Totals()
        self.gen_throughput = 0.0
        self.accept_length = 0.0
        self.accept_rate = 0.0
        self.observations: dict[tuple[str, bool], list[float]] = defaultdict(list)
        self.http: dict[tuple[str, str, int], int] = defaultdict(int)
        self._scheduler = scheduler
        self._interval = resolved.settings["decode_log_interval"]
        self._speculation = resolved.speculation
        self._replays = odd.cuda_graph and not resolved.settings["disable_cuda_graph"]
        self._graph = odd.graph_in_log and not resolved.settings["disable_cuda_graph"]
        self._symptoms = odd.log_symptoms
        self._window = Window()
        self._last_prefill_s = 0.0

    @property
    def average_accept_length(self) -> float | None:
        """avg_spec_accept_length of /server_info; None while no window has been logged."""
        return self.totals.accepted / self.totals.forwards if self.totals.forwards else None

    def on_step(self, step: Step) -> None:
        """Count a step, log it if it is due."""
        if step.kind == "prefill":
            self._on_prefill(step)
        elif step.kind == "decode":
            self._on_decode(step)
        for output in step.outputs:
            if output.finish is not None:
                self._on_finish(output.sequence)

    def flushed(self) -> None:
        """The cache was flushed: averages start again."""
        self.totals.accepted = self.totals.forwards = 0
        self._window = Window()

    def _on_prefill(self, step: Step) -> None:
        self.totals.prefill_tokens += step.new_tokens
        self.totals.passes["prefill_none"] += 1
        self.totals.cached_tokens += step.cached_tokens
        scheduler = self._scheduler
        passed_s = step.end_s - self._last_prefill_s if self._last_prefill_s else step.end_s - step.start_s
        self._last_prefill_s = step.end_s
        logs.scheduler(
            f"Prefill batch, #new-seq: {step.batch}, #new-token: {step.new_tokens}, #cached-token: {step.cached_tokens}, "
            f"full token usage: {scheduler.usage:.2f}, mamba usage: {self._mamba_usage():.2f}, "
            f"#running-req: {max(0, len(scheduler.running) - step.batch)}, #queue-req: {len(scheduler.waiting)}, "
            f"#pending-token: {sum(s.to_prefill for s in scheduler.waiting)}, cuda graph: {self._graph}, "
            f"input throughput (token/s): {step.new_tokens / max(passed_s, 1e-9):.2f}"
        )

    def _on_decode(self, step: Step) -> None:
        window = self._window
        if not window.steps and not window.started_s:
            window.started_s = step.start_s
        window.steps += 1
        window.tokens += step.new_tokens
        window.sequences += step.batch
        window.proposed += step.drafts_proposed
        window.correct += step.drafts_correct
        self.totals.decode_tokens += step.new_tokens
        self.totals.passes["decode_cuda_graph" if self._replays else "decode_none"] += 1
        if window.steps >= self._interval:
            self._close_window(step)

    def _close_window(self, step: Step) -> None:
        window, scheduler = self._window, self._scheduler
        self.gen_throughput = window.tokens / max(step.end_s - window.started_s, 1e-9)
        drafts = ""
        if self._speculation is not None:
            self.totals.accepted += window.sequences + window.correct
            self.totals.forwards += window.sequences
            self.accept_length = 1.0 + window.correct / window.sequences
            self.accept_rate = window.correct / max(1, window.proposed)
            drafts = f"accept len: {self.accept_length:.2f}, accept rate: {self.accept_rate:.2f}, "
        running = len(scheduler.running)
        logs.scheduler(
            f"Decode batch, #running-req: {running}, #full token: {scheduler.used_tokens}, "
            f"full token usage: {scheduler.usage:.2f}, mamba num: {running}, mamba usage: {self._mamba_usage():.2f}, "
            f"{drafts}cuda graph: {self._graph}, gen throughput (token/s): {self.gen_throughput:.2f}, "
            f"#queue-req: {len(scheduler.waiting)}"
        )
        if self._symptoms:
            logs.scheduler(
                "CUDA graph replay is not possible for this batch, falling back to eager execution."
            )
        self._window = Window(started_s=step.end_s)

    def _on_finish(self, sequence: Sequence) -> None:
        totals, streaming = self.totals, sequence.streaming
        totals.prompt_tokens[streaming] += sequence.prompt.tokens
        totals.generation_tokens[streaming] += sequence.output_tokens
        totals.requests[streaming] += 1
        totals.verify_calls += sequence.verifications
        totals.aborted += sequence.finish is not None and sequence.finish.type == "abort"
        finished_s = sequence.finished_s or 0.0
        self.observe("e2e_request_latency_seconds", finished_s - sequence.arrival_s, streaming)
        self.observe("prompt_tokens_histogram", sequence.prompt.tokens)
        self.observe("uncached_prompt_tokens_histogram", sequence.prompt.tokens - sequence.cached_tokens)
        self.observe("generation_tokens_histogram", sequence.output_tokens)
        if sequence.admitted_s is not None:
            self.observe("queue_time_seconds", sequence.admitted_s - sequence.arrival_s)
        if sequence.first_token_s is not None:
            self.observe(
                "time_to_first_token_seconds", sequence.first_token_s - sequence.arrival_s, streaming
            )
            if sequence.output_tokens > 1:
                per_token_s = (finished_s - sequence.first_token_s) / (sequence.output_tokens - 1)
                self.observe("request_time_per_output_token_seconds", per_token_s, streaming)
                self.observe("inter_token_latency_seconds", per_token_s)

    def observe(self, name: str, value: float, streaming: bool = False) -> None:
        """One observation of a histogram."""
        self.observations[name, streaming].append(value)

    def _mamba_usage(self) -> float:
        return len(self._scheduler.running) / self._scheduler.limits.running
