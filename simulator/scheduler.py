"""Continuous batching in virtual time: what each step does, when it ends, and which tokens it brings."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from simulator.acceptance import context_factor
from simulator.hardware import Hardware
from simulator.noise import Noise
from simulator.prefix_cache import PrefixCache
from simulator.sequences import Finish, Sequence

RESERVED_SHARE = 0.7
RESERVED_MOST = 4096


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a batch: SGLang's max_running_requests, KV pool, chunked_prefill_size, max_prefill_tokens."""

    running: int
    kv_tokens: int
    chunk_tokens: int
    prefill_tokens: int = 16384


@dataclass(frozen=True, slots=True)
class Output:
    """A step's result for one sequence: it has `tokens` output tokens now, and has finished or not."""

    sequence: Sequence
    tokens: int
    finish: Finish | None


@dataclass(slots=True)
class Step:
    """One forward step, with what the log and the metrics tell about it."""

    kind: Literal["prefill", "decode", "none"]
    start_s: float
    end_s: float
    outputs: list[Output] = field(default_factory=list)
    batch: int = 0
    new_tokens: int = 0
    """Prompt tokens computed (prefill) or output tokens made (decode)."""
    cached_tokens: int = 0
    context_tokens: int = 0
    """That the sequences of a decode step held in sum."""
    drafts_proposed: int = 0
    drafts_correct: int = 0


