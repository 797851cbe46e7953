"""How long one step of the modelled GPU lasts: pure functions of the batch, the context and the profile."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from simulator.behaviour import Behaviour
from simulator.profiles import Profile

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True)
class Speculation:
    """How a server speculates: a chain of `steps` drafts, verified with one more token."""

    steps: int

    @property
    def draft_tokens(self) -> int:
        """Tokens verified for each sequence in one step (SGLang's speculative_num_draft_tokens)."""
        return self.steps + 1


@dataclass(frozen=True, slots=True)
class Shares:
    """What a decode step is made of, in seconds: the target's pass, all drafts of the chain, and a GPU that waits."""

    forward_s: float
    drafts_s: float = 0.0
    idle_s: float = 0.0

    @property
    def whole_s(self) -> float:
        return self.forward_s + self.drafts_s + self.idle_s


@dataclass(frozen=True, slots=True)
class Hardware:
    """The modelled GPU under one server: step times in seconds, without noise."""

    profile: Profile
    speculation: Speculation | None = None
    behaviour: Behaviour = field(default_factory=Behaviour)
    kernels: float = 1.0
    """The pace of the chosen kernel backends."""

    def decode_s(
        self, batch: int, context_tokens: int, steps_done: int = 10**9, uptime_s: float = 0.0
    ) -> float:
        """One decode step for `batch` sequences that hold `context_tokens` in sum.

        Plain: one forward pass over `batch` tokens. Speculating: as many draft steps as the chain is deep, then
        one pass that verifies `draft_tokens` tokens a sequence, which is why speculation loses at large batches.
        """
        odd = self.behaviour
        seconds = self.shares(batch, context_tokens).whole_s
        slower, from_batch = odd.slow_batch
        if batch >= from_batch:
            seconds /= 1.0 - slower
        seconds /= (1.0 - odd.slow_decode) * self.kernels
        return seconds * self._warmup(steps_done) / self.pace(uptime_s)

    def shares(self, batch: int, context_tokens: int) -> Shares:
        """What such a step is made of, before anything slows all of it alike."""
        profile, odd = self.profile, self.behaviour
        tokens = batch * (1 if self.speculation is None else self.speculation.draft_tokens)
        forward_s = profile.step_base_s + tokens * profile.step_per_token_s
        forward_s += context_tokens * profile.context_per_token_s
        drafts_s = 0.0
        if self.speculation is not None:
            draft_s = profile.draft_base_s + batch * profile.draft_per_sequence_s
            drafts_s = self.speculation.steps * draft_s * odd.draft_cost
        return Shares(forward_s, drafts_s, 0.0 if odd.cuda_graph else profile.eager_step_s)

    def prefill_s(
        self, new_tokens: int, context_tokens: int, steps_done: int = 10**9, uptime_s: float = 0.0
    ) -> float:
        """One prefill pass over `new_tokens`, which attend to `context_tokens` (their own included)."""
        profile, odd = self.profile, self.behaviour
        seconds = profile.prefill_base_s + new_tokens * profile.prefill_per_token_s
        seconds += new_tokens * context_tokens * profile.prefill_attention_per_token_pair_s
        if self.speculation is not None:
            seconds *= 1.0 + profile.draft_prefill_share
        seconds /= 1.0 - odd.slow_prefill
        return seconds * self._warmup(steps_done) / self.pace(uptime_s)

    def pace(self, uptime_s: float) -> float:
        """The share of its full speed that the machine has after `uptime_s`: 1.0 unless throttled or decaying."""
        pace = self.left_after(uptime_s)
        if uptime_s >= self.behaviour.throttle_after_s:
            pace *= 1.0 - self.behaviour.throttle
        return pace

    def left_after(self, uptime_s: float) -> float:
        """What decay has left of speed and acceptance after `uptime_s`, never less than a tenth."""
        return max(0.1, 1.0 - self.behaviour.decay_per_minute * uptime_s / _MINUTE_S)

    def _warmup(self, steps_done: int) -> float:
        slowdown = self.profile.warmup_slowdown * self.behaviour.warmup
        fading = self.profile.warmup_steps * self.behaviour.warmup_length
        return 1.0 + slowdown * math.exp(-steps_done / fading)
