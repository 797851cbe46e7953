"""The owner's traffic in a run: played at its pace each round, then faster, until the limits are no longer kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from suite import config, metrics
from suite.load import Endpoint, LoadShape, Round
from suite.traffic import Limits, PaceResult, Replay, highest, kept_share, read, workload_of

HIGHEST = "highest_rate_per_s"
GOODPUT = "goodput_requests_per_s"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What is replayed, and what its requests must keep."""

    replay: Replay
    limits: Limits
    pace: float = 1.0

    @property
    def schedule(self) -> LoadShape:
        """When its requests are sent at its own pace."""
        return self.replay.at(self.pace)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal beside the prompts."""
        return {"traffic": f"{self.schedule}; {self.limits}"}

    def values(self, first: Round, play: Callable[[LoadShape], Round]) -> Mapping[str, metrics.Value]:
        """The figures of one round: goodput at its own pace, and the highest rate that keeps the limits.

        ``play`` sends the same requests in another shape.
        """

        def step(pace: float) -> PaceResult:
            return self._step(play(self.replay.at(self.pace * pace)), pace)

        goodput = metrics.summarize(first, slo=self.limits.slo)[GOODPUT]
        return {GOODPUT: goodput, HIGHEST: highest(self._step(first, 1.0), step, self.limits.share)}

    def _step(self, round_: Round, pace: float) -> PaceResult:
        return PaceResult(self.replay.rate_per_s * self.pace * pace, kept_share(round_, self.limits))


def traffic_of(
    table: config.TrafficTable, directory: Path, endpoint: Endpoint, context_length: int | None
) -> Traffic:
    """What a table ``[targets.NAME.traffic.NAME]`` asks to be replayed, made for this server.

    ``directory``: that of ``suite.toml``.

    Raises:
        LoadError: the file cannot be read, or nothing of it fits.
    """
    trace = read(directory / table.file, table.format or None).first(table.requests, table.seconds)
    replay = workload_of(
        trace,
        endpoint,
        rate_per_s=table.rate_per_s,
        output_tokens=table.output_tokens,
        context_length=context_length,
    )
    limits = Limits(table.ttft_s, table.tpot_s, table.e2e_s, table.share)
    return Traffic(replay, limits, table.pace)
