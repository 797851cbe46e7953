"""One cell of a tuning: an arm, a kind of content, a number of clients, one launch; every round asks all arms the same prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from suite import metrics
from suite.grid import kept
from suite.load import ClosedLoop, Endpoint, LoadError, Sampling, WarmUp, Workload, play, workloads

Place = tuple[str, str, int, int]


class TuningCell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was measured of one arm with one kind of content and one number of clients in one launch.

    tokens_per_s: of all clients together, one a round, ``None`` for a round in which a request failed; round number r has
    the same prompts in every arm; acceptance_length: over all rounds; note: why not to lean on it; sglang: the version that answered.
    """

    arm: str
    kind: str
    clients: int
    launch: int
    tokens_per_s: list[float | None]
    acceptance_length: float | None = None
    note: str = ""
    sglang: str = ""

    @property
    def place(self) -> Place:
        """By which it is known."""
        return self.arm, self.kind, self.clients, self.launch


class TuningPlan(msgspec.Struct, frozen=True):
    """What all cells have in common; a tuning is only gone on with if this is the same."""

    target: str
    max_tokens: int
    temperature: float
    rounds: int
    requests: int


class KeptTuning(kept.Kept[TuningCell]):
    """The cells in ``FOLDER/tune.jsonl``."""

    def __init__(self, folder: Path, asked: TuningPlan) -> None:
        super().__init__(folder / "tune.jsonl", asked, TuningCell, lambda cell: cell.place)

    def has(self, place: Place) -> bool:
        """Was this cell measured already? One without a single figure is measured again."""
        cell = self.cells.get(place)
        return cell is not None and any(value is not None for value in cell.tokens_per_s)


def prompts_of(kind: str, round_: int, requests: int) -> Workload:
    """The prompts of one round: others than those of the rounds before, as long as the kind has enough."""
    whole = workloads.load(kind)
    first = round_ * requests
    chosen = tuple(whole.prompts[(first + i) % len(whole.prompts)] for i in range(requests))
    return replace(whole, prompts=chosen, requests=requests)


def measure(endpoint: Endpoint, place: Place, asked: TuningPlan, sglang: str) -> TuningCell:
    """Play one cell; no prompt is in the server's prefix cache.

    Raises:
        LoadError: nothing could be played.
    """
    arm, kind, clients, launch = place
    requests = max(clients, asked.requests)
    played = [
        play(
            endpoint,
            prompts_of(kind, number, requests),
            ClosedLoop(clients, requests),
            sampling=Sampling(max_tokens=asked.max_tokens, temperature=asked.temperature, ignore_eos=True),
            timeout_s=3600.0,
            stall_s=300.0,
            warm_up=WarmUp(clients, until_steady=True, requests_max=4 * clients) if number == 0 else 0,
            unique_prefix=True,
        )
        for number in range(asked.rounds)
    ]
    specs = [record.spec for round_ in played for record in round_.ok if record.spec is not None]
    steps = sum(spec.verify_steps for spec in specs)
    reasons = {reason.name: reason.evidence for round_ in played for reason in metrics.validity(round_)}
    return TuningCell(
        arm=arm,
        kind=kind,
        clients=clients,
        launch=launch,
        tokens_per_s=[
            None if round_.faults else metrics.summarize(round_)["output_tokens_per_s"].value
            for round_ in played
        ],
        acceptance_length=1 + sum(spec.correct_drafts for spec in specs) / steps if steps else None,
        note="; ".join(f"{name}: {evidence}" for name, evidence in reasons.items()),
        sglang=sglang,
    )


def failed(place: Place, error: LoadError) -> TuningCell:
    """A cell that could not be played, with the reason in place of figures."""
    return TuningCell(*place, tokens_per_s=[], note=str(error))
