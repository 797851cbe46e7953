"""The simulator's scheduler in virtual time: no process, no clock, no sleeping."""

from __future__ import annotations

from dataclasses import dataclass, field

from simulator import profiles, prompts
from simulator.acceptance import Agreement, Difficulty
from simulator.answers import Answer
from simulator.behaviour import Behaviour
from simulator.hardware import Hardware, Speculation
from simulator.noise import Noise
from simulator.prefix_cache import PrefixCache
from simulator.scheduler import Limits, Scheduler, Step
from simulator.sequences import Sequence

CODE = "Write a python function that merges overlapping intervals, with unit tests."


@dataclass
class Run:
    """What a workload came to: every step, and every sequence's (time, tokens) as its outputs arrived."""

    steps: list[Step] = field(default_factory=list)
    timelines: dict[Sequence, list[tuple[float, int]]] = field(default_factory=dict)

    @property
    def decode_tokens_per_s(self) -> float:
        """Output tokens after each sequence's first, over the time from the first to the last of them."""
        starts = min(line[0][0] for line in self.timelines.values())
        ends = max(line[-1][0] for line in self.timelines.values())
        return sum(line[-1][1] - 1 for line in self.timelines.values()) / (ends - starts)

    @property
    def acceptance_length(self) -> float:
        """1 + correct drafts / verify steps, over all sequences."""
        verified = sum(sequence.verifications for sequence in self.timelines)
        return 1 + sum(sequence.drafts_correct for sequence in self.timelines) / verified


def machine(
    *,
    profile: str = "quick",
    steps: int | None = None,
    odd: Behaviour | None = None,
    limits: Limits | None = None,
    noise: float = 0.0,
    seed: int = 1,
    radix: bool = True,
    warm: bool = True,
) -> Scheduler:
    """A scheduler on a modelled machine; `steps` drafts per step, None without speculation."""
    speculation = Speculation(steps) if steps is not None else None
    hardware = Hardware(profiles.load(profile), speculation, odd or Behaviour())
    limits = limits or Limits(running=64, kv_tokens=200_000, chunk_tokens=8192)
    scheduler = Scheduler(hardware, limits, Noise(seed, noise, 0.0), PrefixCache(radix))
    scheduler.decode_steps = 10**6 if warm else 0
    return scheduler


def sequence(
    scheduler: Scheduler,
    text: str = CODE,
    tokens: int = 256,
    index: int = 0,
    *,
    ignore_eos: bool = True,
    factor: float = 1.0,
) -> Sequence:
    """A request of its own for the scheduler."""
    prompt = prompts.from_text(text)
    answer = Answer(prompt)
    steps = scheduler.hardware.speculation.steps if scheduler.hardware.speculation else 0
    drafts = Agreement(Difficulty(answer.theme, answer.seed), answer.kind, steps, factor, answer.natural_end)
    histogram = [0] * (steps + 1) if steps else []
    return Sequence(
        f"r{index}", 0, prompt, answer, drafts, tokens, ignore_eos=ignore_eos, histogram=histogram
    )


def play(scheduler: Scheduler, arrivals: list[tuple[float, Sequence]], most_steps: int = 100_000) -> Run:
    """Submit sequences at their times and step until all have finished."""
    run = Run(timelines={one: [] for _, one in arrivals})
    for at_s, one in arrivals:
        scheduler.submit(one, at_s)
    while scheduler.busy:
        step = scheduler.step()
        run.steps.append(step)
        for output in step.outputs:
            run.timelines[output.sequence].append((step.end_s, output.tokens))
        assert len(run.steps) < most_steps, "the scheduler does not come to an end"
    return run


def together(scheduler: Scheduler, clients: int, tokens: int = 256, text: str = CODE) -> Run:
    """So many different requests at once."""
    return play(scheduler, [(0.0, sequence(scheduler, f"{text} #{n}", tokens, n)) for n in range(clients)])
