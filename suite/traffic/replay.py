"""A trace as the load client plays it: prompts of the wanted lengths with the wanted beginnings in common, and when to send them."""

from __future__ import annotations

import random
from dataclasses import dataclass

from suite.load import Endpoint, LoadError, Prompt, Schedule, Workload, contexts
from suite.traffic.formats import BLOCK_TOKENS, Trace, TraceRequest

DEFAULT_OUTPUT = 256


@dataclass(frozen=True, slots=True)
class Replay:
    """What is played: the prompts, in the order of the trace, and the times at which they came.

    ``left_out``: requests that this server's context has no room for.
    """

    workload: Workload
    times_s: tuple[float, ...]
    left_out: int = 0

    @property
    def rate_per_s(self) -> float:
        """Requests a second at its own pace."""
        span = self.times_s[-1] - self.times_s[0]
        return (len(self.times_s) - 1) / span if span > 0 else float(len(self.times_s))

    def at(self, pace: float) -> Schedule:
        """The same, so many times as fast."""
        return Schedule(tuple(time_s / pace for time_s in self.times_s))


def workload_of(
    trace: Trace,
    endpoint: Endpoint,
    *,
    rate_per_s: float | None = None,
    output_tokens: int | None = None,
    context_length: int | None = None,
    seed: int = 0,
) -> Replay:
    """Prompts and times for ``endpoint``.

    Args:
        trace: what to play.
        endpoint: who counts tokens, where prompts are made to a length.
        rate_per_s: requests per second; needed where the trace has no times (they are then those of a Poisson process), and
            scales them where it has.
        output_tokens: length of every answer, in place of the trace's; where neither tells, 256.
        context_length: what a prompt and its answer must fit into; those that do not are left out.

    Raises:
        LoadError: no times and no rate, nothing fits, or the server counts no tokens.
    """
    if not trace.timed and rate_per_s is None:
        raise LoadError(f"{trace.name} ({trace.format}) does not say when requests arrived: give --rate")
    fitting = [r for r in trace.requests if _fits(r, output_tokens, context_length)]
    if not fitting:
        raise LoadError(
            f"no request of {trace.name} fits into this server's context of {context_length} tokens"
        )
    chars = contexts.chars_for(endpoint, context_length) if any(not r.messages for r in fitting) else None
    prompts = [
        Prompt(
            id=f"{trace.name}-{number}",
            kind=trace.name,
            messages=r.messages or _made(r, number, chars),
            max_tokens=_output(r, output_tokens),
        )
        for number, r in enumerate(fitting)
    ]
    workload = Workload(trace.name, tuple(prompts), requests=len(prompts), acceptance_meaningful=True)
    return Replay(workload, _times(fitting, rate_per_s, seed), len(trace.requests) - len(fitting))


def _output(request: TraceRequest, instead: int | None) -> int:
    return max(2, instead or request.output_tokens or DEFAULT_OUTPUT)


def _fits(request: TraceRequest, output: int | None, context_length: int | None) -> bool:
    if context_length is None or request.input_tokens is None:
        return True
    return request.input_tokens + _output(request, output) <= context_length


def _made(request: TraceRequest, number: int, chars: contexts.Chars | None) -> tuple[dict[str, str], ...]:
    """A conversation of as many tokens, which begins as those do that share its first blocks."""
    assert chars is not None
    wanted = chars(max(1, request.input_tokens or 1))
    block = chars.per_token * BLOCK_TOKENS
    if not request.blocks:
        text = contexts.text(wanted, number)
    else:
        shared = "".join(contexts.text(max(1, round(block)), _BLOCK_SEEDS + one) for one in request.blocks)
        text = (
            shared[:wanted] if len(shared) >= wanted else shared + contexts.text(wanted - len(shared), number)
        )
    return ({"role": "user", "content": text},)


_BLOCK_SEEDS = 10_000_000
"""From here on are the documents that blocks are made of, so that no request's own text is one of them."""


def _times(requests: list[TraceRequest], rate_per_s: float | None, seed: int) -> tuple[float, ...]:
    times = [r.at_s for r in requests if r.at_s is not None]
    if len(times) < len(requests):
        assert rate_per_s is not None
        chance, now, made = random.Random(seed), 0.0, []
        for _ in requests:
            made.append(now)
            now += chance.expovariate(rate_per_s)
        return tuple(made)
    scale = 1.0
    if rate_per_s is not None and times[-1] > times[0]:
        scale = (len(times) - 1) / (times[-1] - times[0]) / rate_per_s
    return tuple((time_s - times[0]) * scale for time_s in times)
