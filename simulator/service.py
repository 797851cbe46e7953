"""One running server: its settings, its engine, and the sequences that requests become."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import uuid
import zlib
from dataclasses import dataclass
from random import Random

from simulator import backends, gpu_state, logs
from simulator.acceptance import (
    Agreement,
    Difficulty,
    ForcedAgreement,
    factor_for_loss,
    temperature_factor,
)
from simulator.answers import Answer
from simulator.arguments import Arguments
from simulator.behaviour import Behaviour
from simulator.checkpoint import Checkpoint
from simulator.engine import Engine
from simulator.hardware import Hardware
from simulator.noise import Noise
from simulator.prefix_cache import PrefixCache
from simulator.profiles import Profile
from simulator.profiling import Profiler
from simulator.prompts import Prompt
from simulator.request_fields import RequestError, Sampling
from simulator.resolution import Resolved
from simulator.scheduler import Output, Scheduler, Step
from simulator.sequences import Drafts, Sequence
from simulator.telemetry import Telemetry


@dataclass(slots=True)
class Generation:
    """One request under way: its sequences and the queue that brings their outputs."""

    request_id: str
    sequences: list[Sequence]
    outputs: asyncio.Queue[Output]
    received_s: float


class Service:
    """Everything that the endpoints share. Made before the event loop runs; `start` needs a running one."""

    def __init__(
        self,
        arguments: Arguments,
        checkpoint: Checkpoint,
        profile: Profile,
        resolved: Resolved,
        odd: Behaviour,
        start_s: float,
    ) -> None:
        own = arguments.own
        self.arguments = arguments
        self.checkpoint = checkpoint
        self.profile = profile
        self.resolved = resolved
        self.behaviour = odd
        self.start_s = start_s
        self.gpu_state_file = own.gpu_state or os.environ.get(gpu_state.VARIABLE)
        self.ready = False
        self.started_s = time.monotonic()
        self.wall_offset_s = time.time() - time.monotonic()
        noise = Noise(
            own.seed,
            profile.round_noise_cv if own.noise is None else own.noise,
            profile.launch_effect_cv if own.launch_effect is None else own.launch_effect,
            own.session_effect,
        )
        kernels = backends.pace(resolved.settings) if resolved.settings["device"] == "cuda" else 1.0
        self.hardware = Hardware(profile, resolved.speculation, odd, kernels)
        cache = PrefixCache(enabled=not resolved.settings["disable_radix_cache"])
        self.scheduler = Scheduler(self.hardware, resolved.limits, noise, cache, self.started_s)
        self.telemetry = Telemetry(self.scheduler, resolved, odd)
        self.profiler = Profiler(self.hardware)
        self.engine = Engine(self.scheduler, self._on_step)
        self._random = Random(own.seed)
        self._requests = 0
        self._running: asyncio.Task[None] | None = None

    def _on_step(self, step: Step) -> None:
        self.telemetry.on_step(step)
        self.profiler.on_step(step)

    def start(self) -> None:
        """Begin to step, and answer health checks with 200."""
        self._running = asyncio.get_running_loop().create_task(self.engine.run())
        self._running.add_done_callback(_crash_loudly)
        self.ready = True

    def stop(self) -> None:
        """Step no more."""
        if self._running is not None:
            self._running.remove_done_callback(_crash_loudly)
            self._running.cancel()

    def wall_s(self, monotonic_s: float) -> float:
        """A moment of the monotonic clock as seconds since 1970."""
        return monotonic_s + self.wall_offset_s

    def thinks(self, template_kwargs: dict[str, object]) -> bool | None:
        """Does the model think before answering this chat? None if it is not a thinking model."""
        if not self.checkpoint.thinks:
            return None
        return bool(template_kwargs.get("enable_thinking", True))

    def generate(
        self,
        prompts: list[Prompt],
        sampling: Sampling,
        *,
        thinking: bool = False,
        streaming: bool = False,
        request_id: str | None = None,
    ) -> Generation:
        """Put a request's sequences, n for each prompt, into the batch.

        Raises RequestError if one does not fit the context: then none is put in.
        """
        received_s = time.monotonic()
        limits = [self._limit(prompt, sampling) for prompt in prompts]
        self._requests += 1
        self._disturb_if_due()
        self._end_if_due()
        request_id = request_id or uuid.uuid4().hex
        sequences = [
            self._sequence(
                request_id, place * sampling.n + choice, prompt, sampling, limit, thinking, streaming
            )
            for place, (prompt, limit) in enumerate(zip(prompts, limits, strict=True))
            for choice in range(sampling.n)
        ]
        return Generation(request_id, sequences, self.engine.submit(sequences), received_s)

    def _limit(self, prompt: Prompt, sampling: Sampling) -> int:
        context = min(self.resolved.context_length, self.resolved.limits.kv_tokens)
        if prompt.tokens == 0:
            raise RequestError("The input is empty.")
        if prompt.tokens >= context:
            raise RequestError(
                f"The input ({prompt.tokens} tokens) is longer than the model's context length ({context} tokens)."
            )
        if sampling.max_tokens is None:
            return context - prompt.tokens
        total = prompt.tokens + sampling.max_tokens
        if total > context:
            raise RequestError(
                "Requested token count exceeds the model's maximum context length "
                f"of {context} tokens. You requested a total of {total} "
                f"tokens: {prompt.tokens} tokens from the input messages and "
                f"{sampling.max_tokens} tokens for the completion. Please reduce the number "
                "of tokens in the input messages or the completion to fit within the limit."
            )
        return sampling.max_tokens

    def _sequence(
        self,
        request_id: str,
        index: int,
        prompt: Prompt,
        sampling: Sampling,
        limit: int,
        thinking: bool,
        streaming: bool,
    ) -> Sequence:
        odd = self.behaviour
        speculating = self.resolved.speculation is not None
        too_short = speculating and prompt.tokens < odd.short_garbage
        answer = Answer(
            prompt,
            seed=0 if sampling.temperature == 0 else self._draw(sampling, index),
            thinking=thinking,
            schema=sampling.schema,
            eos_token_id=self.checkpoint.eos_token_id,
            garbage=odd.garbage == "all" or (odd.garbage == "mtp" and speculating) or too_short,
            build=odd.rounding,
        )
        if odd.early_stop:
            answer.cut(int(odd.early_stop * limit))
        steps = self.resolved.speculation.steps if self.resolved.speculation else 0
        plain = self._requests % odd.plain_every == 0
        hopeless = plain or too_short
        return Sequence(
            request_id=request_id,
            index=index,
            prompt=prompt,
            answer=answer,
            drafts=ForcedAgreement(0, 1.0, steps) if hopeless else self._drafts(answer, sampling, steps),
            limit=limit,
            ignore_eos=sampling.ignore_eos and not odd.early_stop,
            min_tokens=sampling.min_tokens,
            stop=sampling.stop,
            stop_token_ids=sampling.stop_token_ids,
            streaming=streaming,
            abort_at=max(1, limit // 2) if self._requests % odd.abort_every == 0 else None,
            reports=not plain,
            histogram=[0] * (steps + 1) if steps else [],
        )

    def _draw(self, sampling: Sampling, index: int) -> int:
        """A seed for a sampled answer: the request's own, or another each time."""
        if sampling.seed is not None:
            return zlib.crc32(f"{sampling.seed}/{index}/{sampling.temperature}".encode())
        return self._random.getrandbits(32)

    def _drafts(self, answer: Answer, sampling: Sampling, steps: int) -> Drafts:
        if self.resolved.forced_acceptance is not None:
            return ForcedAgreement(answer.seed, self.resolved.forced_acceptance, steps)
        odd = self.behaviour
        factor = temperature_factor(sampling.temperature)
        if odd.acceptance_loss:
            factor *= factor_for_loss(answer.kind, steps, odd.acceptance_loss)
        own_draft = self.resolved.settings["speculative_draft_model_path"] is None
        if odd.draft_dead or (own_draft and not self.checkpoint.mtp_tensors):
            factor = 0.0
        natural_end = None if factor == 0.0 else 0 if odd.garbage else answer.natural_end
        difficulty = Difficulty(answer.theme, answer.seed, answer.parts_at, answer.build)
        return Agreement(difficulty, answer.kind, steps, factor, natural_end)

    def _disturb_if_due(self) -> None:
        """Faults of the machine beside the server, which goes on."""
        odd = self.behaviour
        if self._requests == odd.company_after + 1:
            other = {"pid": 4_194_000, "name": "/usr/bin/blender"}
            gpu_state.change(self.gpu_state_file, company=[other])
        if self._requests == odd.xid_after + 1:
            process = f"pid={os.getpid()}, name=sglang::schedul"
            said = f"NVRM: Xid (PCI:0000:43:00): {odd.xid}, {process}, modelled by the simulator"
            gpu_state.kernel_says(self.gpu_state_file, said)

    def _end_if_due(self) -> None:
        """Faults that end the server: as SGLang does it, the parent kills itself when a child has died."""
        if self._requests > self.behaviour.gpu_lost_after:
            logs.gpu_lost()
            gpu_state.write(self.gpu_state_file, gpu_state.healthy(1, 0.0, 0.0) | {"lost": True})
        elif self._requests > self.behaviour.crash_after:
            logs.scheduler_crash()
        else:
            return
        os.kill(os.getpid(), signal.SIGKILL)


def _crash_loudly(task: asyncio.Task[None]) -> None:
    """A fault of the simulator itself must never look like a quiet server."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logs.write(f"simulator error: {error!r}")
        os.kill(os.getpid(), signal.SIGKILL)
