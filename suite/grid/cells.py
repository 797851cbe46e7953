"""One cell of a grid, how it is measured, and the file that keeps each as soon as it is there."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import msgspec

from suite import metrics
from suite.grid import kept
from suite.load import ClosedLoop, Endpoint, LoadError, Sampling, WarmUp, Workload, contexts, play, workloads

CONTENT = "code+prose"
"""What is asked where no context is: natural prompts of some hundred tokens, two kinds in turn."""


class Cell(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was measured of one arm at one context with one number of clients.

    tokens_per_s: of all clients together; tokens_per_s_user: of one stream while it runs (1 / TPOT); ttft_s: median;
    acceptance_length: ``None`` where the server does not speculate or does not tell; cached: share of prompt tokens that came
    from the prefix cache; failed: requests that did not end well; note: why not to lean on it; sglang: the version that answered.
    """

    arm: str
    context: int
    clients: int
    requests: int
    tokens_per_s: float | None
    tokens_per_s_user: float | None
    ttft_s: float | None
    acceptance_length: float | None = None
    cached: float = 0.0
    failed: int = 0
    note: str = ""
    sglang: str = ""

    @property
    def place(self) -> tuple[str, int, int]:
        """By which it is known in a grid."""
        return self.arm, self.context, self.clients


class GridPlan(msgspec.Struct, frozen=True):
    """What all cells of a grid have in common; a grid is only gone on with if this is the same."""

    target: str
    max_tokens: int
    temperature: float
    rounds: int


def workload_of(endpoint: Endpoint, context: int, prompts: int) -> Workload:
    """Prompts of ``context`` tokens each as the server counts them; natural ones for 0.

    Raises:
        LoadError: the context does not fit, or the server counts no tokens.
    """
    if context == 0:
        return workloads.load(CONTENT)
    return contexts.of_tokens(endpoint, context, prompts=prompts)


def measure(
    endpoint: Endpoint,
    arm: str,
    context: int,
    workload: Workload,
    clients: int,
    asked: GridPlan,
    sglang: str = "",
) -> Cell:
    """Play one cell: every prompt is new to the server, so that no prefix cache flatters TTFT.

    Raises:
        LoadError: nothing could be played.
    """
    requests = clients * asked.rounds
    result = play(
        endpoint,
        workload,
        ClosedLoop(clients, requests),
        sampling=Sampling(max_tokens=asked.max_tokens, temperature=asked.temperature, ignore_eos=True),
        timeout_s=3600.0,
        stall_s=300.0,
        warm_up=WarmUp(min(clients, 4)),
        unique_prefix=True,
        workers="auto",
    )
    values = metrics.summarize(result)
    cached = values["cached_prompt_tokens"].value or 0.0
    prompt_tokens = sum(record.prompt_tokens or 0 for record in result.ok)
    tpot = values["tpot_s"].value
    return Cell(
        arm=arm,
        context=context,
        clients=clients,
        requests=requests,
        tokens_per_s=values["output_tokens_per_s"].value,
        tokens_per_s_user=1 / tpot if tpot else None,
        ttft_s=values["ttft_s"].value,
        acceptance_length=values["acceptance_length"].value,
        cached=cached / prompt_tokens if prompt_tokens else 0.0,
        failed=len(result.requests) - len(result.ok),
        note="; ".join(f"{reason.name}: {reason.evidence}" for reason in metrics.validity(result)),
        sglang=sglang,
    )


def failed(arm: str, context: int, clients: int, error: LoadError) -> Cell:
    """A cell that could not be played, with the reason in place of figures."""
    return Cell(arm, context, clients, 0, None, None, None, note=str(error))


class KeptGrid(kept.Kept[Cell]):
    """The cells of a grid in ``FOLDER/grid.jsonl``."""

    def __init__(self, folder: Path, asked: GridPlan) -> None:
        super().__init__(folder / "grid.jsonl", asked, Cell, lambda cell: cell.place)
        self.asked_in_words = f"answers of {asked.max_tokens} tokens, temperature {asked.temperature:g}"

    def has(self, arm: str, context: int, clients: int) -> bool:
        """Was this cell measured already? One that failed is measured again."""
        cell = self.cells.get((arm, context, clients))
        return cell is not None and cell.tokens_per_s is not None


def speedup(cells: Mapping[tuple[str, int, int], Cell], cell: Cell, off: str) -> float | None:
    """Tokens/s of all clients over those of the arm ``off`` at the same place; ``None`` for that arm itself."""
    beside = cells.get((off, cell.context, cell.clients))
    if cell.arm == off or beside is None or not beside.tokens_per_s or cell.tokens_per_s is None:
        return None
    ratio = cell.tokens_per_s / beside.tokens_per_s
    return ratio if math.isfinite(ratio) else None
