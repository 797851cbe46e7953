"""One workload with everything that makes its rounds comparable with others: what a call of ``measure`` asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.config import Sizes
from suite.load import ClosedLoop, LoadShape, Sampling, Workload, contexts, workloads
from suite.session.traffic import Traffic
from suite.terminal.figures import times

WARM_UP_CLIENTS = 4
"""Before traffic is replayed, some of its requests are played by so many."""
PREFIX_CHARS_PER_TOKEN = 4
"""About what English text takes; a shared prefix need not have an exact length."""


@dataclass(frozen=True, slots=True)
class PlannedWorkload:
    """A workload, how it is played, and for how many rounds. ``cold``: all prompts are new to the server."""

    workload: Workload
    sampling: Sampling
    concurrency: int
    rounds: int
    prompt_tokens: int | None = None
    cold: bool = True
    counts_only: bool = False
    """Only counts will be looked at: no warm-up, texts are kept as hashes, and what spoils times spoils nothing."""
    traffic: Traffic | None = None
    """Sent when it came and not when clients are free; ``concurrency`` is then that of the warm-up only."""

    @property
    def shape(self) -> LoadShape:
        """When requests are sent."""
        return self.traffic.schedule if self.traffic else ClosedLoop(self.concurrency, self.workload.requests)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal. A prompt fitted to a number of tokens goes by that number: its text may differ."""
        return {
            "workload": self.workload.name,
            "workload_hash": None if self.prompt_tokens else self.workload.content_hash,
            "concurrency": None if self.traffic else self.concurrency,
            "requests": self.workload.requests,
            "max_tokens": self.sampling.max_tokens,
            "temperature": self.sampling.temperature,
            **(self.traffic.identity if self.traffic else {}),
        }

    @property
    def label(self) -> str:
        """For a line of progress."""
        heat = f", temperature {self.sampling.temperature:g}" if self.sampling.temperature else ""
        many = f", {self.workload.requests} prompts once" if self.counts_only else ""
        whose = f"{self.traffic.schedule}" if self.traffic else _clients(self.concurrency)
        return f"{self.workload.name}, {whose}{many}{heat}"

    @property
    def load(self) -> str:
        """By what the time of a round goes: the same in every run that asks for as much."""
        shared = "" if self.cold else ", shared prefix"
        return f"{self.label}{shared}, {self.workload.requests} answers of {self.sampling.max_tokens} tokens"

    @property
    def key(self) -> str:
        """By which a launch knows it again: all that makes its rounds what they are."""
        return f"{self.load}, {self.rounds} rounds, {self.workload.content_hash[:8]}"


def load_of(key: str) -> str:
    """The :attr:`PlannedWorkload.load` within an :attr:`PlannedWorkload.key`."""
    return key.rsplit(", ", 2)[0]


def asked_for(
    sizes: Sizes,
    workload: str | Workload,
    *,
    concurrency: int = 1,
    context: int | None = None,
    shared_prefix: int | None = None,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    requests: int | None = None,
    rounds: int | None = None,
) -> PlannedWorkload:
    """What a call of ``measure`` with these arguments asks for; what is left out is the budget's."""
    chosen, length = loaded(workload), max_tokens or sizes.max_tokens
    prefix = contexts.text(shared_prefix * PREFIX_CHARS_PER_TOKEN, 0) if shared_prefix else None
    return PlannedWorkload(
        workload=chosen.sized(
            max_tokens=length,
            requests=max(requests or sizes.requests, concurrency),
            prompt_chars_max=chosen.prompt_chars_max or (None if context else sizes.prompt_chars),
            shared_prefix=f"{prefix}\n\n" if prefix else None,
        ),
        sampling=Sampling(max_tokens=length, temperature=temperature, ignore_eos=True),
        concurrency=concurrency,
        rounds=rounds or sizes.rounds,
        prompt_tokens=context,
        cold=not shared_prefix,
    )


def asked_of_each(
    sizes: Sizes,
    workload: str | Workload,
    *,
    context: int | None = None,
    temperature: float = 0.0,
    at_once: int | None = None,
) -> PlannedWorkload:
    """What ``measure.each_prompt`` asks for; ``at_once``: how many requests the server runs at a time."""
    chosen = loaded(workload)
    prompts = min(sizes.prompts_of(context), len(chosen.prompts))
    return PlannedWorkload(
        workload=chosen.sized(
            max_tokens=sizes.max_tokens,
            requests=prompts,
            prompt_chars_max=chosen.prompt_chars_max or (None if context else sizes.prompt_chars),
        ),
        sampling=Sampling(max_tokens=sizes.max_tokens, temperature=temperature, ignore_eos=True),
        concurrency=min(prompts, sizes.acceptance_clients, at_once or prompts),
        rounds=1,
        prompt_tokens=context,
        counts_only=True,
    )


def asked_for_traffic(sizes: Sizes, traffic: Traffic) -> PlannedWorkload:
    """What ``measure.traffic`` asks for."""
    return PlannedWorkload(
        workload=traffic.replay.workload,
        sampling=Sampling(temperature=0.0, ignore_eos=True),
        concurrency=WARM_UP_CLIENTS,
        rounds=sizes.rounds,
        cold=False,
        traffic=traffic,
    )


def loaded(workload: str | Workload) -> Workload:
    """A workload that is named, or the one that is already made."""
    return workload if isinstance(workload, Workload) else workloads.load(workload)


def _clients(concurrency: int) -> str:
    return times(concurrency, "client", "clients")