class Scheduler:
    """Waiting and running sequences on one modelled GPU.

    Time is the caller's: `submit` says when a sequence arrived, `step` performs the next step and says when it
    ends. The next step starts at that very time however late the caller comes back, so lateness never adds up.
    """

    def __init__(
        self, hardware: Hardware, limits: Limits, noise: Noise, cache: PrefixCache, start_s: float = 0.0
    ) -> None:
        self.hardware = hardware
        self.limits = limits
        self.cache = cache
        self.now_s = start_s
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.retractions = 0
        self.leaked_tokens = 0
        self.leaked_sequences = 0
        self.decode_steps = 0
        self._noise = noise
        self._prefilling: Sequence | None = None
        self._started_s = start_s

    @property
    def busy(self) -> bool:
        """Is there anything to do?"""
        return bool(self.waiting or self.running or self._prefilling)

    @property
    def used_tokens(self) -> int:
        """KV tokens that cannot be given up: those of unfinished sequences."""
        return self._private_tokens + self.cache.pinned_tokens

    @property
    def usage(self) -> float:
        """The share of the KV pool that cannot be given up (SGLang's token usage: idle cached prefixes do not count)."""
        return min(1.0, self.used_tokens / self.limits.kv_tokens)

    @property
    def evictable_tokens(self) -> int:
        """KV tokens of cached prefixes that no unfinished sequence needs."""
        return max(0, self.cache.tokens - self.cache.pinned_tokens)

    @property
    def _private_tokens(self) -> int:
        private = sum(sequence.private_tokens for sequence in self.running) + self.leaked_tokens
        return private + (self._prefilling.private_tokens if self._prefilling else 0)

    def submit(self, sequence: Sequence, at_s: float) -> None:
        """A sequence arrives."""
        sequence.arrival_s = at_s
        self.waiting.append(sequence)

    def step(self) -> Step:
        """Perform the next step: prefill before decode, as SGLang does."""
        outputs = self._drop_aborted()
        if self.waiting and not self.running and not self._prefilling:
            self.now_s = max(self.now_s, self.waiting[0].arrival_s)
        step = self._prefill() or self._decode() or Step("none", self.now_s, self.now_s)
        step.outputs[:0] = outputs
        self.now_s = step.end_s
        return step

    def _drop_aborted(self) -> list[Output]:
        dropped = [s for s in (*self.waiting, *self.running, self._prefilling) if s is not None and s.aborted]
        for sequence in dropped:
            if sequence in self.waiting:
                self.waiting.remove(sequence)
                continue
            if sequence is self._prefilling:
                self._prefilling = None
            else:
                self.running.remove(sequence)
            self._release(sequence)
        return [Output(s, s.output_tokens, s.end(Finish("abort"), self.now_s)) for s in dropped]

    # prefill

    def _prefill(self) -> Step | None:
        budget = self.limits.chunk_tokens if self.limits.chunk_tokens > 0 else self.limits.prefill_tokens
        step = Step("prefill", self.now_s, self.now_s)
        context, done = 0, []
        while budget > 0:
            sequence = self._prefilling or self._admit(step)
            if sequence is None:
                break
            self._prefilling = None
            tokens = min(budget, sequence.to_prefill)
            sequence.prefilled += tokens
            budget -= tokens
            step.new_tokens += tokens
            step.batch += 1
            context = max(context, sequence.prefilled)
            if sequence.to_prefill:
                self._prefilling = sequence
                break
            done.append(sequence)
            self.running.append(sequence)
        if not step.batch:
            return None
        seconds = self.hardware.prefill_s(
            step.new_tokens, context, self.decode_steps, self.now_s - self._started_s
        )
        step.end_s = self.now_s + self._noise.stretch(seconds)
        for sequence in done:
            self.cache.insert(sequence.prompt.blocks)
            self._give(sequence, 1, step)
        self.cache.trim(max(0, self.limits.kv_tokens - self._private_tokens))
        return step

    def _admit(self, step: Step) -> Sequence | None:
        """The next waiting sequence, if the batch and the KV pool have room for it."""
        if not self.waiting or len(self.running) >= self.limits.running:
            return None
        sequence = self.waiting[0]
        if sequence.arrival_s > self.now_s:
            return None
        expected = min(sequence.limit - sequence.output_tokens, RESERVED_MOST) * RESERVED_SHARE
        reused = self._reused(sequence)
        wanted = sequence.prompt.tokens - reused + sequence.output_tokens + expected
        if self.running and self.used_tokens + wanted > self.limits.kv_tokens:
            return None
        self.waiting.popleft()
        if sequence.admitted_s is None:
            sequence.admitted_s = self.now_s
        sequence.cached_tokens = sequence.prefilled = reused
        sequence.pinned_blocks = self.cache.pin(sequence.prompt.blocks)
        step.cached_tokens += sequence.cached_tokens
        return sequence

    def _reused(self, sequence: Sequence) -> int:
        if self.hardware.speculation and not self.hardware.behaviour.reuse_while_speculating:
            return 0
        return self.cache.match(sequence.prompt.blocks, sequence.prompt.tokens)

    # decode

    def _decode(self) -> Step | None:
        self._retract()
        if not self.running:
            return None
        batch = list(self.running)
        context = sum(sequence.held_tokens for sequence in batch)
        uptime_s = self.now_s - self._started_s
        seconds = self.hardware.decode_s(len(batch), context, self.decode_steps, uptime_s)
        step = Step("decode", self.now_s, self.now_s + self._noise.stretch(seconds), batch=len(batch))
        step.context_tokens = context
        kept = self.hardware.left_after(uptime_s) * self._kept_under_load(len(batch), uptime_s)
        speculation = self.hardware.speculation
        for sequence in batch:
            correct = 0
            if speculation is not None:
                factor = kept * context_factor(sequence.held_tokens)
                correct = sequence.drafts.accepted(sequence.verifications, sequence.output_tokens, factor)
                sequence.count_verification(correct)
                step.drafts_proposed += speculation.steps
                step.drafts_correct += correct
            self._give(sequence, correct + 1, step)
        self.decode_steps += 1
        self.cache.trim(max(0, self.limits.kv_tokens - self._private_tokens))
        return step

    def _kept_under_load(self, batch: int, uptime_s: float) -> float:
        """What is left of the drafts' chances in a batch of this size now; 1.0 for a healthy server, always."""
        odd = self.hardware.behaviour
        loss, loaded = odd.loaded_loss
        dead_s, period_s, in_batch = odd.episodes
        if self.usage > odd.collapse_above or (batch >= in_batch and uptime_s % period_s < dead_s):
            return 0.0
        return 1.0 - loss if batch >= loaded else 1.0

    def _retract(self) -> None:
        """Send the newest sequences back to wait while the KV pool cannot hold the next step."""
        most = self.hardware.speculation.draft_tokens if self.hardware.speculation else 1
        while len(self.running) > 1 and self.used_tokens + most * len(self.running) > self.limits.kv_tokens:
            sequence = self.running.pop()
            self._release(sequence)
            sequence.retract()
            self.retractions += 1
            self.waiting.appendleft(sequence)

    def _give(self, sequence: Sequence, tokens: int, step: Step) -> None:
        """Add output tokens to a sequence, up to where it ends."""
        before = sequence.output_tokens
        finish = sequence.grow(tokens, step.end_s)
        if step.kind == "decode":
            step.new_tokens += sequence.output_tokens - before
        if finish is not None:
            self.running.remove(sequence)
            self._release(sequence)
            self.cache.insert(sequence.all_blocks())
            if self.hardware.behaviour.leak_tokens:
                self.leaked_tokens += self.hardware.behaviour.leak_tokens
                self.leaked_sequences += 1
        step.outputs.append(Output(sequence, sequence.output_tokens, finish))

    def _release(self, sequence: Sequence) -> None:
        self.cache.unpin(sequence.prompt.blocks)
        sequence.pinned_blocks = 0
